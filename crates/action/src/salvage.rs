//! Reads what can be read of a malformed `TaskAction`: each field on its own.
//!
//! The API server checks most fields, but not all of them, and an installation may have an older definition. One field
//! that cannot be decoded must not hide the others: the executor needs them to tell the user what is wrong.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::{TaskAction, TaskActionSpec, TaskActionStatus};

/// How many fields a message names. More do not help the user.
const NAMED_FIELDS: usize = 5;
/// The longest description of one error, in characters.
const LONGEST_ERROR: usize = 160;

/// A `TaskAction` without the fields that cannot be decoded.
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// The object. Fields that cannot be decoded have their default value.
    pub object: TaskAction,
    /// Names the fields that cannot be decoded, with the errors and the remedy.
    pub message: String,
}

#[derive(Deserialize)]
struct Parts {
    #[serde(default)]
    spec: Option<Box<RawValue>>,
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

/// Reads each field of the specification and of the status of this JSON object on its own. The caller has read the
/// metadata, and has got `error` when it decoded the whole object.
///
/// # Differs from upstream
///
/// Upstream decodes all actions of a list together: one action with a field that Go cannot decode stops all others. Here
/// such an action fails with a message that names the field.
pub fn salvage(metadata: ObjectMeta, object: &str, error: &str) -> Salvaged {
    let mut errors = Vec::new();
    let parts = serde_json::from_str(object).unwrap_or_else(|error| {
        errors.push(format!("the object ({})", without_content(&error)));
        Parts { spec: None, status: None }
    });
    let spec: TaskActionSpec = read_fields("spec", parts.spec.as_deref(), &mut errors);
    let status = parts.status.is_some();
    let status: Option<TaskActionStatus> = status.then(|| read_fields("status", parts.status.as_deref(), &mut errors));
    if errors.is_empty() {
        errors.push(format!("the object ({error})"));
    }
    let left_out = errors.len().saturating_sub(NAMED_FIELDS);
    errors.truncate(NAMED_FIELDS);
    let mut named = errors.join(", ");
    if left_out > 0 {
        named.push_str(&format!(" and {left_out} more"));
    }
    let message = format!(
        "the TaskAction has fields that cannot be read: {named}; correct the client that writes them and submit the \
         action again"
    );
    Salvaged { object: TaskAction { metadata, spec, status }, message }
}

/// An error of a decoder without the text that it quotes from the object, and bounded. Such text may be secret or long.
pub fn without_content(error: &dyn std::fmt::Display) -> String {
    let mut text = error.to_string();
    if let (Some(first), Some(last)) = (text.find('"'), text.rfind('"'))
        && first < last
    {
        text.replace_range(first..=last, "…");
    }
    // An unknown name stands in the first pair of backquotes, the known ones in the others.
    if text.starts_with("unknown ")
        && let Some(first) = text.find('`')
        && let Some(length) = text[first + 1..].find("`, expected").or_else(|| text[first + 1..].find('`'))
    {
        text.replace_range(first..=first + 1 + length, "…");
    }
    if let Some((end, _)) = text.char_indices().nth(LONGEST_ERROR) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A part of the object with all fields that can be decoded. The errors of the others are added to `errors`.
fn read_fields<T: DeserializeOwned + Default>(part: &str, text: Option<&RawValue>, errors: &mut Vec<String>) -> T {
    let fields: BTreeMap<String, Box<RawValue>> = match text.map_or(Ok(None), |it| serde_json::from_str(it.get())) {
        Ok(fields) => fields.unwrap_or_default(),
        Err(error) => {
            errors.push(format!("{part} ({})", without_content(&error)));
            return T::default();
        }
    };
    let mut readable = BTreeMap::new();
    for (name, value) in fields {
        match serde_json::from_str::<T>(&format!("{{{}:{value}}}", serde_json::Value::from(name.as_str()))) {
            Ok(_) => {
                readable.insert(name, value);
            }
            Err(error) => errors.push(format!("{part}.{name} ({})", without_content(&error))),
        }
    }
    // Every field was decoded above, so this cannot fail.
    serde_json::to_string(&readable).and_then(|text| serde_json::from_str(&text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn read(object: &serde_json::Value) -> Salvaged {
        let metadata = ObjectMeta { name: Some("a".into()), ..ObjectMeta::default() };
        salvage(metadata, &object.to_string(), "odd")
    }

    #[test]
    fn only_the_fields_that_cannot_be_decoded_are_lost() {
        let condition = json!({"type": "Failed", "status": "True", "reason": "R", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let salvaged = read(&json!({
            "spec": {"runName": "r", "taskTemplate": "not base64", "taskType": "t", "unknown": {"a": 1}},
            "status": {"attempts": -1, "pluginStateVersion": 300, "conditions": [condition], "stateJson": "{}"},
        }));
        let spec = &salvaged.object.spec;
        assert_eq!((spec.run_name.as_str(), spec.task_type.as_str()), ("r", "t"));
        let status = salvaged.object.status.unwrap();
        assert!(status.is_terminal() && status.attempts == 0 && status.state_json == "{}");
        for field in ["spec.taskTemplate (", "status.attempts (", "status.pluginStateVersion ("] {
            assert!(salvaged.message.contains(field), "{}", salvaged.message);
        }
        assert!(!salvaged.message.contains("conditions"), "{}", salvaged.message);
        assert_eq!(salvaged.object.metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn parts_that_are_no_objects_are_named() {
        for (object, part) in [
            (json!({"spec": "secret"}), "spec ("),
            (json!({"spec": [1]}), "spec ("),
            (json!({"spec": {}, "status": 7}), "status ("),
            (json!([]), "the object (odd)"),
        ] {
            let salvaged = read(&object);
            assert!(salvaged.message.contains(part), "{}", salvaged.message);
            assert!(!salvaged.message.contains("secret"), "{}", salvaged.message);
        }
        assert!(salvage(ObjectMeta::default(), "no json", "odd").message.contains("the object"));
    }

    #[test]
    fn a_message_is_bounded_and_quotes_nothing() {
        let long = "s3cret".repeat(10_000);
        let names: serde_json::Map<_, _> =
            ["runName", "project", "domain", "actionName", "inputUri", "taskType", "group"]
                .into_iter()
                .map(|name| (name.to_owned(), json!([long])))
                .chain([("interruptible".to_owned(), json!(long))])
                .collect();
        let message = read(&json!({"spec": names})).message;
        assert!(message.len() < 2_000 && message.contains("and 3 more"), "{message}");
        assert!(!message.contains("s3cret"), "{message}");
        assert_eq!(
            without_content(&"unknown variant `s3cret`, expected `a` or `b`"),
            "unknown variant …, expected `a` or `b`"
        );
        assert_eq!(
            without_content(&r#"invalid type: string "x "y" z", expected u32"#),
            "invalid type: string …, expected u32"
        );
        assert!(without_content(&"ä".repeat(9_999)).chars().count() <= LONGEST_ERROR + 1);
    }
}
