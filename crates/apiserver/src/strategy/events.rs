//! Events: the core group and `events.k8s.io` have different field names. The store has the form of the core group.

use serde_json::Value;

use crate::errors::{ApiError, Cause};
use crate::kinds::Kind;
use crate::object::meta;

/// Field names in `events.k8s.io` and in the core group.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

fn in_events_group(kind: &Kind) -> bool {
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

/// Converts an event of `events.k8s.io` to the core group. Other objects are not changed.
pub(crate) fn to_core(kind: &Kind, object: Value) -> Value {
    if !in_events_group(kind) {
        return object;
    }
    let mut event = renamed(object, |name| NAMES.iter().find(|(new, _)| *new == name).map(|(_, core)| *core));
    if let Some(fields) = event.as_object_mut() {
        // The type of the core group would refuse these values. They are added again when the object is read.
        fields.shift_remove("apiVersion");
        fields.shift_remove("kind");
        // The field is required in the core group only.
        fields.entry("involvedObject").or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    event
}

/// Converts an event of the core group back to the form of `kind`. Other objects are not changed.
pub(crate) fn from_core(kind: &Kind, object: Value) -> Value {
    if !in_events_group(kind) {
        return object;
    }
    renamed(object, |name| NAMES.iter().find(|(_, core)| *core == name).map(|(new, _)| *new))
}

/// Validates a new event, which has the form of the core group. An event with `eventTime` must also name the reporter,
/// and events of `events.k8s.io` must have `eventTime`. As in kube-apiserver, errors have the field names of the core
/// group.
pub(crate) fn check(kind: &Kind, event: &Value) -> Result<(), ApiError> {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let mut causes = Vec::new();
    if !text("eventTime").is_empty() {
        let required = ["reportingComponent", "reportingInstance", "action", "reason"];
        let missing = required.into_iter().filter(|field| text(field).is_empty());
        causes.extend(missing.map(|field| Cause::required(field, "")));
    } else if in_events_group(kind) {
        causes.push(Cause::required("eventTime", ""));
    }
    let event_type = text("type");
    if in_events_group(kind) && !["Normal", "Warning"].contains(&event_type) {
        // kube-apiserver shows an empty value, and the real value in the detail.
        causes.push(Cause::invalid("type", &"".into(), &format!("has invalid value: {event_type}")));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid_named("", &kind.kind, meta(event, "name"), &causes))
}
