"""Writes the descriptors of Flyte's published Python package as one FileDescriptorSet.

Usage: flyteidl2_descriptors.py REQUIREMENTS OUTPUT

REQUIREMENTS is a file of pip with the version and the sha256 sum of the package. The package is downloaded with pip but
neither installed nor imported: every generated module carries its serialized FileDescriptorProto as a bytes literal,
which the parser of the standard library finds.
"""

import ast
import os
import subprocess
import sys
import tempfile
import zipfile

# Field 1 of FileDescriptorSet, length-delimited.
FILE_TAG = b"\x0a"


def download(requirements, folder):
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--require-hashes", "--dest", folder, "--requirement", requirements], check=True)
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if len(wheels) != 1:
        sys.exit(f"expected the one wheel that {requirements} names, got {wheels}")
    return os.path.join(folder, wheels[0])


def serialized_files(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith("flyteidl2/") and name.endswith("_pb2.py"):
                for node in ast.walk(ast.parse(archive.read(name))):
                    if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "AddSerializedFile":
                        yield node.args[0].value


def varint(number):
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def main(requirements, output):
    with tempfile.TemporaryDirectory() as folder:
        files = list(serialized_files(download(requirements, folder)))
    if not files:
        sys.exit(f"the wheel that {requirements} names holds no descriptors; its generated modules have changed their form")
    os.makedirs(os.path.dirname(output), exist_ok=True)
    # Written beside the target and renamed, so that a broken run never leaves half a file in the cache.
    partial = f"{output}.{os.getpid()}"
    with open(partial, "wb") as target:
        for file in files:
            target.write(FILE_TAG + varint(len(file)) + file)
    os.replace(partial, output)


if __name__ == "__main__":
    main(*sys.argv[1:])
