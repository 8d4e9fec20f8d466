//! `aileron new-plugin`: writes a copy of the plugin template with other names.

mod lock_file;
mod names;
mod python_message;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use self::names::Names;
use crate::arguments::NewPluginArguments;
use crate::display::output;
use crate::failure::Failure;

/// A file of the template.
struct TemplateFile {
    /// Relative to the folder of the template.
    path: &'static str,
    is_executable: bool,
    content: &'static str,
}

const FILES: &[TemplateFile] = include!(concat!(env!("OUT_DIR"), "/plugin_template.rs"));

/// Where the crates of Aileron were when this program was built.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

pub fn run(program: &str, arguments: &NewPluginArguments) -> Result<(), Failure> {
    let names = Names::new(&arguments.name, &arguments.kind, arguments.plural.as_deref()).map_err(Failure::Usage)?;
    let directory =
        arguments.directory.clone().unwrap_or_else(|| PathBuf::from(format!("aileron-plugin-{}", names.kebab)));
    if FILES.is_empty() {
        return Err(Failure::Failed(anyhow::anyhow!(
            "this program was built without the template: build it in Aileron's repository, or copy examples/plugin-template"
        )));
    }
    if directory.exists() {
        return Err(Failure::Usage(format!("{} exists: name a new directory with --directory", directory.display())));
    }
    let sources = Path::new(SOURCES).canonicalize().ok().filter(|path| path.join("machinery/Cargo.toml").exists());
    for file in FILES {
        let path = directory.join(names.rename(file.path));
        let content = content(file, &names, sources.as_deref());
        // Without the sources, cargo resolves the versions of the packages on the first build.
        let Some(content) = content else { continue };
        write(&path, &content, file.is_executable).with_context(|| format!("cannot write {}", path.display()))?;
    }
    format(&directory);
    output::print(&next_steps(program, &directory, &names, sources.is_some()))
}

/// The content of a file of the copy. Nothing if the copy does not have it.
fn content(file: &TemplateFile, names: &Names, sources: Option<&Path>) -> Option<String> {
    let renamed = || names.rename(file.content);
    match file.path {
        "Cargo.lock" => sources.map(|_| lock_file::sorted(&renamed())),
        "Cargo.toml" => Some(with_dependencies(&renamed(), sources)),
        path if path.ends_with("_pb2.py") => Some(python_message::renamed(file.content, names)),
        _ => Some(renamed()),
    }
}

/// The manifest with the crates of Aileron from where they are: the sources of this program, or the registry.
fn with_dependencies(manifest: &str, sources: Option<&Path>) -> String {
    match sources {
        Some(sources) => manifest.replace("\"../../crates/", &format!("\"{}/", sources.display())),
        None => {
            let version = env!("CARGO_PKG_VERSION");
            manifest
                .replace("{ path = \"../../crates/cli\" }", &format!("\"{version}\""))
                .replace("{ path = \"../../crates/machinery\" }", &format!("\"{version}\""))
        }
    }
}

fn write(path: &Path, content: &str, is_executable: bool) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(path, content)?;
    if is_executable {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Longer or shorter names may move line breaks. Without `cargo fmt` the copy works, too.
fn format(directory: &Path) {
    let _ = Command::new("cargo").args(["fmt", "--all"]).current_dir(directory).output();
}

fn next_steps(program: &str, directory: &Path, names: &Names, has_sources: bool) -> String {
    let (directory, kebab) = (directory.display(), &names.kebab);
    let source = if has_sources { "the sources that this program was built from" } else { "the registry" };
    format!(
        "Wrote a plugin for tasks of type {kebab} to {directory}. It uses the crates of Aileron from {source}.

  cd {directory}
  make demo                      run a task of the new type on this machine
  make test                      all checks, in Rust and Python
  grep -rn 'TODO(plugin)' .      the places to change, in order; README.md explains them

Then: target/debug/aileron-{kebab} has all commands of {program}, with the plugin.
"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn names() -> Names {
        Names::new("tea-kettle", "Kettle.kitchen.example.com/v2", None).unwrap()
    }

    #[test]
    fn no_name_of_the_template_is_left() {
        let sources = Path::new("/sources");
        for file in FILES {
            let path = names().rename(file.path);
            let content = content(file, &names(), Some(sources)).unwrap();
            for text in [path.as_str(), content.as_str()] {
                let left = text.to_lowercase().find("batch");
                assert_eq!(left.map(|at| &text[at..text.len().min(at + 40)]), None, "{path}");
                assert!(!text.contains("compute.example.org"), "{path}");
            }
        }
        assert!(FILES.iter().any(|file| file.path == "demo/run" && file.is_executable));
    }

    #[test]
    fn a_copy_with_the_names_of_the_template_is_the_template() {
        let names = Names::new("batch", "BatchJob.compute.example.org/v1", None).unwrap();
        for file in FILES.iter().filter(|file| file.path != "Cargo.toml") {
            assert_eq!(names.rename(file.path), file.path);
            assert!(content(file, &names, Some(Path::new("/"))).unwrap() == file.content, "{}", file.path);
        }
    }

    #[test]
    fn the_crates_come_from_the_sources_or_from_the_registry() {
        let manifest = "aileron = { path = \"../../crates/cli\" }\n";
        assert_eq!(with_dependencies(manifest, Some(Path::new("/s"))), "aileron = { path = \"/s/cli\" }\n");
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(with_dependencies(manifest, None), format!("aileron = \"{version}\"\n"));
    }
}
