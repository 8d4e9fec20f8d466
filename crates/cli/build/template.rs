//! Packs the plugin template of this repository into the program, for `aileron new-plugin`.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// What builds leave in the folder of the template.
const IGNORED_NAMES: [&str; 2] = ["target", "__pycache__"];
/// The hidden files that belong to the template. Others are those of editors and tools.
const HIDDEN_PARTS: [&str; 3] = [".github", ".gitignore", ".dockerignore"];

/// The files of the template as Rust source. The list is empty outside of this repository, as in a published package.
pub fn source(package: &Path) -> io::Result<String> {
    let mut list = String::from("&[\n");
    if let Ok(root) = package.join("../../examples/plugin-template").canonicalize() {
        for path in files(&root)? {
            println!("cargo:rerun-if-changed={}", path.display());
            let is_executable = fs::metadata(&path)?.permissions().mode() & 0o100 != 0;
            let name = path.strip_prefix(&root).unwrap_or(&path);
            let _ = writeln!(
                list,
                "TemplateFile {{ path: {name:?}, is_executable: {is_executable}, content: include_str!({path:?}) }},"
            );
        }
    }
    list.push(']');
    Ok(list)
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_hidden = name.starts_with('.') && !HIDDEN_PARTS.contains(&name.as_str());
        if is_hidden || IGNORED_NAMES.contains(&name.as_str()) || name.ends_with(".egg-info") {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
