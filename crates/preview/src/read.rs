//! Files that people hand in: task templates, actions, pod templates and inputs, in any form they come in.

use std::collections::BTreeMap;

use aileron_action::{TaskAction, TaskActionSpec};
use aileron_idl::flyteidl2::core::{LiteralMap, TaskTemplate};
use aileron_idl::message_from_json;
use k8s_openapi::api::core::v1::PodTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prost::{Message, Name};
use serde_json::Value;

use super::task_file::{self, TaskFile, TaskFileErrors};

/// What stands for a run that does not exist, where only a template is given.
const RUN: &str = "run";
const ACTION: &str = "a0";
const RUN_OUTPUT_BASE: &str = "s3://bucket/run";
const INPUT_URI: &str = "s3://bucket/run/a0/inputs.pb";
const UID: &str = "00000000-0000-0000-0000-000000000000";

/// A task to be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenTask {
    /// The action, without its template.
    pub action: TaskAction,
    /// The template.
    pub template: TaskTemplate,
    /// There was only a template; the action stands for that of a run.
    pub is_bare: bool,
    /// What else a task file for people says.
    pub file: Option<Box<TaskFile>>,
}

/// A file is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Neither text nor protobuf.
    #[error("neither YAML, JSON nor a binary {message}")]
    Binary {
        /// What was expected.
        message: &'static str,
        /// What the decoder met.
        #[source]
        source: prost::DecodeError,
    },
    /// Not YAML, and so not JSON either.
    #[error("not valid YAML or JSON: {0}")]
    Syntax(String),
    /// The document is something else.
    #[error("a document of kind {found:?}; give {expected}")]
    Kind {
        /// Its kind.
        found: String,
        /// What would do.
        expected: &'static str,
    },
    /// The message does not fit.
    #[error("not a {message} in protobuf's JSON form")]
    Message {
        /// Its name.
        message: &'static str,
        /// Which field is wrong.
        #[source]
        source: aileron_idl::JsonError,
    },
    /// The Kubernetes object does not fit.
    #[error("not a {kind}")]
    Object {
        /// Its kind.
        kind: &'static str,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The task file has mistakes.
    #[error("{0}")]
    TaskFile(TaskFileErrors),
    /// Fields we do not know are ignored in protobuf's JSON form, so a wrong document reads as an empty message.
    #[error("no field of a task template in it; give one TaskAction, TaskTemplate or TaskSpec")]
    Nothing,
    /// The template inside the action is none.
    #[error("spec.taskTemplate is not a task template; it must be the encoded message in base64, or its JSON form")]
    Template(#[source] prost::DecodeError),
}

impl GivenTask {
    /// What the reader should know about what was not in the file.
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

/// Reads a `TaskAction`, a task file for people, or a task template in binary or JSON form, bare or inside a
/// `TaskSpec`.
///
/// A bare template gets an action around it whose names stand for those of a run.
pub fn task(bytes: &[u8]) -> Result<GivenTask, ReadError> {
    let document = match content(bytes)? {
        Content::Binary => return Ok(around(binary(bytes, "TaskTemplate")?)),
        Content::Document(document) => document,
    };
    match document.get("kind").and_then(Value::as_str) {
        Some("TaskAction") => action(document),
        Some(kind) => Err(ReadError::Kind { found: kind.into(), expected: "one TaskAction or a task template" }),
        // Read again, for the lines that a document does not have.
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
    // People write the template out; the API server only takes its bytes.
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

/// An action around a template, for a run that does not exist.
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

/// Text is a document; what is no text, or text that is no document, may be a binary message.
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
