//! Combines the values that sources have set with the defaults.

use serde_json::{Map, Value};

use super::tree::Tree;

/// Replaces defaults by the values that were set. A group keeps the defaults of the keys that were not set. A map or
/// list that was set replaces its default as a whole, so that a user can remove a default entry. Mirrors `ZeroFields`
/// of upstream's decoder.
pub(crate) fn overlay(defaults: Value, set: &Tree) -> Value {
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

/// Removes nulls from objects. A key that is not set must be absent for serde to use the default of its type.
pub(crate) fn without_nulls(value: Value) -> Value {
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
