//! Fields of objects that operators read.

use serde_json::Value;

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub(super) fn of(object: &Value) -> Self {
        Self { namespace: meta(object, "namespace").to_owned(), name: meta(object, "name").to_owned() }
    }
}

/// A string field of `metadata`; empty if it is absent.
pub(super) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Whether the object is being deleted.
pub(super) fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}
