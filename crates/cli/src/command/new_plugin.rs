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

/// The repository that this program was built in. Released programs do not contain it.
const REPOSITORY: Option<&str> = option_env!("AILERON_REPOSITORY");

pub fn run(program: &str, arguments: &NewPluginArguments) -> Result<(), Failure> {
    let names = Names::new(&arguments.name, &arguments.kind, arguments.plural.as_deref()).map_err(Failure::Usage)?;
    let default = || PathBuf::from(format!("aileron-plugin-{}", names.kebab));
    let directory = arguments.directory.clone().unwrap_or_else(default);
    if directory.exists() && !is_empty(&directory) {
        return Err(Failure::Usage(format!("{} exists: name a new directory with --directory", directory.display())));
    }
    if FILES.is_empty() {
        return Err(Failure::Usage(format!(
            "this {program} was built from a package, which has no plugin template: build it in Aileron's repository, with \
             `cargo install --locked --path crates/cli`"
        )));
    }
    let sources = FILES.iter().filter(|file| file.path.ends_with(".rs"));
    if let Some(name) = sources.filter_map(|file| names.collision(file.content)).next() {
        return Err(Failure::Usage(format!(
            "--kind {}: the sources of the plugin have a type {name} already: choose another kind",
            arguments.kind
        )));
    }
    let Some(repository) = arguments.repository.as_deref().or_else(|| REPOSITORY.map(Path::new)) else {
        return Err(Failure::Usage(
            "the plugin needs the crates of Aileron's repository: name a checkout with --repository".to_owned(),
        ));
    };
    let crates = repository.join("crates").canonicalize().ok().filter(|crates| crates.join("machinery").is_dir());
    let Some(crates) = crates else {
        return Err(Failure::Usage(format!(
            "{} is not Aileron's repository, and the plugin needs its crates: name it with --repository",
            repository.display()
        )));
    };
    for file in FILES {
        let path = directory.join(names.rename(file.path));
        write(&path, &content(file, &names, &crates), file.is_executable)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    format(&directory);
    output::print(&next_steps(program, &directory, &names))
}

/// The content of a file of the copy, which uses the crates in this folder.
fn content(file: &TemplateFile, names: &Names, crates: &Path) -> String {
    let renamed = || names.rename(file.content);
    match file.path {
        "Cargo.lock" => lock_file::sorted(&renamed()),
        "Cargo.toml" => renamed().replace("\"../../crates/", &format!("\"{}/", crates.display())),
        "README.md" => without_template_part(&renamed()),
        path if path.ends_with("_pb2.py") => python_message::renamed(file.content, names),
        _ => renamed(),
    }
}

/// The page without the part that says how to copy the template.
fn without_template_part(page: &str) -> String {
    let parts = page
        .split_once("<!-- template")
        .and_then(|(before, rest)| Some((before, rest.split_once("<!-- end -->\n\n")?.1)));
    parts.map_or_else(|| page.to_owned(), |(before, after)| format!("{before}{after}"))
}

fn is_empty(directory: &Path) -> bool {
    directory.read_dir().is_ok_and(|mut entries| entries.next().is_none())
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

/// Longer or shorter names may move line breaks.
fn format(directory: &Path) {
    let formatted = Command::new("cargo").arg("fmt").current_dir(directory).output();
    if !formatted.is_ok_and(|output| output.status.success()) {
        output::warn("cargo fmt failed: run it before `make test`, which checks the format");
    }
}

fn next_steps(program: &str, directory: &Path, names: &Names) -> String {
    let (directory, kebab) = (directory.display(), &names.kebab);
    format!(
        "Wrote a plugin for tasks of type {kebab} to {directory}.

  cd {directory}
  make demo     run a task of the new type on this machine
  make test     all checks, in Rust and Python

README.md lists the places to change. target/debug/aileron-{kebab} has all commands of {program}, with the plugin.
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
            let content = content(file, &names(), sources);
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
        for file in FILES.iter().filter(|file| !["Cargo.toml", "README.md"].contains(&file.path)) {
            assert_eq!(names.rename(file.path), file.path);
            assert!(content(file, &names, Path::new("/")) == file.content, "{}", file.path);
        }
    }

    #[test]
    fn the_page_of_a_copy_does_not_say_how_to_copy_the_template() {
        let page = FILES.iter().find(|file| file.path == "README.md").unwrap();
        let copy = content(page, &names(), Path::new("/"));
        assert!(page.content.contains("new-plugin") && !copy.contains("new-plugin"), "{copy}");
        assert!(copy.starts_with("# ") && copy.contains("make demo") && !copy.contains("<!--"), "{copy}");
    }

    #[test]
    fn the_copy_uses_the_crates_of_the_repository() {
        let manifest = FILES.iter().find(|file| file.path == "Cargo.toml").unwrap();
        let content = content(manifest, &names(), Path::new("/aileron/crates"));
        assert!(content.contains("aileron = { path = \"/aileron/crates/cli\" }"), "{content}");
        assert!(!content.contains("../.."), "{content}");
    }
}
