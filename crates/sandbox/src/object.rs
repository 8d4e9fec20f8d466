//! Reading and writing the parts that all objects have.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::kind::Kind;

/// A text in `metadata`, empty if absent.
pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Sets a field of `metadata`; null removes it.
pub(crate) fn set_meta(object: &mut Value, field: &str, value: Value) {
    let Some(metadata) = metadata_of(object) else { return };
    if value.is_null() {
        metadata.shift_remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// Sets a field of the object; null removes it.
pub(crate) fn set(object: &mut Value, field: &str, value: Value) {
    let Some(fields) = object.as_object_mut() else { return };
    if value.is_null() {
        fields.shift_remove(field);
    } else {
        fields.insert(field.to_owned(), value);
    }
}

/// `metadata`, made if absent; none if the object is not an object.
pub(crate) fn metadata_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let fields = object.as_object_mut()?;
    fields.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// The texts in a list, such as finalizers.
pub(crate) fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// The texts in a map, such as labels.
pub(crate) fn text_map(map: &Value) -> BTreeMap<String, String> {
    let fields = map.as_object().into_iter().flatten();
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Whether the object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The object with its kind and version in front.
pub(crate) fn with_type(kind: &Kind, body: Value) -> Value {
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), kind.kind.clone().into());
    fields.insert("apiVersion".to_owned(), kind.api_version().into());
    if let Value::Object(body) = body {
        fields.extend(body.into_iter().filter(|(name, _)| name != "kind" && name != "apiVersion"));
    }
    Value::Object(fields)
}

/// A value at a path of field names, null where there is none.
pub(crate) fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|part| !part.is_empty()).fold(object, |value, part| &value[part])
}
