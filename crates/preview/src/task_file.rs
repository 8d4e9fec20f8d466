//! Reads task files: a short form of a task template that users write by hand.
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
//! `docs/tasks.md` describes all keys. In addition to the task, a file may contain instructions for a demonstration or
//! a
//! test: objects to create first, the number of copies, when to abort, and the expected result.

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

pub use expectation::{Expectation, Observed, PhaseWord};

use self::fields::{Group, Report};
use super::literals::declared_inputs;

/// The content of a task file.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFile {
    /// The template.
    pub template: TaskTemplate,
    /// Namespace of the action, if the file names one.
    pub namespace: Option<String>,
    /// Labels of the action. Its objects get them too.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the action. Its objects get them too.
    pub annotations: BTreeMap<String, String>,
    /// Default values of inputs.
    pub defaults: BTreeMap<String, Literal>,
    /// How many actions to create.
    pub copies: u32,
    /// Kubernetes objects to create before the actions.
    pub objects: Vec<Value>,
    /// Abort the action this long after its creation.
    pub abort_after: Option<Duration>,
    /// The expected result.
    pub expect: Option<Expectation>,
}

/// One mistake in a task file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFileError {
    /// The line, counted from 1.
    pub line: usize,
    /// The field, for example `resources.cpu`. Empty for the whole document.
    pub field: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// All mistakes in a task file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFileErrors(pub Vec<TaskFileError>);

/// All keys of a task file.
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
/// Keys of a task file that also exist in a template in protobuf's JSON form. They do not show which of the two a
/// document is.
const SHARED: &[&str] = &["type", "custom", "config"];
/// Keys that do not exist in task files, but in a template in protobuf's JSON form or in an object that contains one.
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

/// Limits `copies`. More copies would be a load test, for which task files are not meant.
const MAX_COPIES: i64 = 10_000;

/// True if a document is a task file and not a template in protobuf's JSON form.
pub fn is_task_file(document: &Value) -> bool {
    let Some(fields) = document.as_object() else { return false };
    let own = |key: &String| KEYS.contains(&key.as_str()) && !SHARED.contains(&key.as_str());
    fields.keys().any(own) && !fields.keys().any(|key| TEMPLATE_ONLY.contains(&key.as_str()))
}

/// Reads a task file.
///
/// # Errors
/// All mistakes, with their lines.
pub fn read(text: &str) -> Result<TaskFile, TaskFileErrors> {
    let node = aileron_config::document::yaml::parse(text)
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

/// The objects of the file, unchanged. Only `apiVersion`, `kind` and `metadata.name` are checked.
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
    /// Whether the task may run on interruptible nodes, if the file says so.
    pub fn interruptible(&self) -> Option<bool> {
        let metadata = self.template.metadata.as_ref()?;
        metadata.interruptible_value.as_ref().map(|InterruptibleValue::Interruptible(value)| *value)
    }

    /// The default inputs, if every declared input has a default.
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
