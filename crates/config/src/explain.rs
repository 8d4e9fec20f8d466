//! A configuration explained: its schema, an example, the reference page, a check, and where each value came from.

mod example;
mod markdown;
mod show;
mod write;

use serde_json::{Value, json};

use super::Config;
use super::error::{ConfigErrors, Warning};
use super::load::{Loader, Sources};

pub use example::example;
pub use markdown::markdown;
pub use show::{Selection, located, show};

/// What a check of some sources found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What must be mended; `None` when the configuration can be used.
    pub errors: Option<ConfigErrors>,
    /// What is accepted and probably not meant.
    pub warnings: Vec<Warning>,
}

/// Keys of ours that upstream does not have; a dump for comparison leaves them out.
const OUR_KEYS: &[&[&str]] = &[
    &["executor", "missingKindTimeout"],
    &["plugins", "k8s", "delete-finished"],
    &["plugins", "k8s", "delete-finished-after"],
    &["tasks", "backoff"],
    &["tasks", "launch-gate"],
    &["tasks", "pools"],
    &["tasks", "task-plugins", "enabled-plugins"],
    &["tasks", "task-plugins", "overrides"],
    &["tasks", "task-plugins", "unknown-task-types"],
];

/// Checks sources without using them.
#[must_use]
pub fn check(sources: &Sources) -> Report {
    let mut warnings = Vec::new();
    let errors = Loader::new().attempt(sources, &mut warnings).err();
    Report { errors, warnings }
}

/// The JSON Schema of a configuration file, for editors and other tools.
///
/// It is a little stricter than the loader: keys must have their usual letter case and values their usual type.
#[must_use]
pub fn schema() -> Value {
    let mut schema = keys();
    allow_lists_for_maps(&mut schema);
    schema["title"] = Value::from("Aileron configuration");
    schema
}

/// The schema as the types state it, which the loader walks along.
pub(super) fn keys() -> Value {
    schemars::schema_for!(Config).to_value()
}

/// Lets every map be written as a list of maps too.
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

/// The configuration in the shape and with the keys upstream shows it, for comparing the two.
#[must_use]
pub fn dump(config: &Config) -> Value {
    let mut value = to_value(config);
    for path in OUR_KEYS {
        if let Some((key, groups)) = path.split_last() {
            let group = groups.iter().try_fold(&mut value, |value, key| value.get_mut(*key));
            if let Some(Value::Object(group)) = group {
                group.remove(*key);
            }
        }
    }
    value
}

/// The defaults of every key.
pub(super) fn defaults() -> Value {
    to_value(&Config::default())
}

/// Every key and value. The types hold only what JSON can say, so this cannot fail; `Null` would show as such.
fn to_value(config: &Config) -> Value {
    serde_json::to_value(config).unwrap_or_default()
}

impl Report {
    /// True when the configuration can be used.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.errors.is_none()
    }

    /// Everything found, one line each: errors first.
    #[must_use]
    pub fn render(&self) -> String {
        let errors = self.errors.iter().flat_map(|errors| &errors.0).map(|error| format!("error: {error}\n"));
        errors.chain(self.warnings.iter().map(|warning| format!("warning: {warning}\n"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::{Kind, Shape};
    use super::*;

    fn ours(shape: Shape<'_>, path: &[String], found: &mut Vec<String>) {
        for field in shape.fields() {
            let path = [path, &[field.name.to_owned()]].concat();
            if field.ours {
                found.push(path.join("."));
            }
            if matches!(field.shape.kind(), Kind::Struct(_)) {
                ours(field.shape, &path, found);
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
    fn the_list_of_our_keys_is_what_the_schema_marks() {
        let schema = keys();
        let mut found = Vec::new();
        ours(Shape::of(&schema), &[], &mut found);
        assert_eq!(found, OUR_KEYS.iter().map(|path| path.join(".")).collect::<Vec<_>>());
    }
}
