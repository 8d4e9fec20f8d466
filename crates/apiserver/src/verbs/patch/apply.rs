//! A simplified server-side apply.
//!
//! Fields that a manager applied before and does not apply now are removed. Fields that it applies are merged. There
//! are no conflicts between managers. The fields of each manager are recorded in `metadata.managedFields` in the
//! standard format; clients that write without apply are not recorded. A list in a custom resource is one value.

use serde_json::{Map, Value, json};

use super::strategic;
use crate::errors::ApiError;
use crate::kinds::Kind;
use crate::object::{set, set_meta};

/// The object that a field manager applies.
#[derive(Debug)]
pub(crate) struct Apply {
    manager: String,
    wanted: Value,
}

impl Apply {
    pub(super) fn new(kind: &Kind, manager: &str, wanted: Value) -> Result<Self, ApiError> {
        let expected = kind.api_version();
        if wanted["apiVersion"] != expected.as_str() || wanted["kind"] != kind.kind.as_str() {
            let (version, name) = (&wanted["apiVersion"], &wanted["kind"]);
            return Err(ApiError::bad_request(format!(
                "the applied object is {version}, {name} and not {expected}, {}",
                kind.kind
            )));
        }
        if !wanted["metadata"]["managedFields"].is_null() {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        Ok(Self { manager: manager.to_owned(), wanted })
    }

    /// The current object with the applied fields, or a new object if there is none.
    pub(super) fn run(self, kind: &Kind, current: Option<&Value>) -> Value {
        let is_custom = kind.definition().is_some();
        let fields = fields_of(&self.wanted, is_custom, true);
        let Some(current) = current else {
            let mut object = self.wanted;
            let entries = Vec::new();
            record(&mut object, entries, &self.manager, kind, fields);
            return object;
        };
        let entries = current["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let mut object = current.clone();
        if let Some(own) = entries.iter().find(|entry| is_of_manager(entry, &self.manager)) {
            remove_unapplied(&mut object, &own["fieldsV1"], &fields);
        }
        let mut object = if is_custom {
            json_patch::merge(&mut object, &self.wanted);
            object
        } else {
            strategic::merge(&object, &self.wanted)
        };
        record(&mut object, entries, &self.manager, kind, fields);
        object
    }
}

fn is_of_manager(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && entry["operation"] == "Apply"
}

/// Records the fields of a manager. Its existing entry is reused, so that applying the same object again changes
/// nothing.
fn record(object: &mut Value, mut entries: Vec<Value>, manager: &str, kind: &Kind, fields: Value) {
    match entries.iter_mut().find(|entry| is_of_manager(entry, manager)) {
        Some(entry) => entry["fieldsV1"] = fields,
        None => entries.push(json!({
            "manager": manager, "operation": "Apply", "apiVersion": kind.api_version(),
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })),
    }
    set_meta(object, "managedFields", entries.into());
}

/// The fields that a value sets, in the format `FieldsV1`.
fn fields_of(value: &Value, is_custom: bool, is_root: bool) -> Value {
    let mut result = Map::new();
    let Value::Object(fields) = value else { return Value::Object(result) };
    for (name, field) in fields {
        if is_root && ["apiVersion", "kind"].contains(&name.as_str()) {
            continue;
        }
        let below = match field {
            Value::Array(items) if !is_custom => match strategic::key_of(name, items) {
                Some(key) => {
                    let one = |item: &Value| (format!("k:{}", json!({key: item[key]})), fields_of(item, false, false));
                    Value::Object(items.iter().map(one).collect())
                }
                None => json!({}),
            },
            _ => fields_of(field, is_custom, false),
        };
        if is_root && name == "metadata" {
            // The identity of the object belongs to no manager.
            let mut below = below;
            for own in ["f:name", "f:namespace", "f:uid", "f:resourceVersion", "f:creationTimestamp"] {
                below.as_object_mut().and_then(|fields| fields.shift_remove(own));
            }
            result.insert("f:metadata".to_owned(), below);
        } else {
            result.insert(format!("f:{name}"), below);
        }
    }
    Value::Object(result)
}

/// Removes the fields that are in `before` but not in `now`.
fn remove_unapplied(object: &mut Value, before: &Value, now: &Value) {
    for (mark, below) in before.as_object().into_iter().flatten() {
        let kept = now.get(mark);
        if let Some(name) = mark.strip_prefix("f:") {
            match (object.get_mut(name), kept) {
                (Some(field), Some(now)) => remove_unapplied(field, below, now),
                (Some(_), None) => set(object, name, Value::Null),
                (None, _) => {}
            }
        } else if let Some(key) = mark.strip_prefix("k:") {
            let Ok(Value::Object(key)) = serde_json::from_str::<Value>(key) else { continue };
            let Some(items) = object.as_array_mut() else { continue };
            let index = items.iter().position(|item| key.iter().all(|(name, value)| item.get(name) == Some(value)));
            match (index, kept) {
                (Some(index), Some(now)) => remove_unapplied(&mut items[index], below, now),
                (Some(index), None) => {
                    items.remove(index);
                }
                (None, _) => {}
            }
        }
    }
}
