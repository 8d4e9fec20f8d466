//! Everything that an object depends on, as JSON documents whose fields can be changed one by one.

use std::collections::BTreeMap;
use std::fmt;

use aileron_config::explain::{Selection, located};
use aileron_config::{Config, Loaded, Secrets};
use aileron_idl::{message_from_json, message_to_json};
use serde_json::{Value, json};

use super::path::{FieldPath, Segment};
use crate::render::Offline;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The task template.
    Task {
        /// The field.
        field: String,
    },
    /// The TaskAction: names, and settings of the run.
    Action {
        /// The field.
        field: String,
    },
    /// A pod template.
    PodTemplate {
        /// Its name, as `namespace/name` if it has a namespace.
        name: String,
        /// The field.
        field: String,
    },
    /// The configuration.
    Config {
        /// The key.
        key: String,
        /// File and line, environment variable, flag, or default.
        origin: String,
    },
    /// The inputs.
    Inputs {
        /// The field.
        field: String,
    },
    /// The environment of the executor.
    Environment {
        /// The variable.
        name: String,
    },
}

/// One of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document {
    Task,
    Action,
    PodTemplate(usize),
    Config,
    Inputs,
    Environment,
}

/// The configuration keys, and the origin of each value.
pub(super) struct Origins {
    by_key: BTreeMap<String, String>,
    defaults: Value,
}

/// The origin of a value that no source has set.
const DEFAULT: &str = "default";

impl Document {
    /// The documents of a task. Those that users edit most often are first.
    pub fn all(offline: &Offline) -> Vec<Self> {
        let templates = (0..offline.pod_templates.len()).map(Self::PodTemplate);
        let mut all = vec![Self::Task, Self::Action];
        all.extend(templates);
        all.extend([Self::Config, Self::Inputs, Self::Environment]);
        all
    }

    /// The document as JSON. Empty if there is none.
    pub fn read(self, offline: &Offline) -> Value {
        let value = match self {
            Self::Task => message_to_json(&offline.template).ok(),
            Self::Action => without_type(serde_json::to_value(&offline.action).ok()),
            Self::PodTemplate(index) => {
                without_type(offline.pod_templates.get(index).and_then(|it| serde_json::to_value(it).ok()))
            }
            Self::Config => serde_json::to_value(&offline.config).ok(),
            Self::Inputs => offline.inputs.as_ref().and_then(|inputs| message_to_json(inputs).ok()),
            Self::Environment => {
                let wanted = offline.config.plugins.k8s.default_env_vars_from_env.values();
                let found = wanted.filter_map(|name| offline.environment.get_key_value(name));
                Some(json!(found.collect::<BTreeMap<_, _>>()))
            }
        };
        without_nulls(value.unwrap_or_default())
    }

    /// The same task with this document replaced. `None` if the new document is not valid.
    pub fn write(self, offline: &Offline, document: Value) -> Option<Offline> {
        let mut other = offline.clone();
        match self {
            Self::Task => other.template = message_from_json(&document).ok()?,
            Self::Action => {
                other.action = serde_json::from_value(with_type(document, "flyte.org/v1", "TaskAction")).ok()?;
            }
            Self::PodTemplate(index) => {
                *other.pod_templates.get_mut(index)? =
                    serde_json::from_value(with_type(document, "v1", "PodTemplate")).ok()?;
            }
            Self::Config => other.config = serde_json::from_value(document).ok()?,
            Self::Inputs => other.inputs = Some(message_from_json(&document).ok()?),
            Self::Environment => {
                let wanted: Vec<_> = other.config.plugins.k8s.default_env_vars_from_env.values().cloned().collect();
                other.environment.retain(|name, _| !wanted.contains(name));
                other.environment.extend(serde_json::from_value::<BTreeMap<String, String>>(document).ok()?);
            }
        }
        Some(other)
    }

