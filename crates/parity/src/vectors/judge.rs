//! Compares a result with the recorded one.

use serde_json::{Map, Value, json};

use super::canonical::{Style, canonical};
use super::case::Case;
use super::diff::{Difference, differences};
use super::differences as on_purpose;
use super::families::stored_state_meaning;
use super::{encoded, steps, upstream_bugs, walk};

/// The differences between the result of a case and the recorded one; empty if they are equal.
///
/// Both results are normalised first. Three things are removed or rewritten, in this order: what the recording leaves
/// open, known defects of upstream, and deliberate differences. Everything else is compared.
pub fn judge(case: &Case, got: &Value) -> Vec<Difference> {
    let (mut expected, mut got) = (case.expected.clone(), got.clone());
    expect_error_instead_of_crash(&mut expected);
    normalise_messages(&mut expected, &mut got);
    normalise_texts(&mut expected, &mut got);
    for side in [&mut expected, &mut got] {
        drop_empty_codes(side);
        encoded::decode(side);
    }
    if case.family == "state" {
        decode_stored_state(&mut expected, &mut got);
    }
    if case.family == "phase" {
        drop_completion_of_running(&mut expected);
    }
    if case.is_scenario() {
        steps::normalise(&mut expected, &mut got);
    }
    upstream_bugs::relax(case, &mut expected, &mut got);
    on_purpose::normalise(case, &mut expected, &mut got);
    let style = style_of(case);
    differences(&canonical(style, &expected), &canonical(style, &got))
}

/// The kind of document of the result of a case.
fn style_of(case: &Case) -> Style {
    match (case.family.as_str(), case.function()) {
        ("tasklog", _) | (_, "pod.extendedResourcesOverride") => Style::Proto,
        ("podhelper", "pod.times" | "phases" | "spark.crdHasDriverTemplate" | "pod.determinePrimaryContainerPhase") => {
            Style::Plain
        }
        ("podhelper", name) if name.starts_with("pod.demystify") => Style::Plain,
        ("podhelper", _) => Style::Kubernetes,
        (
            "quantity",
            "resources.applyOverrides" | "resources.merge" | "resources.fromProto" | "resources.sanitizeGpu",
        ) => Style::Kubernetes,
        _ => Style::Plain,
    }
}

/// Where upstream panics, we must return the error that the task is invalid.
fn expect_error_instead_of_crash(expected: &mut Value) {
    if expected.get("panic") == Some(&Value::Bool(true)) {
        *expected = json!({"error": {"code": "BadTaskSpecification", "message": "", "messageExact": false}});
    }
}

/// Removes error messages of Go libraries, and repeated spaces in all other error messages.
fn normalise_messages(expected: &mut Value, got: &mut Value) {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            if let Some(exact) = expected.remove("messageExact") {
                normalise_message(exact == Value::Bool(true), expected, got);
            }
            for (key, value) in expected.iter_mut() {
                if let Some(other) = got.get_mut(key) {
                    normalise_messages(value, other);
                }
            }
        }
        (Value::Array(expected), Value::Array(got)) => {
            for (value, other) in expected.iter_mut().zip(got) {
                normalise_messages(value, other);
            }
        }
        // An error in one result only: the marker itself must not be reported as a difference.
        (Value::Object(expected), _) => {
            expected.remove("messageExact");
        }
        _ => {}
    }
}

/// The beginnings of messages of Go libraries inside longer texts. Our libraries have other messages.
const GO_WORDING: &[&str] = &["proto: cannot parse", "parse \""];

/// The recorder's placeholder for the container name that upstream generates at random.
const RANDOM_NAME: &str = "zzzz";

const NO_BREAK_SPACE: char = '\u{a0}';

/// Texts are compared up to the message of a Go library. A random name equals any name of its form, but it must be the same
/// name everywhere in the result.
fn normalise_texts(expected: &mut Value, got: &mut Value) {
    let mut random: Option<String> = None;
    walk::text_pairs(expected, got, &mut |expected, got| {
        // Go's protobuf library sometimes writes a no-break space, so that no program relies on its messages.
        for text in [&mut *expected, &mut *got] {
            if text.contains(NO_BREAK_SPACE) {
                *text = text.replace(NO_BREAK_SPACE, " ");
            }
        }
        let prefix_end = GO_WORDING.iter().filter_map(|words| expected.find(words)).min();
        let same_prefix = prefix_end.is_some_and(|end| end > 0 && got.starts_with(&expected[..end]));
        if same_prefix
            || (expected == RANDOM_NAME && random.get_or_insert_with(|| got.clone()) == got && is_random(got))
        {
            got.clone_from(expected);
        }
    });
}

/// Removes empty error codes: some recordings have an empty code, others none.
fn drop_empty_codes(side: &mut Value) {
    walk::objects(side, &mut |members| {
        for name in ["error", "handlerError"] {
            if let Some(Value::Object(error)) = members.get_mut(name)
                && error.get("code").is_some_and(|code| code == "")
            {
                error.remove("code");
            }
        }
    });
}

