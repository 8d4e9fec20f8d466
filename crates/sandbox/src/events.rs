//! Events have two forms, one in the core group and a newer one in `events.k8s.io`; they are kept in the core's.

use serde_json::Value;

use crate::kind::Kind;
use crate::status::{ApiError, Cause};

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
    if let Some(fields) = event.as_object_mut() {
        // They name the newer form, which the core's type would refuse; they are put back when the object is shown.
        fields.shift_remove("apiVersion");
        fields.shift_remove("kind");
        // The newer form need not name what it is about; the core's must.
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

/// Refuses a new event, which is in the core's form, for what it lacks. Whoever tells a precise time must tell who acted,
/// too; and the newer form wants the time. The answer speaks of the core's form in any case.
pub(crate) fn check(kind: &Kind, event: &Value) -> Result<(), ApiError> {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let mut causes = Vec::new();
    if !text("eventTime").is_empty() {
        let required = ["reportingComponent", "reportingInstance", "action", "reason"];
        let missing = required.into_iter().filter(|field| text(field).is_empty());
        causes.extend(missing.map(|field| Cause::required(field, "")));
    } else if is_new(kind) {
        causes.push(Cause::required("eventTime", ""));
    }
    let kind_of_event = text("type");
    if is_new(kind) && !["Normal", "Warning"].contains(&kind_of_event) {
        // The real server shows no value, but repeats it.
        causes.push(Cause::invalid("type", &"".into(), &format!("has invalid value: {kind_of_event}")));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid_named("", &kind.kind, crate::object::meta(event, "name"), &causes))
}
