//! The tasks of a demonstration: files that are named, or the examples that are in the program.

use std::path::{Path, PathBuf};

use aileron_preview::task_file::{Expectation, Phase};
use serde_json::Value;

use crate::failure::Failure;
use crate::sdk::Serializer;
use crate::submit::inputs::Given;
use crate::submit::source::{Choices, Work, from_bytes, from_python};
use crate::table;

/// Where the examples are in the source tree.
const EXAMPLES: &str = "examples/tasks";

/// The namespace of tasks that do not name one.
const NAMESPACE: &str = "demo";

/// The module with a task of the real SDK, and what its output must be.
const MODULE: &str = include_str!("../../../../../examples/python/greet.py");
const FILE: &str = "greet.py";
const SDK_TASK: (&str, [(&str, &str); 2], &str) = ("greet", [("name", "ada"), ("x", "41")], "hello ada, 42");

/// A task to show.
#[derive(Debug)]
pub struct Task {
    /// What it is called.
    pub label: String,
    /// What it shows, in a line.
    pub about: String,
    /// What to submit.
    pub work: Work,
}

/// A task file that was found.
struct Found {
    path: String,
    text: String,
}

/// Whether there is a task of the real SDK.
pub enum Sdk {
    /// This one.
    Task(Box<Task>),
    /// None, and how to get it.
    LeftOut(String),
}

/// All tasks of these files and directories; the examples if there are none.
pub fn find(paths: &[PathBuf]) -> Result<Vec<Task>, Failure> {
    let found = match paths {
        [] => built_in(),
        paths => {
            let mut found = Vec::new();
            for path in paths {
                found.extend(if path.is_dir() { in_directory(path)? } else { vec![file(path)?] });
            }
            found
        }
    };
    found.iter().map(read).collect()
}

fn in_directory(directory: &Path) -> Result<Vec<Found>, Failure> {
    let cannot = |error| Failure::Usage(format!("{}: cannot read it: {error}", directory.display()));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Failure::Usage(format!("{}: there is no task file (*.yaml) in it", directory.display())));
    }
    paths.sort();
    paths.iter().map(|path| file(path)).collect()
}

fn file(path: &Path) -> Result<Found, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("{}: cannot read it: {error}", path.display())))?;
    Ok(Found { path: path.display().to_string(), text })
}

fn read(found: &Found) -> Result<Task, Failure> {
    let label = Path::new(&found.path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let choices = choices(&label);
    let work = from_bytes(found.text.as_bytes(), &found.path, &Given::default(), &choices)?;
    Ok(Task { label, about: about(&found.text), work })
}

/// Names that the file's own name gives.
fn choices(label: &str) -> Choices {
    Choices { namespace: NAMESPACE.into(), run: Some(label.into()), name: Some(label.into()), ..Choices::default() }
}

/// What a file says about itself: the first sentence of its comment.
fn about(text: &str) -> String {
    let comment: Vec<_> = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    let comment = comment.join(" ");
    let comment = comment.trim();
    comment.split_once(". ").map_or(comment, |(sentence, _)| sentence).trim_end_matches('.').to_owned()
}

/// The task of the real SDK, if the Python that tasks get has it. Its module is put below `dir`.
pub async fn sdk(python: Option<&Path>, dir: &Path) -> Sdk {
    match try_sdk(python, dir).await {
        Ok(task) => Sdk::Task(Box::new(task)),
        Err(failure) => {
            // The module's place is ours and says nothing to anybody.
            let text = failure.to_string();
            let text = text.strip_prefix(&format!("{}:{}: ", dir.join(FILE).display(), SDK_TASK.0)).unwrap_or(&text);
            Sdk::LeftOut(format!("A task of the real SDK was left out: {text}"))
        }
    }
}

async fn try_sdk(python: Option<&Path>, dir: &Path) -> Result<Task, Failure> {
    let module = dir.join(FILE);
    std::fs::write(&module, MODULE)
        .map_err(|error| Failure::Usage(format!("{}: cannot write it: {error}", module.display())))?;
    let serializer = Serializer::choose(python, |name| std::env::var_os(name).map(PathBuf::from));
    let (task, inputs, output) = SDK_TASK;
    let texts = inputs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let given = Given { texts, file: None };
    let label = "python-sdk";
    let mut work = from_python(&serializer, &module, task, &given, &choices(label), true).await?;
    for request in &mut work.requests {
        request.expect = Some(Expectation {
            phase: Phase::Succeeded,
            pending: None,
            attempts: Some(1),
            reason: None,
            error: None,
            outputs: [("o0".to_owned(), Value::from(output))].into(),
        });
    }
    Ok(Task {
        label: label.into(),
        about: "A Python task of the real flyte SDK, with typed inputs and outputs".into(),
        work,
    })
}

/// A list of the tasks, for whoever watches.
pub fn introduce(tasks: &[Task]) -> String {
    let rows: Vec<_> = tasks.iter().map(|task| vec![task.label.clone(), task.about.clone()]).collect();
    format!("{}\n", table::render(&["TASK", "SHOWS"], &rows))
}

/// The examples as they were when the program was built, the simplest first.
fn built_in() -> Vec<Found> {
    macro_rules! example {
        ($name:literal) => {
            ($name, include_str!(concat!("../../../../../examples/tasks/", $name, ".yaml")))
        };
    }
    let all = [
        example!("hello"),
        example!("inputs-and-outputs"),
        example!("sidecar"),
        example!("recovers"),
        example!("retries"),
        example!("timeout"),
        example!("abort"),
        example!("image-missing"),
        example!("unschedulable"),
        example!("quota-burst"),
        example!("spark"),
    ];
    let one = |(name, text): (&str, &str)| Found { path: format!("{EXAMPLES}/{name}.yaml"), text: text.to_owned() };
    all.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn files_and_directories_are_read_and_mistakes_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("b.yaml"), "#\n# Shows b. And\n# more.\nname: x\nimage: i\ncopies: 2\n")
            .unwrap();
        std::fs::write(dir.path().join("a.yml"), "name: y\nimage: i\n").unwrap();
        std::fs::write(dir.path().join("README.md"), "no task").unwrap();
        let tasks = find(&[dir.path().to_owned()]).unwrap();
        let labels: Vec<_> = tasks.iter().map(|task| (task.label.as_str(), task.about.as_str())).collect();
        assert_eq!(labels, [("a", ""), ("b", "Shows b")]);
        assert_eq!(tasks[0].work.requests[0].name.as_deref(), Some("a"));
        assert_eq!(tasks[1].work.requests.len(), 2);
        let empty = tempfile::tempdir().unwrap();
        assert!(find(&[empty.path().to_owned()]).unwrap_err().to_string().contains("no task file"));
        assert!(find(&["nowhere.yaml".into()]).unwrap_err().to_string().contains("nowhere.yaml: cannot read it"));
    }

    #[test]
    fn the_examples_in_the_program_are_those_of_the_source_tree() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(EXAMPLES);
        let names = |found: Vec<Found>| {
            let stem = |found: Found| Path::new(&found.path).file_stem().unwrap().to_string_lossy().into_owned();
            let mut names: Vec<_> = found.into_iter().map(stem).collect();
            names.sort();
            names
        };
        assert_eq!(names(built_in()), names(in_directory(&tree).unwrap()));
        for found in built_in() {
            let task = read(&found).unwrap();
            assert!(!task.about.is_empty(), "{}: begins with a comment that says what it shows", found.path);
            assert!(task.work.requests.iter().all(|request| request.expect.is_some()), "{}: has `expect`", found.path);
        }
    }
}
