//! What was set, laid over the defaults.

use serde_json::{Map, Value};

use super::tree::Tree;

/// Lays what was set over the defaults. Groups of known keys keep the defaults of keys nobody set; maps and lists
/// replace theirs, so that a default entry can be removed. Mirrors `ZeroFields` of upstream's decoder.
pub(super) fn overlay(defaults: Value, set: &Tree) -> Value {
    match set {
        Tree::Struct(entries) => {
            let mut object = match defaults {
                Value::Object(object) => object,
                _ => Map::new(),
            };
            for (key, tree) in entries {
                let default = object.remove(key).unwrap_or(Value::Null);
                object.insert(key.clone(), overlay(default, tree));
            }
            Value::Object(object)
        }
        other => other.to_json(),
    }
}

/// Removes nulls from objects: "not set" is told by absence, and types fill in their own default.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(
            object
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}
