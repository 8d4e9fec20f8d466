//! Reads the content of files that users pass: TaskActions, task templates, pod templates and inputs, as YAML, JSON or
//! binary protobuf.

use std::collections::BTreeMap;

use aileron_action::{TaskAction, TaskActionSpec};
use aileron_idl::flyteidl2::core::{LiteralMap, TaskTemplate};
use aileron_idl::message_from_json;
use k8s_openapi::api::core::v1::PodTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prost::{Message, Name};
use serde_json::Value;

use super::task_file::{self, TaskFile, TaskFileErrors};

/// Values for the action around a template that is given alone, without a run: name of the run, name of the action, and
/// so on.
const RUN: &str = "run";
const ACTION: &str = "a0";
const RUN_OUTPUT_BASE: &str = "s3://bucket/run";
const INPUT_URI: &str = "s3://bucket/run/a0/inputs.pb";
const UID: &str = "00000000-0000-0000-0000-000000000000";

/// A task that a user passed.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenTask {
    /// The action, without its template.
    pub action: TaskAction,
    /// The template.
    pub template: TaskTemplate,
    /// The user passed only a template, so the names in the action are placeholders.
    pub is_bare: bool,
    /// The task file, if the user passed one. It has more information than the template.
    pub file: Option<Box<TaskFile>>,
}

/// The content of a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The content is neither text nor the expected protobuf message.
    #[error("neither YAML, JSON nor a binary {message}")]
    Binary {
        /// Name of the expected message.
        message: &'static str,
        /// The error of the decoder.
        #[source]
        source: prost::DecodeError,
    },
    /// The text is not valid YAML. JSON is YAML, so it is not valid JSON either.
    #[error("not valid YAML or JSON: {0}")]
    Syntax(String),
    /// The document has the wrong kind.
    #[error("a document of kind {found:?}; give {expected}")]
    Kind {
        /// The kind of the document.
        found: String,
        /// Which documents are accepted.
        expected: &'static str,
    },
    /// The document is not this protobuf message.
    #[error("not a {message} in protobuf's JSON form")]
    Message {
        /// Name of the message.
        message: &'static str,
        /// Which field is wrong.
        #[source]
        source: aileron_idl::JsonError,
    },
    /// The document is not a Kubernetes object of this kind.
    #[error("not a {kind}")]
    Object {
        /// The expected kind.
        kind: &'static str,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The task file has mistakes.
    #[error("{0}")]
    TaskFile(TaskFileErrors),
    /// The document has no field of a task template. Unknown fields are ignored in protobuf's JSON form, so a wrong
    /// document is read as an empty message.
    #[error("no field of a task template in it; give one TaskAction, TaskTemplate or TaskSpec")]
    Nothing,
    /// The bytes in the TaskAction are not a task template.
    #[error("spec.taskTemplate is not a task template; it must be the encoded message in base64, or its JSON form")]
    Template(#[source] prost::DecodeError),
}

impl GivenTask {
    /// Notes for the user about information that is missing in the file.
    pub fn notes(&self) -> Vec<String> {
        let metadata = &self.action.metadata;
        let missing = [
            (metadata.uid.is_none(), "metadata.uid is missing, so the owner reference has none either"),
            (metadata.namespace.is_none(), "metadata.namespace is missing; --namespace says where the object would be"),
        ];
        let bare = self.is_bare.then(|| {
            format!(
                "the file holds only a task template: names, namespace and locations stand for those of a run \
                 ({RUN}, {ACTION}, {RUN_OUTPUT_BASE})"
            )
        });
        let missing = missing.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, note)| note.to_owned());
        bare.into_iter().chain(missing).collect()
    }
}

enum Content {
    Document(Value),
    Binary,
}

/// Reads a `TaskAction`, a task file, or a task template. A template may be in binary or JSON form, alone or inside a
/// `TaskSpec`.
///
/// A template that is given alone gets an action with placeholder names.
pub fn task(bytes: &[u8]) -> Result<GivenTask, ReadError> {
    let document = match content(bytes)? {
        Content::Binary => return Ok(around(binary(bytes, "TaskTemplate")?)),
        Content::Document(document) => document,
    };
    match document.get("kind").and_then(Value::as_str) {
        Some("TaskAction") => action(document),
        Some(kind) => Err(ReadError::Kind { found: kind.into(), expected: "one TaskAction or a task template" }),
        // The text is parsed again, because errors in a task file need line numbers and `document` has none.
        None if task_file::is_task_file(&document) => {
            let text = String::from_utf8_lossy(bytes);
            task_file::read(&text).map(around_file).map_err(ReadError::TaskFile)
        }
        None => {
            let inside = ["taskTemplate", "task_template"].into_iter().find_map(|name| document.get(name));
            let template: TaskTemplate = message(inside.unwrap_or(&document), "TaskTemplate")?;
            if template == TaskTemplate::default() { Err(ReadError::Nothing) } else { Ok(around(template)) }
        }
    }
}

