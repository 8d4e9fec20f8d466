//! Server-side apply in a simple form: what a writer applied before and does not apply now goes, what it applies is
//! merged, and nobody ever conflicts.
//!
//! Each writer's fields are recorded in `metadata.managedFields`, in the form that clients know. Writers that do not
//! apply are not recorded. Lists of custom resources count as one value.

use serde_json::{Map, Value, json};

use super::strategic;
use crate::kind::Kind;
use crate::status::ApiError;

/// What a writer wants.
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

    pub(super) fn on(self, kind: &Kind, current: Option<&Value>) -> Result<Value, ApiError> {
        let is_custom = kind.definition().is_some();
        let fields = fields_of(&self.wanted, is_custom, true);
        let Some(current) = current else {
            let mut object = self.wanted;
            let entries = Vec::new();
            record(&mut object, entries, &self.manager, kind, fields);
            return Ok(object);
        };
        let entries = current["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let mut object = current.clone();
        if let Some(own) = entries.iter().find(|entry| is_own(entry, &self.manager)) {
            take_away(&mut object, &own["fieldsV1"], &fields);
        }
        let mut object = if is_custom {
            json_patch::merge(&mut object, &self.wanted);
            object
        } else {
            strategic::merge(&object, &self.wanted)
        };
        record(&mut object, entries, &self.manager, kind, fields);
        Ok(object)
    }
}

fn is_own(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && entry["operation"] == "Apply"
}

/// Notes the fields of a writer. An entry that says the same already stays, so that applying again changes nothing.
fn record(object: &mut Value, mut entries: Vec<Value>, manager: &str, kind: &Kind, fields: Value) {
    match entries.iter_mut().find(|entry| is_own(entry, manager)) {
        Some(entry) => entry["fieldsV1"] = fields,
        None => entries.push(json!({
            "manager": manager, "operation": "Apply", "apiVersion": kind.api_version(),
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })),
    }
    crate::object::set_meta(object, "managedFields", entries.into());
}

/// The fields that a value sets, in the notation of `FieldsV1`.
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
            // Identity is nobody's.
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

/// Removes what `before` has and `now` has not.
fn take_away(object: &mut Value, before: &Value, now: &Value) {
    for (mark, below) in before.as_object().into_iter().flatten() {
        let kept = now.get(mark);
        if let Some(name) = mark.strip_prefix("f:") {
            match (object.get_mut(name), kept) {
                (Some(field), Some(now)) => take_away(field, below, now),
                (Some(_), None) => crate::object::set(object, name, Value::Null),
                (None, _) => {}
            }
        } else if let Some(key) = mark.strip_prefix("k:") {
            let Ok(Value::Object(key)) = serde_json::from_str::<Value>(key) else { continue };
            let Some(items) = object.as_array_mut() else { continue };
            let place = items.iter().position(|item| key.iter().all(|(name, value)| item.get(name) == Some(value)));
            match (place, kept) {
                (Some(place), Some(now)) => take_away(&mut items[place], below, now),
                (Some(place), None) => {
                    items.remove(place);
                }
                (None, _) => {}
            }
        }
    }
}
