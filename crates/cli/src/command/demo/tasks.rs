//! The tasks of a demo: files of the user, or the examples that are built into the program.

use std::path::{Path, PathBuf};

use aileron_preview::task_file::{Expectation, PhaseWord};
use serde_json::Value;

use crate::display::table;
use crate::failure::Failure;
use crate::submit::SubmitOptions;
use crate::submit::inputs::GivenInputs;
use crate::submit::sdk::Serializer;
use crate::submit::source::{SubmitPlan, from_bytes, from_python};

/// The directory of the examples in the source tree.
const EXAMPLES: &str = "examples/tasks";

/// The namespace of tasks whose file names none.
const NAMESPACE: &str = "demo";

/// The Python module with a task of the flyte SDK: its text and its file name.
const MODULE: &str = include_str!("../../../demo/python/greet.py");
const MODULE_FILE: &str = "greet.py";
/// The task in that module: its name, its inputs, and the expected output.
const SDK_TASK: (&str, [(&str, &str); 2], &str) = ("greet", [("name", "ada"), ("x", "41")], "hello ada, 42");

/// A task of the demo.
#[derive(Debug)]
pub struct DemoTask {
    /// The name of the task in the report.
    pub label: String,
    /// What the task shows, in one line.
    pub about: String,
    /// What to submit.
    pub plan: SubmitPlan,
}

/// A task file.
struct TaskFile {
    path: String,
    text: String,
}

/// The task of the flyte SDK, which needs a Python with the SDK.
pub enum SdkTask {
    /// The task.
    Available(Box<DemoTask>),
    /// The task cannot be serialised. The text says why, and what may help.
    Unavailable(String),
}

/// The tasks of these files and directories, or the built-in examples if there are none.
pub fn find(paths: &[PathBuf]) -> Result<Vec<DemoTask>, Failure> {
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

fn in_directory(directory: &Path) -> Result<Vec<TaskFile>, Failure> {
    let cannot = |error| Failure::Usage(format!("{}: cannot read it: {error}", directory.display()));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Failure::Usage(format!("{}: the directory has no task file (*.yaml)", directory.display())));
    }
    paths.sort();
    paths.iter().map(|path| file(path)).collect()
}

fn file(path: &Path) -> Result<TaskFile, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("{}: cannot read it: {error}", path.display())))?;
    Ok(TaskFile { path: path.display().to_string(), text })
}

fn read(found: &TaskFile) -> Result<DemoTask, Failure> {
    let label = Path::new(&found.path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let options = options(&label);
    let plan = from_bytes(found.text.as_bytes(), &found.path, &GivenInputs::default(), &options)?;
    Ok(DemoTask { label, about: about(&found.text), plan })
}

/// Run and action are named after the file.
fn options(label: &str) -> SubmitOptions {
    SubmitOptions {
        namespace: NAMESPACE.into(),
        run: Some(label.into()),
        name: Some(label.into()),
        ..SubmitOptions::default()
    }
}

/// What a task shows: the first sentence of the comment at the top of its file.
fn about(text: &str) -> String {
    let comment: Vec<_> = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    let comment = comment.join(" ");
    let comment = comment.trim();
    comment.split_once(". ").map_or(comment, |(sentence, _)| sentence).trim_end_matches('.').to_owned()
}

/// The task of the flyte SDK, serialised with the Python of the sandbox. Its module is written to `dir`.
pub async fn sdk_task(python: Option<&Path>, dir: &Path) -> SdkTask {
    match serialize_sdk_task(python, dir).await {
        Ok(task) => SdkTask::Available(Box::new(task)),
        Err(failure) => {
            // The path of the module is temporary and of no use to the user.
            let text = failure.to_string();
            let text =
                text.strip_prefix(&format!("{}:{}: ", dir.join(MODULE_FILE).display(), SDK_TASK.0)).unwrap_or(&text);
            SdkTask::Unavailable(format!("The task of the flyte SDK was left out: {text}"))
        }
    }
}

async fn serialize_sdk_task(python: Option<&Path>, dir: &Path) -> Result<DemoTask, Failure> {
    let module = dir.join(MODULE_FILE);
    std::fs::write(&module, MODULE)
        .map_err(|error| Failure::Usage(format!("{}: cannot write it: {error}", module.display())))?;
    let serializer = Serializer::choose(python, |name| std::env::var_os(name).map(PathBuf::from));
    let (task, inputs, output) = SDK_TASK;
    let texts = inputs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let given = GivenInputs { texts, file: None };
    let label = "python-sdk";
    let mut plan = from_python(&serializer, &module, task, &given, &options(label), true).await?;
    for request in &mut plan.requests {
        request.expect = Some(Expectation {
            phase: PhaseWord::Succeeded,
            pending: None,
            attempts: Some(1),
            reason: None,
            error: None,
            outputs: [("o0".to_owned(), Value::from(output))].into(),
        });
    }
    Ok(DemoTask {
        label: label.into(),
        about: "A Python task of the flyte SDK, with typed inputs and outputs".into(),
        plan,
    })
}

/// A table of the tasks and what they show.
pub fn overview(tasks: &[DemoTask]) -> String {
    let rows: Vec<_> = tasks.iter().map(|task| vec![task.label.clone(), task.about.clone()]).collect();
    format!("{}\n", table::render(&["TASK", "SHOWS"], &rows))
}

/// The examples that are built into the program, the simplest first.
fn built_in() -> Vec<TaskFile> {
    macro_rules! example {
        ($name:literal) => {
            ($name, include_str!(concat!("../../../demo/tasks/", $name, ".yaml")))
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
    let one = |(name, text): (&str, &str)| TaskFile { path: format!("{EXAMPLES}/{name}.yaml"), text: text.to_owned() };
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
        assert_eq!(tasks[0].plan.requests[0].name.as_deref(), Some("a"));
        assert_eq!(tasks[1].plan.requests.len(), 2);
        let empty = tempfile::tempdir().unwrap();
        assert!(find(&[empty.path().to_owned()]).unwrap_err().to_string().contains("has no task file"));
        assert!(find(&["nowhere.yaml".into()]).unwrap_err().to_string().contains("nowhere.yaml: cannot read it"));
    }

    #[test]
    fn the_built_in_examples_are_those_of_the_source_tree() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(EXAMPLES);
        let names = |found: Vec<TaskFile>| {
            let stem = |found: TaskFile| Path::new(&found.path).file_stem().unwrap().to_string_lossy().into_owned();
            let mut names: Vec<_> = found.into_iter().map(stem).collect();
            names.sort();
            names
        };
        assert_eq!(names(built_in()), names(in_directory(&tree).unwrap()));
        for found in built_in() {
            let task = read(&found).unwrap();
            assert!(!task.about.is_empty(), "{}: begins with a comment that says what it shows", found.path);
            assert!(task.plan.requests.iter().all(|request| request.expect.is_some()), "{}: has `expect`", found.path);
        }
    }
}
