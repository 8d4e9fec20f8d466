//! Reading and writing the fields that all objects have.

pub(crate) mod amounts;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Namespace and name of an object. The namespace is empty for cluster-scoped objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub(crate) fn of(object: &Value) -> Self {
        Self::new(meta(object, "namespace"), meta(object, "name"))
    }
}

/// A string field of `metadata`; empty if it is absent.
pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Sets a field of `metadata`; null removes the field.
pub(crate) fn set_meta(object: &mut Value, field: &str, value: Value) {
    let Some(metadata) = metadata_of(object) else { return };
    if value.is_null() {
        metadata.shift_remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// Sets a top-level field of the object; null removes the field.
pub(crate) fn set(object: &mut Value, field: &str, value: Value) {
    let Some(fields) = object.as_object_mut() else { return };
    if value.is_null() {
        fields.shift_remove(field);
    } else {
        fields.insert(field.to_owned(), value);
    }
}

/// `metadata`, which is added if it is absent. `None` if the value is not a JSON object.
pub(crate) fn metadata_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let fields = object.as_object_mut()?;
    fields.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// The strings of a list, such as `metadata.finalizers`. Items of other types are skipped.
pub(crate) fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// The strings of a map, such as `metadata.labels`. Values of other types are skipped.
pub(crate) fn string_map(map: &Value) -> BTreeMap<String, String> {
    let fields = map.as_object().into_iter().flatten();
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Whether the object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The value at a path such as `status.phase`; null if the path does not exist.
pub(crate) fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|part| !part.is_empty()).fold(object, |value, part| &value[part])
}

/// A time as Kubernetes writes it in `metadata`: without fractions of a second.
pub(crate) fn timestamp(time: Timestamp) -> Value {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}
