//! The task of a command line: a file, or a task of a Python module.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aileron_machinery::error_text::chain;
use aileron_preview::read::{self, ReadError};
use anyhow::Context;
use prost::Message;
use serde_json::Value;

use super::inputs::GivenInputs;
use super::sdk::Serializer;
use super::{Request, SubmitOptions, run_name};
use crate::failure::Failure;

/// Everything to submit for one task of the command line.
#[derive(Clone, Debug, Default)]
pub struct SubmitPlan {
    /// One request per copy of the task, all in the same namespace.
    pub requests: Vec<Request>,
    /// Kubernetes objects that are created before the task.
    pub objects: Vec<Value>,
    /// The time from the creation of an action to its abort.
    pub abort_after: Option<Duration>,
}

/// The task of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskSource {
    /// A file, or standard input.
    File(PathBuf),
    /// A task of a Python module.
    Python { module: PathBuf, task: String },
}

impl TaskSource {
    /// `MODULE.py:TASK` is a Python task; everything else is a file.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if let Some((module, task)) = text.rsplit_once(':')
            && module.ends_with(".py")
        {
            return Ok(Self::Python { module: module.into(), task: task.to_owned() });
        }
        if text.ends_with(".py") {
            return Err(Failure::Usage(format!("{text}: name one of its tasks, as {text}:TASK")));
        }
        Ok(Self::File(text.into()))
    }
}

/// Reads a task from a file or from standard input.
pub fn from_file(path: &Path, given: &GivenInputs, options: &SubmitOptions) -> Result<SubmitPlan, Failure> {
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
    } else {
        bytes = std::fs::read(path).map_err(|error| Failure::Usage(format!("{name}: cannot read it: {error}")))?;
    }
    from_bytes(&bytes, &name, given, options)
}

/// As [`from_file`], with the content of the file. `name` is the name of the file in error messages.
pub fn from_bytes(
    bytes: &[u8],
    name: &str,
    given: &GivenInputs,
    options: &SubmitOptions,
) -> Result<SubmitPlan, Failure> {
    let task = read::task(bytes).map_err(|error| explain_read_error(name, error))?;
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
        namespace: options.namespace.clone(),
        template: task.template,
        ..Request::default()
    };
    // A bare task template gets placeholder names when it is read. They are not used. The names of a TaskAction are.
    let own_namespace = match file {
        Some(file) => file.namespace.clone(),
        None => metadata.namespace.filter(|_| !task.is_bare),
    };
    if !task.is_bare {
        request.project.clone_from(&task.action.spec.project);
        request.domain.clone_from(&task.action.spec.domain);
        request.short_name.clone_from(&task.action.spec.short_name);
    }
    if let Some(namespace) = options.forced_namespace.clone().or(own_namespace) {
        request.namespace = namespace;
    }
    let copies = file.map_or(1, |file| file.copies);
    Ok(SubmitPlan {
        requests: numbered_copies(with_options(request, options), copies),
        objects: file.map(|file| file.objects.clone()).unwrap_or_default(),
        abort_after: file.and_then(|file| file.abort_after),
    })
}

/// Serialises a task of a Python module with the SDK. `local` means that the pod of the task runs on this machine.
pub async fn from_python(
    serializer: &Serializer,
    module: &Path,
    task: &str,
    given: &GivenInputs,
    options: &SubmitOptions,
    local: bool,
) -> Result<SubmitPlan, Failure> {
    let serialized = serializer.serialize(module, task, given, options).await?;
    let mut request = Request {
        template: serialized.template.clone(),
        inputs: serialized.inputs.clone(),
        short_name: serialized.short_name.clone(),
        namespace: options.forced_namespace.clone().unwrap_or_else(|| options.namespace.clone()),
        ..Request::default()
    };
    if local {
        serialized.run_on_this_machine(&mut request)?;
    }
    Ok(SubmitPlan { requests: vec![with_options(request, options)], ..SubmitPlan::default() })
}

fn with_options(mut request: Request, options: &SubmitOptions) -> Request {
    let SubmitOptions { project, domain, run, name, retries, .. } = options.clone();
    request.project = project.unwrap_or(request.project);
    request.domain = domain.unwrap_or(request.domain);
    Request { run: run.or(request.run), name: name.or(request.name), retries: retries.or(request.retries), ..request }
}

/// Copies of a request, with numbers at the end of their names.
fn numbered_copies(request: Request, copies: u32) -> Vec<Request> {
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

/// The error about a file that cannot be read as a task. Each mistake in a task file has its own line with the name of the
/// file and the number of the line.
pub fn explain_read_error(name: &str, error: ReadError) -> Failure {
    match error {
        ReadError::TaskFile(errors) => {
            let lines = errors.0.iter().map(|error| format!("{name}:{error}").replacen(":line ", ":", 1));
            Failure::Usage(lines.collect::<Vec<_>>().join("\n"))
        }
        error => Failure::Usage(format!("{name}: {}", first_line(&chain(&error)))),
    }
}

/// The first line of a parser's error has line and column. The other lines only show an extract of the file.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_python_task_is_recognised_by_its_extension() {
        let python = TaskSource::Python { module: "a/b.py".into(), task: "t".into() };
        assert_eq!(TaskSource::parse("a/b.py:t").unwrap(), python);
        assert_eq!(TaskSource::parse("C:/x.yaml").unwrap(), TaskSource::File("C:/x.yaml".into()));
        assert!(TaskSource::parse("b.py").unwrap_err().to_string().contains("b.py:TASK"));
    }

    #[test]
    fn copies_have_numbered_names_and_options_override_the_file() {
        let text = "{name: burst, image: i, copies: 3, namespace: quota, project: p, expect: {phase: succeeded}}";
        let options = SubmitOptions { namespace: "default".into(), run: Some("b".into()), ..SubmitOptions::default() };
        let work = from_bytes(text.as_bytes(), "f", &GivenInputs::default(), &options).unwrap();
        let runs: Vec<_> = work.requests.iter().map(|request| request.run.clone().unwrap()).collect();
        assert_eq!(runs, ["b-1", "b-2", "b-3"]);
        assert!(work.requests.iter().all(|request| request.namespace == "quota" && request.expect.is_some()));
        let options = SubmitOptions { forced_namespace: Some("mine".into()), project: Some("q".into()), ..options };
        let work = from_bytes(text.as_bytes(), "f", &GivenInputs::default(), &options).unwrap();
        assert_eq!((work.requests[0].namespace.as_str(), work.requests[0].project.as_str()), ("mine", "q"));
    }

    #[test]
    fn every_mistake_is_reported_with_file_and_line() {
        let text = b"name: t\nretires: 1\ncopies: x\n";
        let error =
            from_bytes(text, "task.yaml", &GivenInputs::default(), &SubmitOptions::default()).unwrap_err().to_string();
        let lines: Vec<_> = error.lines().collect();
        assert_eq!(lines[0], "task.yaml:2: retires: no such field; did you mean `retries`?");
        assert!(lines[1].starts_with("task.yaml:3: copies: must be a whole number"), "{error}");
    }
}
