//! What was named on the command line, as requests: a file, or a task of a Python module.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aileron_machinery::error_text::chain;
use aileron_preview::read::{self, ReadError};
use anyhow::Context;
use prost::Message;
use serde_json::Value;

use super::inputs::Given;
use super::{Request, run_name};
use crate::failure::Failure;
use crate::sdk;

/// What to submit, and what goes with it.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// One for each copy; all in the same namespace.
    pub requests: Vec<Request>,
    /// Kubernetes objects to be made before.
    pub objects: Vec<Value>,
    /// When to abort, counted from the creation.
    pub abort_after: Option<Duration>,
}

/// What the caller wants, over what the task says.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Where the actions are to be, if the task does not say.
    pub namespace: String,
    /// Where they are to be whatever the task says.
    pub forced_namespace: Option<String>,
    pub project: Option<String>,
    pub domain: Option<String>,
    pub run: Option<String>,
    pub name: Option<String>,
    pub retries: Option<u32>,
}

/// A task that somebody names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, or standard input.
    File(PathBuf),
    /// A task of a Python module.
    Python { module: PathBuf, task: String },
}

impl Source {
    /// `MODULE.py:TASK` is Python, everything else a file.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if let Some((module, task)) = text.rsplit_once(':')
            && module.ends_with(".py")
        {
            return Ok(Self::Python { module: module.into(), task: task.to_owned() });
        }
        if text.ends_with(".py") {
            return Err(Failure::Usage(format!("{text}: say which of its tasks, as {text}:TASK")));
        }
        Ok(Self::File(text.into()))
    }
}

/// Reads a file and the inputs for it.
pub fn from_file(path: &Path, given: &Given, choices: &Choices) -> Result<Work, Failure> {
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
    } else {
        bytes = std::fs::read(path).map_err(|error| Failure::Usage(format!("{name}: cannot read it: {error}")))?;
    }
    from_bytes(&bytes, &name, given, choices)
}

/// As [`from_file`], with the content at hand; `name` is how mistakes in it are told.
pub fn from_bytes(bytes: &[u8], name: &str, given: &Given, choices: &Choices) -> Result<Work, Failure> {
    let task = read::task(bytes).map_err(|error| unreadable(name, error))?;
    let file = task.file.as_deref();
    let defaults = file.map(|file| file.defaults.clone()).unwrap_or_default();
    let inputs = given.literals(&task.template, &defaults).map_err(|failure| match failure {
        Failure::Usage(text) => Failure::Usage(format!("{name}: {text}")),
        other => other,
    })?;
    let metadata = task.action.metadata.clone();
    let mut request = Request {
        inputs: inputs.encode_to_vec().into(),
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        interruptible: task.action.spec.interruptible,
        env_vars: task.action.spec.env_vars.clone(),
        expect: file.and_then(|file| file.expect.clone()),
        namespace: choices.namespace.clone(),
        template: task.template,
        ..Request::default()
    };
    // Names in a template alone stand for nothing; those in an action were meant.
    let own_namespace = match file {
        Some(file) => file.namespace.clone(),
        None => metadata.namespace.filter(|_| !task.is_bare),
    };
    if !task.is_bare {
        request.project.clone_from(&task.action.spec.project);
        request.domain.clone_from(&task.action.spec.domain);
        request.short_name.clone_from(&task.action.spec.short_name);
    }
    if let Some(namespace) = choices.forced_namespace.clone().or(own_namespace) {
        request.namespace = namespace;
    }
    let copies = file.map_or(1, |file| file.copies);
    Ok(Work {
        requests: copied(chosen(request, choices), copies),
        objects: file.map(|file| file.objects.clone()).unwrap_or_default(),
        abort_after: file.and_then(|file| file.abort_after),
    })
}

