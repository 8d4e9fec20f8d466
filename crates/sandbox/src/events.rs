//! Events have two forms, one in the core group and a newer one in `events.k8s.io`; they are kept in the core's.

use serde_json::Value;

use crate::kind::Kind;

/// Names in the newer form, and in the core's.
const NAMES: [(&str, &str); 6] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];
/// Only one of the two has the reporter under a name of its own.
const REPORTER: (&str, &str) = ("reportingController", "reportingComponent");

fn is_new(kind: &Kind) -> bool {
    kind.group == "events.k8s.io"
}

fn renamed(object: Value, from: impl Fn(&str) -> Option<&'static str>) -> Value {
    match object {
        Value::Object(fields) => {
            let renamed = fields.into_iter().map(|(name, value)| match from(&name) {
                Some(other) => (other.to_owned(), value),
                None => (name, value),
            });
            Value::Object(renamed.collect())
        }
        other => other,
    }
}

/// An event of the newer form in the core's; anything else as it is.
pub(crate) fn to_core(kind: &Kind, object: Value) -> Value {
    if !is_new(kind) {
        return object;
    }
    let names = || NAMES.iter().chain([&REPORTER]);
    let mut event = renamed(object, |name| names().find(|(new, _)| *new == name).map(|(_, core)| *core));
    // The newer form need not name what it is about; the core's must.
    if let Some(fields) = event.as_object_mut() {
        fields.entry("involvedObject").or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    event
}

/// The opposite of [`to_core`].
pub(crate) fn from_core(kind: &Kind, object: Value) -> Value {
    if !is_new(kind) {
        return object;
    }
    let names = || NAMES.iter().chain([&REPORTER]);
    renamed(object, |name| names().find(|(_, core)| *core == name).map(|(new, _)| *new))
}
