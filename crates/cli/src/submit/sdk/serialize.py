"""Serialises a task of a Python module and its inputs, with the flyte package of this interpreter.

The request is a JSON object on standard input:
  file       the module, an absolute path
  task       name of the task in it
  inputs     {name: text} from the command line
  values     {name: JSON value} from a file
  project, domain
The answer is one JSON object on standard output: {template, inputs, short_name, root, program, version} with bytes in
base64, or {error, kind} where kind is `environment`, `module`, `inputs` or `task`. The output of the
module itself goes to the error stream.
"""
import asyncio
import base64
import hashlib
import importlib
import json
import os
import pathlib
import sys
import traceback
import types
import typing

# The release whose internal modules are used below. Other releases may have moved them.
SUPPORTED = (2, 12)


class Refused(Exception):
    """The reason why the task cannot be serialised, for people."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def check_flyte():
    here = sys.executable
    if sys.version_info < (3, 10):
        raise Refused("environment", f"{here} is Python {sys.version.split()[0]}; flyte needs 3.10 or later: "
                                     "choose another interpreter with --python PATH")
    try:
        import flyte
    except ImportError as error:
        if error.name not in (None, "flyte"):
            raise Refused("environment", f"the flyte package of {here} cannot be imported: {error}") from error
        raise Refused("environment", f"{here} has no flyte package: install it with "
                                     f"`{here} -m pip install 'flyte==2.12.*'`, "
                                     "or choose another interpreter with --python PATH") from None
    version = getattr(flyte, "__version__", "unknown")
    parts = version.split(".")
    if not (len(parts) > 1 and parts[0] == str(SUPPORTED[0])):
        raise Refused("environment", f"{here} has flyte {version}; tasks are serialised with flyte "
                                     f"{SUPPORTED[0]}.{SUPPORTED[1]}.x: `{here} -m pip install 'flyte==2.12.*'`")
    return version


def root_of(path):
    """The directory that must be on the import path: the first parent directory that is not a package."""
    root = path.parent
    while (root / "__init__.py").exists() and root.parent != root:
        root = root.parent
    return root


def load(path, name):
    from flyte._task import TaskTemplate

    root = root_of(path)
    sys.path.insert(0, str(root))
    module_name = ".".join(path.relative_to(root).with_suffix("").parts)
    try:
        module = importlib.import_module(module_name)
    except Exception:
        raise Refused("module", f"{path} cannot be imported:\n{user_traceback(path)}") from None
    tasks = [key for key, value in vars(module).items() if isinstance(value, TaskTemplate)]
    task = getattr(module, name, None)
    if not isinstance(task, TaskTemplate):
        there = f"it has {', '.join(tasks)}" if tasks else "it has none; decorate a function with `@env.task`"
        raise Refused("module", f"{path} has no task {name!r}: {there}")
    return root, task


def user_traceback(path):
    """The traceback without the frames of this program and of Python's import system."""
    kind, value, trace = sys.exc_info()
    frames = traceback.extract_tb(trace)
    own = [index for index, frame in enumerate(frames) if frame.filename == str(path)]
    frames = frames[own[0]:] if own else []
    return "".join(traceback.format_list(frames) + traceback.format_exception_only(kind, value)).rstrip()


def shown(kind):
    """The name of a type as it is written in code."""
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind).replace("typing.", "")


def parse(name, kind, text):
    """Converts a text of the command line to the type of the input."""
    if kind is str:
        return text
    accepted = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    if type(None) in accepted and text in ("null", "None"):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    # For an optional string, `--input name=41` must stay a string.
    if str in accepted and not isinstance(value, (dict, list)):
        value = text
    return validate(name, kind, value, text)


def validate(name, kind, value, written):
    import pydantic

    located = remote_object(kind, value)
    if located is not None:
        return located
    try:
        return pydantic.TypeAdapter(kind).validate_python(value)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise Refused("inputs", f"input {name}{place}: {first['msg']}; it is a {shown(kind)}, found {written}") from None
    except pydantic.errors.PydanticSchemaGenerationError:
        if isinstance(value, kind if isinstance(kind, type) else object):
            return value
        raise Refused("inputs", f"input {name}: a value of type {shown(kind)} cannot be given as text; "
                                "give it a default in the task, or make it a dataclass") from None


def remote_object(kind, value):
    """A file or directory, given by its location. None for any other type."""
    from flyte.io import Dir, File

    origin = typing.get_origin(kind) or kind
    if isinstance(value, str) and isinstance(origin, type):
        for known in (File, Dir):
            if issubclass(origin, known):
                location = value if "://" in value else "file://" + os.path.abspath(value)
                return known.from_existing_remote(location)
    return None


def native_inputs(task, texts, values):
    declared = task.native_interface.inputs
    unknown = [name for name in (*texts, *values) if name not in declared]
    if unknown:
        there = ", ".join(f"{name}: {shown(kind)}" for name, (kind, _) in declared.items())
        raise Refused("inputs", f"input {unknown[0]}: the task has no such input; it has {there or 'none'}")
    natives = {name: validate(name, declared[name][0], value, json.dumps(value)) for name, value in values.items()}
    natives.update((name, parse(name, declared[name][0], text)) for name, text in texts.items())
    missing = [name for name in task.native_interface.required_inputs() if name not in natives]
    if missing:
        told = ", ".join(f"{name} ({shown(declared[name][0])})" for name in missing)
        raise Refused("inputs", f"missing inputs: {told}; give them as --input {missing[0]}=VALUE")
    return natives


def answer(request):
    version = check_flyte()
    path = pathlib.Path(request["file"])
    root, task = load(path, request["task"])

    from flyte._internal.runtime.convert import convert_from_native_to_inputs
    from flyte._internal.runtime.task_serde import translate_task_to_wire
    from flyte.models import SerializationContext

    natives = native_inputs(task, request.get("inputs", {}), request.get("values", {}))
    context = SerializationContext(
        version=hashlib.sha256(path.read_bytes()).hexdigest()[:16],
        project=request.get("project"),
        domain=request.get("domain"),
        root_dir=root,
    )
    try:
        spec = translate_task_to_wire(task, context)
    except Exception as error:
        raise Refused("task", f"task {task.name} cannot be serialised: {error}") from error
    try:
        inputs = asyncio.run(convert_from_native_to_inputs(task.native_interface, **natives))
    except Exception as error:
        raise Refused("inputs", f"the inputs of {task.name} cannot be converted: {error}") from error
    return {
        "template": base64.b64encode(spec.task_template.SerializeToString(deterministic=True)).decode(),
        "inputs": base64.b64encode(inputs.proto_inputs.SerializeToString(deterministic=True)).decode(),
        "short_name": spec.short_name,
        "root": str(root),
        "program": os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "a0"),
        "version": version,
    }


def main():
    # Write no bytecode files beside the user's sources, and do not import from the current directory.
    sys.dont_write_bytecode = True
    sys.path[:] = [entry for entry in sys.path if entry]
    # The output of the module must not mix with the answer: redirect it to the error stream.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        result = answer(json.load(sys.stdin))
    except Refused as refused:
        result = {"kind": refused.kind, "error": str(refused)}
    except Exception:
        result = {"kind": "task", "error": traceback.format_exc().rstrip()}
    json.dump(result, out)
    out.flush()


if __name__ == "__main__":
    main()