    /// The description of a field of this document.
    pub fn source(self, path: &FieldPath, offline: &Offline, origins: &Origins) -> Source {
        let field = path.to_string();
        match self {
            Self::Task => Source::Task { field },
            Self::Action => Source::Action { field },
            Self::PodTemplate(index) => {
                let metadata = offline.pod_templates.get(index).map(|template| &template.metadata);
                let name = metadata.and_then(|metadata| metadata.name.as_deref()).unwrap_or_default();
                let namespace = metadata.and_then(|metadata| metadata.namespace.as_deref());
                let name = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
                Source::PodTemplate { name, field }
            }
            Self::Config => {
                let (key, origin) = origins.of(path).unwrap_or((&field, DEFAULT));
                Source::Config { key: key.to_owned(), origin: origin.to_owned() }
            }
            Self::Inputs => Source::Inputs { field },
            Self::Environment => Source::Environment { name: field },
        }
    }
}

impl Origins {
    /// The origins of a loaded configuration.
    pub fn new(loaded: &Loaded) -> Self {
        let rows = located(loaded, Selection::All, Secrets::Hidden);
        let text = |row: &Value, member: &str| row.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
        let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            by_key: rows.iter().map(|row| (text(row, "key"), text(row, "origin"))).collect(),
            defaults: without_nulls(serde_json::to_value(Config::default()).unwrap_or_default()),
        }
    }

    /// True if no source has set the value.
    pub fn is_default(&self, path: &FieldPath) -> bool {
        self.of(path).is_none_or(|(_, origin)| origin == DEFAULT)
    }

    /// Resets the configuration key that contains the field to its default.
    pub fn reset(&self, document: &mut Value, path: &FieldPath) {
        let length = (1..=path.segments().len()).find(|length| self.by_key.contains_key(&dotted(path, *length)));
        let key = path.prefix(length.unwrap_or_else(|| path.segments().len()));
        match key.get(&self.defaults) {
            Some(default) => key.set(document, default.clone()),
            None => key.remove(document),
        }
    }

    /// The configuration key that contains a field, and its origin.
    fn of(&self, path: &FieldPath) -> Option<(&str, &str)> {
        let found = (1..=path.segments().len()).find_map(|length| self.by_key.get_key_value(&dotted(path, length)));
        found.map(|(key, origin)| (key.as_str(), origin.as_str()))
    }
}

impl Source {
    /// The source as JSON, for other programs.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Task { field } => json!({"kind": "task", "field": field}),
            Self::Action { field } => json!({"kind": "action", "field": field}),
            Self::PodTemplate { name, field } => json!({"kind": "podTemplate", "name": name, "field": field}),
            Self::Config { key, origin } => json!({"kind": "config", "key": key, "origin": origin}),
            Self::Inputs { field } => json!({"kind": "inputs", "field": field}),
            Self::Environment { name } => json!({"kind": "environment", "name": name}),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task { field } => write!(formatter, "task {field}"),
            Self::Action { field } => write!(formatter, "action {field}"),
            Self::PodTemplate { name, field } => write!(formatter, "PodTemplate {name} {field}"),
            Self::Config { key, origin } => write!(formatter, "config {key} ({origin})"),
            Self::Inputs { field } => write!(formatter, "inputs {field}"),
            Self::Environment { name } => write!(formatter, "variable {name} of the executor"),
        }
    }
}

fn dotted(path: &FieldPath, length: usize) -> String {
    let key = |segment: &Segment| match segment {
        Segment::Key(key) => key.clone(),
        Segment::Index(index) => index.to_string(),
    };
    path.segments().iter().take(length).map(key).collect::<Vec<_>>().join(".")
}

/// Removes `apiVersion` and `kind`. They are always the same, so they need no explanation.
fn without_type(document: Option<Value>) -> Option<Value> {
    let mut document = document?;
    if let Value::Object(fields) = &mut document {
        fields.shift_remove("apiVersion");
        fields.shift_remove("kind");
    }
    Some(document)
}

fn with_type(mut document: Value, api_version: &str, kind: &str) -> Value {
    if let Value::Object(fields) = &mut document {
        fields.insert("apiVersion".into(), api_version.into());
        fields.insert("kind".into(), kind.into());
    }
    document
}

/// Removes nulls from objects. A key that is not set must be absent for serde to use the default of its type.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let set = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(set.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}
