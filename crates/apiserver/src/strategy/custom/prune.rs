//! Drops unknown fields of custom resources and fills in the defaults of their schema.

use serde_json::{Map, Value};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
/// Fields that every object has, even if its schema does not list them.
const COMMON_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops the fields that the schema does not have, and adds their paths to `unknown`.
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
    let preserves_unknown = schema[PRESERVE] == true;
    let properties = schema["properties"].as_object();
    let additional = schema.get("additionalProperties").filter(|more| **more != false);
    let is_object = is_object || schema[EMBEDDED] == true;
    fields.retain(|name, value| {
        if is_object && COMMON_FIELDS.contains(&name.as_str()) {
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
        if !preserves_unknown {
            unknown.push(below);
        }
        preserves_unknown
    });
}

/// Fills in defaults. A null that the schema does not allow counts as absent.
pub(super) fn fill_in_defaults(value: &mut Value, schema: &Value) {
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
                    fill_in_defaults(value, schema);
                }
            }
        }
        Value::Array(items) if schema["items"].is_object() => {
            for item in items {
                fill_in_defaults(item, &schema["items"]);
            }
        }
        _ => {}
    }
}