/// Reads a `PodTemplate`.
pub fn pod_template(bytes: &[u8]) -> Result<PodTemplate, ReadError> {
    match content(bytes)? {
        Content::Document(document) => match document.get("kind").and_then(Value::as_str) {
            Some("PodTemplate") | None => {
                serde_json::from_value(document).map_err(|source| ReadError::Object { kind: "PodTemplate", source })
            }
            Some(kind) => Err(ReadError::Kind { found: kind.into(), expected: "one PodTemplate" }),
        },
        Content::Binary => Err(ReadError::Syntax("the file is not text".into())),
    }
}

/// Reads input literals, in binary or JSON form.
pub fn inputs(bytes: &[u8]) -> Result<LiteralMap, ReadError> {
    match content(bytes)? {
        Content::Document(document) => message(&document, "LiteralMap"),
        Content::Binary => binary(bytes, "LiteralMap"),
    }
}

fn action(mut document: Value) -> Result<GivenTask, ReadError> {
    // Users may write the template as JSON. In the API it is encoded bytes.
    let written_out = match document.pointer_mut("/spec/taskTemplate") {
        Some(template @ Value::Object(_)) => Some(message(&template.take(), "TaskTemplate")?),
        _ => None,
    };
    if written_out.is_some()
        && let Some(Value::Object(spec)) = document.get_mut("spec")
    {
        spec.remove("taskTemplate");
    }
    let mut action: TaskAction =
        serde_json::from_value(document).map_err(|source| ReadError::Object { kind: "TaskAction", source })?;
    action.metadata.managed_fields = None;
    let bytes = std::mem::take(&mut action.spec.task_template);
    let template = match written_out {
        Some(template) => template,
        None => TaskTemplate::decode(bytes.0.as_slice()).map_err(ReadError::Template)?,
    };
    Ok(GivenTask { action, template, is_bare: false, file: None })
}

fn around_file(file: TaskFile) -> GivenTask {
    let mut given = around(file.template.clone());
    let some = |map: &BTreeMap<String, String>| (!map.is_empty()).then(|| map.clone());
    given.action.metadata.labels = some(&file.labels);
    given.action.metadata.annotations = some(&file.annotations);
    if let Some(namespace) = &file.namespace {
        given.action.metadata.namespace = Some(namespace.clone());
    }
    given.action.spec.interruptible = file.interruptible();
    given.file = Some(Box::new(file));
    given
}

/// An action with placeholder names around a template.
fn around(template: TaskTemplate) -> GivenTask {
    let id = template.id.clone().unwrap_or_default();
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    let (project, domain) = (or(id.project, "project"), or(id.domain, "development"));
    let action = TaskAction {
        metadata: ObjectMeta {
            name: Some(format!("{RUN}-{ACTION}")),
            namespace: Some(format!("{project}-{domain}")),
            uid: Some(UID.to_owned()),
            ..ObjectMeta::default()
        },
        spec: TaskActionSpec {
            run_name: RUN.into(),
            project,
            domain,
            action_name: ACTION.into(),
            input_uri: INPUT_URI.into(),
            run_output_base: RUN_OUTPUT_BASE.into(),
            task_type: template.r#type.clone(),
            ..TaskActionSpec::default()
        },
        status: None,
    };
    GivenTask { action, template, is_bare: true, file: None }
}

/// Parses text as a document. Content that is not text, or that has control characters and is not a document, may be a
/// binary message.
fn content(bytes: &[u8]) -> Result<Content, ReadError> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(Content::Binary) };
    let is_text = !text.chars().any(|letter| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t'));
    match serde_saphyr::from_str::<Value>(text) {
        Ok(document @ Value::Object(_)) => Ok(Content::Document(document)),
        Ok(_) if is_text => Err(ReadError::Syntax("the document must be a map of fields".into())),
        Err(error) if is_text => Err(ReadError::Syntax(error.to_string())),
        _ => Ok(Content::Binary),
    }
}

fn binary<M: Message + Default>(bytes: &[u8], message: &'static str) -> Result<M, ReadError> {
    M::decode(bytes).map_err(|source| ReadError::Binary { message, source })
}

fn message<M: Message + Name + Default>(value: &Value, message: &'static str) -> Result<M, ReadError> {
    message_from_json(value).map_err(|source| ReadError::Message { message, source })
}
