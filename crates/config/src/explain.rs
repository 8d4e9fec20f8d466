//! Explains the configuration to users: JSON Schema, example file, reference page, check, and the origin of each value.

mod example;
mod markdown;
mod show;
mod write;

use serde_json::{Value, json};

use crate::Config;
use crate::error::{ConfigErrors, Warning};
use crate::load::{Draft, Loader};
use crate::schema::{defaults, keys};
use crate::sources::Sources;

pub(super) use example::example_of;
pub(super) use markdown::markdown_of;
pub use show::{Selection, located, show};

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The mistakes. `None` if the configuration can be used.
    pub errors: Option<ConfigErrors>,
    /// Settings that are accepted but probably a mistake.
    pub warnings: Vec<Warning>,
    /// What an operator may want to know, such as the sections that are not read.
    pub notes: Vec<String>,
}

/// Keys that exist only in Aileron. [`dump`] leaves them out, so that its output can be compared with upstream's.
const AILERON_ONLY_KEYS: &[&[&str]] = &[
    &["executor", "leaderElectTakeOver"],
    &["executor", "missingKindTimeout"],
    &["plugins", "k8s", "delete-finished"],
    &["plugins", "k8s", "delete-finished-after"],
    &["tasks", "backoff"],
    &["tasks", "launch-gate"],
    &["tasks", "pools"],
    &["tasks", "resource-limits"],
    &["tasks", "task-plugins", "enabled-plugins"],
    &["tasks", "task-plugins", "overrides"],
    &["tasks", "task-plugins", "unknown-task-types"],
];

impl Loader {
    /// The JSON Schema of a configuration file, for editors and other tools.
    #[must_use]
    pub fn schema(&self) -> Value {
        published(Value::clone(&self.schema))
    }

    /// A configuration file with every key, its documentation and its default. Loading it changes nothing.
    #[must_use]
    pub fn example(&self) -> String {
        example_of(&self.schema, &self.defaults)
    }

    /// The page with every key, its type, its default and its meaning.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown_of(&self.schema, &self.defaults)
    }

    /// Checks sources without using them.
    #[must_use]
    pub fn check(&self, sources: &Sources) -> Report {
        Report::of(self.draft(sources))
    }
}

/// Checks sources without using their configuration.
#[must_use]
pub fn check(sources: &Sources) -> Report {
    Loader::new().check(sources)
}

/// The JSON Schema of a configuration file, for editors and other tools.
///
/// It is stricter than the loader: it demands the documented letter case of keys, and does not accept a number that is
/// written as a string.
#[must_use]
pub fn schema() -> Value {
    published(keys(&[]))
}

/// The schema in the form for other tools.
pub(super) fn published(mut schema: Value) -> Value {
    allow_lists_for_maps(&mut schema);
    schema["title"] = Value::from("Aileron configuration");
    schema
}

/// Changes the schema so that every map may also be written as a list of maps, as the loader allows.
fn allow_lists_for_maps(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.values_mut().for_each(allow_lists_for_maps);
            let is_map = object.get("additionalProperties").is_some_and(Value::is_object)
                && !object.contains_key("properties")
                && object.remove("type").is_some();
            if is_map {
                let values = object.remove("additionalProperties").unwrap_or_default();
                let map = json!({"type": "object", "additionalProperties": values});
                object.insert("anyOf".into(), json!([map, {"type": "array", "items": map}]));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(allow_lists_for_maps),
        _ => {}
    }
}

/// A configuration file with every built-in key, its documentation and its default. Loading it changes nothing.
#[must_use]
pub fn example() -> String {
    example_of(&keys(&[]), &defaults())
}

/// The page with every built-in key, its type, its default and its meaning.
#[must_use]
pub fn markdown() -> String {
    markdown_of(&keys(&[]), &defaults())
}

/// The configuration as upstream prints it, without the keys that exist only in Aileron. It is compared with recorded
/// output of upstream.
#[must_use]
pub fn dump(config: &Config) -> Value {
    let mut value = to_value(config);
    for path in AILERON_ONLY_KEYS {
        if let Some((key, groups)) = path.split_last() {
            let group = groups.iter().try_fold(&mut value, |value, key| value.get_mut(*key));
            if let Some(Value::Object(group)) = group {
                group.remove(*key);
            }
        }
    }
    value
}

/// All keys and values. The types hold only values that JSON can express, so this cannot fail.
fn to_value(config: &Config) -> Value {
    serde_json::to_value(config).unwrap_or_default()
}

impl Report {
    /// What is known about a draft.
    #[must_use]
    pub fn of(draft: Draft) -> Self {
        let (warnings, notes) = (draft.warnings.clone(), draft.notes.clone());
        Self { errors: draft.finish().err(), warnings, notes }
    }

    /// True if the configuration can be used.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.errors.is_none()
    }

    /// All errors, then all warnings, then all notes, one line each.
    #[must_use]
    pub fn render(&self) -> String {
        let errors = self.errors.iter().flat_map(|errors| &errors.0).map(|error| format!("error: {error}\n"));
        let warnings = self.warnings.iter().map(|warning| format!("warning: {warning}\n"));
        errors.chain(warnings).chain(self.notes.iter().map(|note| format!("note: {note}\n"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::shape::{Kind, Shape};

    fn aileron_only_keys(shape: Shape<'_>, path: &[String], found: &mut Vec<String>) {
        for field in shape.fields() {
            let path = [path, &[field.name.to_owned()]].concat();
            if field.aileron_only {
                found.push(path.join("."));
            }
            if matches!(field.shape.kind(), Kind::Struct(_)) {
                aileron_only_keys(field.shape, &path, found);
            }
        }
    }

    #[test]
    fn maps_may_be_lists_in_the_published_schema() {
        let schema = schema();
        let labels = &schema["$defs"]["K8sConfig"]["properties"]["default-labels"];
        let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
        assert_eq!(labels["anyOf"], json!([map, {"type": "array", "items": map}]));
        assert_eq!(labels["type"], Value::Null);
        assert!(labels["description"].is_string());
    }

    #[test]
    fn the_list_of_keys_that_only_aileron_has_is_what_the_schema_marks() {
        let schema = keys(&[]);
        let mut found = Vec::new();
        aileron_only_keys(Shape::of(&schema), &[], &mut found);
        assert_eq!(found, AILERON_ONLY_KEYS.iter().map(|path| path.join(".")).collect::<Vec<_>>());
    }
}
