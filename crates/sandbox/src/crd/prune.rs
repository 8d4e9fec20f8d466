//! Bringing a custom resource into the shape of its schema.

use serde_json::{Map, Value};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
/// What every object has, whatever its schema says.
const OF_ALL: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops the fields that the schema of the whole object does not know.
pub(super) fn prune(object: &mut Value, schema: &Value, unknown: &mut Vec<String>) {
    prune_at(object, schema, "", true, unknown);
}

fn prune_at(value: &mut Value, schema: &Value, path: &str, is_object: bool, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => prune_fields(fields, schema, path, is_object, unknown),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune_at(item, &schema["items"], &format!("{path}[{index}]"), false, unknown);
            }
        }
        _ => {}
    }
}

fn prune_fields(
    fields: &mut Map<String, Value>,
    schema: &Value,
    path: &str,
    is_object: bool,
    unknown: &mut Vec<String>,
) {
    let keeps_all = schema[PRESERVE] == true;
    let properties = schema["properties"].as_object();
    let additional = schema.get("additionalProperties").filter(|more| **more != false);
    let is_object = is_object || schema[EMBEDDED] == true;
    fields.retain(|name, value| {
        if is_object && OF_ALL.contains(&name.as_str()) {
            return true;
        }
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some(schema) = properties.and_then(|all| all.get(name)) {
            prune_at(value, schema, &below, false, unknown);
            return true;
        }
        if let Some(schema) = additional {
            if schema.is_object() {
                prune_at(value, schema, &below, false, unknown);
            }
            return true;
        }
        if !keeps_all {
            unknown.push(below);
        }
        keeps_all
    });
}

/// Fills in defaults, and drops nulls where the schema allows none: they count as absent.
pub(super) fn fill_in(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let properties = schema["properties"].as_object();
            for (name, schema) in properties.into_iter().flatten() {
                let is_absent = fields.get(name).is_none_or(|value| value.is_null() && schema["nullable"] != true);
                match schema.get("default") {
                    Some(default) if is_absent => {
                        fields.insert(name.clone(), default.clone());
                    }
                    _ if is_absent => {
                        fields.shift_remove(name);
                    }
                    _ => {}
                }
            }
            let additional = schema.get("additionalProperties").filter(|more| more.is_object());
            for (name, value) in fields.iter_mut() {
                if let Some(schema) = properties.and_then(|all| all.get(name)).or(additional) {
                    fill_in(value, schema);
                }
            }
        }
        Value::Array(items) if schema["items"].is_object() => {
            for item in items {
                fill_in(item, &schema["items"]);
            }
        }
        _ => {}
    }
}
