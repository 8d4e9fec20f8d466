//! Marks of keys that are accepted although no code reads them.
//!
//! Such keys exist because configuration files of upstream's executor contain them, and an unknown key is an error. The
//! mark is an extension of the schema, set on the field:
//!
//! - `#[schemars(extend("x-no-effect" = "reason"))]`: the key has no effect, and neither has any key below it.
//! - `#[schemars(extend("x-no-effect" = {"key": "reason"}))]` on a field whose group is used in several places: the
//!   listed keys of the group have no effect in this place.

use serde_json::{Map, Value};

/// The name of the schema extension.
const EXTENSION: &str = "x-no-effect";

/// The mark of one field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoEffect<'a> {
    /// No mark.
    Unmarked,
    /// The key and all keys below it have no effect. The text says why.
    Whole(&'a str),
    /// Some keys directly below have no effect in this place: key and reason.
    Below(&'a Map<String, Value>),
}

impl<'a> NoEffect<'a> {
    /// The mark in the schema of a field.
    pub fn of(schema: &'a Value) -> Self {
        match schema.get(EXTENSION) {
            Some(Value::String(reason)) => Self::Whole(reason),
            Some(Value::Object(keys)) => Self::Below(keys),
            _ => Self::Unmarked,
        }
    }

    /// The reason, if the key itself has no effect.
    pub fn reason(self) -> Option<&'a str> {
        match self {
            Self::Whole(reason) => Some(reason),
            Self::Unmarked | Self::Below(_) => None,
        }
    }

    /// The reason, if this mark says that a key directly below has no effect.
    pub fn reason_below(self, key: &str) -> Option<&'a str> {
        match self {
            Self::Below(keys) => keys.get(key).and_then(Value::as_str),
            Self::Unmarked | Self::Whole(_) => None,
        }
    }

    /// The keys directly below that have no effect in this place, with the reasons.
    pub fn keys_below(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let keys = match self {
            Self::Below(keys) => Some(keys),
            Self::Unmarked | Self::Whole(_) => None,
        };
        let mut keys: Vec<_> =
            keys.into_iter().flatten().filter_map(|(key, reason)| Some((key.as_str(), reason.as_str()?))).collect();
        // Sorted here, because the order of a JSON object depends on the features that serde_json is compiled with.
        keys.sort_unstable();
        keys.into_iter()
    }
}