fn is_random(name: &str) -> bool {
    name.len() == RANDOM_NAME.len() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// Upstream also computes a completion time for an object that still runs: its start or its creation. Our plugins do not.
/// Garbage collection reads the time only of ended objects, so nothing depends on it.
fn drop_completion_of_running(expected: &mut Value) {
    if expected.pointer("/gc/terminal") == Some(&Value::Bool(false)) {
        expected["gc"]["completionTime"] = Value::Null;
    }
}

/// Decodes stored state. The bytes may differ, because the Go encoding also contains the time zone of each time.
fn decode_stored_state(expected: &mut Value, got: &mut Value) {
    for side in [expected, got] {
        if let Some(encoded) = side.pointer_mut("/value/gob") {
            *encoded = stored_state_meaning(encoded);
        }
    }
}

fn normalise_message(exact: bool, expected: &mut Map<String, Value>, got: &mut Map<String, Value>) {
    for side in [expected, got] {
        if !exact {
            side.remove("message");
        } else if let Some(Value::String(text)) = side.get_mut("message") {
            *text = text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn case(expected: &Value) -> Case {
        serde_json::from_value(json!({
            "family": "build", "group": "pod", "name": "x", "now": "2009-11-10T23:00:00Z", "expected": expected,
        }))
        .unwrap()
    }

    #[test]
    fn the_code_of_an_inexact_message_is_compared() {
        let expected = case(&json!({"error": {"code": "A", "message": "go says", "messageExact": false}}));
        assert!(judge(&expected, &json!({"error": {"code": "A", "message": "we say"}})).is_empty());
        assert!(!judge(&expected, &json!({"error": {"code": "B", "message": "go says"}})).is_empty());
        assert!(!judge(&expected, &json!({"resource": {}})).is_empty());
    }

    #[test]
    fn an_empty_code_equals_a_missing_code_only() {
        let empty = case(&json!({"error": {"code": "", "message": "m", "messageExact": true}}));
        let none = case(&json!({"error": {"message": "m"}}));
        for expected in [empty, none] {
            assert!(judge(&expected, &json!({"error": {"message": "m"}})).is_empty());
            assert!(judge(&expected, &json!({"error": {"code": "", "message": "m"}})).is_empty());
            assert!(!judge(&expected, &json!({"error": {"code": "A", "message": "m"}})).is_empty());
        }
        let some = case(&json!({"error": {"code": "A", "message": "m"}}));
        assert!(!judge(&some, &json!({"error": {"message": "m"}})).is_empty());
    }

    #[test]
    fn an_exact_message_must_match_except_for_repeated_spaces() {
        let expected = case(&json!({"error": {"code": "A", "message": "a b", "messageExact": true}}));
        assert!(judge(&expected, &json!({"error": {"code": "A", "message": "a  b"}})).is_empty());
        assert!(!judge(&expected, &json!({"error": {"code": "A", "message": "a c"}})).is_empty());
    }

    #[test]
    fn a_text_is_compared_up_to_the_message_of_a_go_library() {
        let expected = case(&json!({"note": "bad spec: proto: cannot parse x"}));
        assert!(judge(&expected, &json!({"note": "bad spec: invalid varint"})).is_empty());
        assert!(!judge(&expected, &json!({"note": "good spec: invalid varint"})).is_empty());
    }

    #[test]
    fn only_an_ended_object_has_a_completion_time() {
        let recorded = |terminal: bool| {
            let mut case = case(&json!({"gc": {"terminal": terminal, "completionTime": "2009-11-10T22:00:00Z"}}));
            case.family = "phase".into();
            case
        };
        let got = |terminal: bool| json!({"gc": {"terminal": terminal, "completionTime": null}});
        assert!(judge(&recorded(false), &got(false)).is_empty());
        assert!(!judge(&recorded(true), &got(true)).is_empty());
    }

    #[test]
    fn a_random_name_may_differ_but_must_be_the_same_everywhere() {
        let expected = case(&json!({"a": "zzzz", "b": "zzzz"}));
        assert!(judge(&expected, &json!({"a": "q1w2", "b": "q1w2"})).is_empty());
        assert!(!judge(&expected, &json!({"a": "q1w2", "b": "e3r4"})).is_empty());
        assert!(!judge(&expected, &json!({"a": "longer", "b": "longer"})).is_empty());
    }

    #[test]
    fn a_crash_must_become_an_error() {
        let expected = case(&json!({"panic": true}));
        assert!(judge(&expected, &json!({"error": {"code": "BadTaskSpecification", "message": "m"}})).is_empty());
        assert!(!judge(&expected, &json!({"error": {"code": "", "message": "m"}})).is_empty());
        assert!(!judge(&expected, &json!({"panic": true})).is_empty());
    }

    #[test]
    fn a_changed_environment_variable_is_found() {
        let pod =
            |value: &str| json!({"resource": {"spec": {"containers": [{"env": [{"name": "A", "value": value}]}]}}});
        let found = judge(&case(&pod("1")), &pod("2"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "resource.spec.containers[0].env[0].value");
    }
}