/// Serialises a task of a Python module. `local` says that its pod runs on this machine.
pub async fn from_python(
    serializer: &sdk::Serializer,
    module: &Path,
    task: &str,
    given: &Given,
    choices: &Choices,
    local: bool,
) -> Result<Work, Failure> {
    let serialized = serializer.serialize(module, task, given, choices).await?;
    let mut request = Request {
        template: serialized.template.clone(),
        inputs: serialized.inputs.clone(),
        short_name: serialized.short_name.clone(),
        namespace: choices.forced_namespace.clone().unwrap_or_else(|| choices.namespace.clone()),
        ..Request::default()
    };
    if local {
        serialized.run_here(&mut request)?;
    }
    Ok(Work { requests: vec![chosen(request, choices)], ..Work::default() })
}

fn chosen(mut request: Request, choices: &Choices) -> Request {
    let Choices { project, domain, run, name, retries, .. } = choices.clone();
    request.project = project.unwrap_or(request.project);
    request.domain = domain.unwrap_or(request.domain);
    Request { run: run.or(request.run), name: name.or(request.name), retries: retries.or(request.retries), ..request }
}

/// Copies with names of their own: numbered below a given name, else made up.
fn copied(request: Request, copies: u32) -> Vec<Request> {
    if copies == 1 {
        return vec![request];
    }
    let task = request.template.id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
    let run = request.run.clone().unwrap_or_else(|| run_name(&task));
    let numbered = |name: &str, number: u32| format!("{name}-{number}");
    (1..=copies)
        .map(|number| Request {
            run: Some(numbered(&run, number)),
            name: request.name.as_ref().map(|name| numbered(name, number)),
            ..request.clone()
        })
        .collect()
}

/// Why a file is of no use; each mistake of a task file on a line of its own, and each with the file.
pub fn unreadable(name: &str, error: ReadError) -> Failure {
    match error {
        ReadError::TaskFile(errors) => {
            let lines = errors.0.iter().map(|error| format!("{name}:{error}").replacen(":line ", ":", 1));
            Failure::Usage(lines.collect::<Vec<_>>().join("\n"))
        }
        error => Failure::Usage(format!("{name}: {}", first_line(&chain(&error)))),
    }
}

/// The parser draws the place below its first line, which has line and column already.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn python_is_told_from_files() {
        let python = Source::Python { module: "a/b.py".into(), task: "t".into() };
        assert_eq!(Source::parse("a/b.py:t").unwrap(), python);
        assert_eq!(Source::parse("C:/x.yaml").unwrap(), Source::File("C:/x.yaml".into()));
        assert!(Source::parse("b.py").unwrap_err().to_string().contains("b.py:TASK"));
    }

    #[test]
    fn copies_have_names_of_their_own_and_the_caller_wins() {
        let text = "{name: burst, image: i, copies: 3, namespace: quota, project: p, expect: {phase: succeeded}}";
        let choices = Choices { namespace: "default".into(), run: Some("b".into()), ..Choices::default() };
        let work = from_bytes(text.as_bytes(), "f", &Given::default(), &choices).unwrap();
        let runs: Vec<_> = work.requests.iter().map(|request| request.run.clone().unwrap()).collect();
        assert_eq!(runs, ["b-1", "b-2", "b-3"]);
        assert!(work.requests.iter().all(|request| request.namespace == "quota" && request.expect.is_some()));
        let choices = Choices { forced_namespace: Some("mine".into()), project: Some("q".into()), ..choices };
        let work = from_bytes(text.as_bytes(), "f", &Given::default(), &choices).unwrap();
        assert_eq!((work.requests[0].namespace.as_str(), work.requests[0].project.as_str()), ("mine", "q"));
    }

    #[test]
    fn every_mistake_is_told_with_file_and_line() {
        let text = b"name: t\nretires: 1\ncopies: x\n";
        let error = from_bytes(text, "task.yaml", &Given::default(), &Choices::default()).unwrap_err().to_string();
        let lines: Vec<_> = error.lines().collect();
        assert_eq!(lines[0], "task.yaml:2: retires: no such field; did you mean `retries`?");
        assert!(lines[1].starts_with("task.yaml:3: copies: must be a whole number"), "{error}");
    }
}
