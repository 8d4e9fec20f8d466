//! Task files for people: a readable form of a task template.
//!
//! ```yaml
//! name: hello
//! image: any
//! command: [sh, -c, "echo hello {{.inputs.name}}"]
//! inputs:
//!   name: {type: string, default: world}
//! expect: {phase: succeeded}
//! ```
//!
//! `docs/tasks.md` has all keys. A file says in addition what a demonstration or a test needs around the task: objects
//! to be made before, how many copies, when to abort, and how it is expected to end.

mod expectation;
mod fields;
mod interface;
mod pod;
mod resources;
mod template;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use aileron_idl::flyteidl2::core::task_metadata::InterruptibleValue;
use aileron_idl::flyteidl2::core::{Literal, LiteralMap, TaskTemplate};
use serde_json::Value;

pub use expectation::{Expectation, Observed, Phase};

use self::fields::{Group, Report};
use super::literals::declared_inputs;

/// A task file, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFile {
    /// The template.
    pub template: TaskTemplate,
    /// Namespace of the action, if the file wants one.
    pub namespace: Option<String>,
    /// Labels of the action, and so of its objects.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the action, and so of its objects.
    pub annotations: BTreeMap<String, String>,
    /// Values of inputs that nobody gives.
    pub defaults: BTreeMap<String, Literal>,
    /// How many actions to create.
    pub copies: u32,
    /// Kubernetes objects to be made before.
    pub objects: Vec<Value>,
    /// When to abort, counted from the creation.
    pub abort_after: Option<Duration>,
    /// How it is expected to end.
    pub expect: Option<Expectation>,
}

/// What is wrong with one place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFileError {
    /// Line, from 1.
    pub line: usize,
    /// The field, for example `resources.cpu`; empty for the document.
    pub field: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// Everything that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFileErrors(pub Vec<TaskFileError>);

/// All keys of a file.
const KEYS: &[&str] = &[
    "name",
    "type",
    "type-version",
    "project",
    "domain",
    "version",
    "image",
    "command",
    "args",
    "env",
    "inputs",
    "outputs",
    "resources",
    "accelerator",
    "shared-memory",
    "retries",
    "timeout",
    "interruptible",
    "cache",
    "pod",
    "primary-container",
    "pod-template",
    "labels",
    "annotations",
    "service-account",
    "secrets",
    "custom",
    "config",
    "namespace",
    "copies",
    "objects",
    "abort-after",
    "expect",
];
/// Keys that a template in protobuf's JSON form has as well, with the same meaning or another one.
const SHARED: &[&str] = &["type", "custom", "config"];
/// Keys that only a template in protobuf's JSON form, or something around it, has.
const TEMPLATE_ONLY: &[&str] = &[
    "id",
    "metadata",
    "interface",
    "container",
    "k8s_pod",
    "k8sPod",
    "sql",
    "taskTypeVersion",
    "task_type_version",
    "securityContext",
    "security_context",
    "extendedResources",
    "extended_resources",
    "taskTemplate",
    "task_template",
    "kind",
    "apiVersion",
];

/// More copies are a load test, not an example.
const MAX_COPIES: i64 = 10_000;

/// True if a document looks like a task file and not like a template in protobuf's JSON form.
pub fn is_task_file(document: &Value) -> bool {
    let Some(fields) = document.as_object() else { return false };
    let own = |key: &String| KEYS.contains(&key.as_str()) && !SHARED.contains(&key.as_str());
    fields.keys().any(own) && !fields.keys().any(|key| TEMPLATE_ONLY.contains(&key.as_str()))
}

/// Reads a task file.
///
/// # Errors
/// Everything that is wrong, with lines.
pub fn read(text: &str) -> Result<TaskFile, TaskFileErrors> {
    let node = aileron_config::yaml::parse(text)
        .map_err(|error| TaskFileErrors(vec![TaskFileError::new(error.line, "", error.message)]))?;
    let report = Report::default();
    let file = Group::open(&node, "", KEYS, &report).map(|root| file(&root, &report));
    match (file, report.into_errors()) {
        (Some(file), errors) if errors.is_empty() => Ok(file),
        (_, errors) => Err(TaskFileErrors(errors)),
    }
}

fn file(root: &Group<'_>, report: &Report) -> TaskFile {
    let interface = interface::interface(root, report);
    let template = template::template(root, interface.declared.clone(), report);
    let outputs = super::literals::declared_outputs(Some(&interface.declared));
    let expect = root.get("expect").and_then(|field| expectation::expectation(&field, &outputs, report));
    let copies = root.get("copies").and_then(|field| field.whole(1..=MAX_COPIES, report)).unwrap_or(1);
    let objects = root.get("objects").map(|field| objects(&field, report)).unwrap_or_default();
    TaskFile {
        namespace: root.get("namespace").and_then(|field| field.text(report)),
        labels: root.get("labels").map(|field| field.texts_by_name(report)).unwrap_or_default(),
        annotations: root.get("annotations").map(|field| field.texts_by_name(report)).unwrap_or_default(),
        defaults: interface.defaults,
        copies: u32::try_from(copies).unwrap_or(1),
        objects,
        abort_after: root.get("abort-after").and_then(|field| field.duration(report)),
        expect,
        template,
    }
}

/// Objects are taken as they are; only what makes them objects is looked at.
fn objects(field: &fields::Field<'_>, report: &Report) -> Vec<Value> {
    let mut objects = Vec::new();
    for item in field.items(report) {
        let value = item.json();
        let missing = ["/apiVersion", "/kind", "/metadata/name"]
            .into_iter()
            .find(|pointer| value.pointer(pointer).and_then(Value::as_str).is_none_or(str::is_empty));
        match missing {
            Some(pointer) => {
                let name = pointer.trim_start_matches('/').replace('/', ".");
                item.complain(format!("{name} is missing; give a whole Kubernetes object"), report);
            }
            None => objects.push(value),
        }
    }
    objects
}

impl TaskFile {
    /// Whether it may run on machines that can be taken away, if the file says so.
    pub fn interruptible(&self) -> Option<bool> {
        let metadata = self.template.metadata.as_ref()?;
        metadata.interruptible_value.as_ref().map(|InterruptibleValue::Interruptible(value)| *value)
    }

    /// The inputs, if those that nobody gave all have a default.
    pub fn default_inputs(&self) -> Option<LiteralMap> {
        let declared = declared_inputs(self.template.interface.as_ref());
        let complete = declared.iter().all(|(name, _)| self.defaults.contains_key(*name));
        complete.then(|| LiteralMap { literals: self.defaults.clone() })
    }
}

impl TaskFileError {
    pub(super) fn new(line: usize, field: &str, problem: impl Into<String>) -> Self {
        Self { line, field: field.to_owned(), problem: problem.into() }
    }
}

impl fmt::Display for TaskFileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, field, problem } = self;
        let separator = if field.is_empty() { "" } else { ": " };
        write!(formatter, "line {line}: {field}{separator}{problem}")
    }
}

impl fmt::Display for TaskFileErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(formatter, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TaskFileError {}
impl std::error::Error for TaskFileErrors {}

#[cfg(test)]
mod tests;
