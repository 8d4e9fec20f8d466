//! Whether a result is the recorded one.

use serde_json::{Map, Value, json};

use super::canonical::{Style, canonical};
use super::case::Case;
use super::diff::{Difference, differences};
use super::differences as on_purpose;
use super::families::stored_state_meaning;
use super::{encoded, steps, upstream_bugs, walk};

/// Where the result of a case is not the recorded one; empty if it is.
///
/// Both sides are first brought to the same form: what the recording leaves open, what is a known defect of upstream,
/// and what we do differently on purpose is taken out or rewritten, in this order. Everything else is compared.
pub fn judge(case: &Case, got: &Value) -> Vec<Difference> {
    let (mut expected, mut got) = (case.expected.clone(), got.clone());
    expect_error_instead_of_crash(&mut expected);
    settle_messages(&mut expected, &mut got);
    settle_texts(&mut expected, &mut got);
    for side in [&mut expected, &mut got] {
        settle_codes(side);
        encoded::decode(side);
    }
    if case.family == "state" {
        settle_stored_state(&mut expected, &mut got);
    }
    if case.is_scenario() {
        steps::settle(&mut expected, &mut got);
    }
    upstream_bugs::relax(case, &mut expected, &mut got);
    on_purpose::normalise(case, &mut expected, &mut got);
    let style = style_of(case);
    differences(&canonical(style, &expected), &canonical(style, &got))
}

/// What kind of document the result of a case is.
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

/// Upstream crashes on this input; an executor must not, and must say that the task cannot work.
fn expect_error_instead_of_crash(expected: &mut Value) {
    if expected.get("panic") == Some(&Value::Bool(true)) {
        *expected = json!({"error": {"code": "BadTaskSpecification", "message": "", "messageExact": false}});
    }
}

/// Takes out the texts of errors that came from a Go library, and on both sides the repeated blanks of others.
fn settle_messages(expected: &mut Value, got: &mut Value) {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            if let Some(exact) = expected.remove("messageExact") {
                settle_message(exact == Value::Bool(true), expected, got);
            }
            for (key, value) in expected.iter_mut() {
                if let Some(other) = got.get_mut(key) {
                    settle_messages(value, other);
                }
            }
        }
        (Value::Array(expected), Value::Array(got)) => {
            for (value, other) in expected.iter_mut().zip(got) {
                settle_messages(value, other);
            }
        }
        // An error on one side only: the marker must not be what is reported.
        (Value::Object(expected), _) => {
            expected.remove("messageExact");
        }
        _ => {}
    }
}

/// Where a Go library begins to speak inside a longer text. Our own libraries have their own words.
const GO_WORDING: &[&str] = &["proto: cannot parse", "parse \""];

/// What the recorder shows for the container name that upstream draws at random.
const RANDOM_NAME: &str = "zzzz";

const NO_BREAK_SPACE: char = '\u{a0}';

/// Texts agree if they agree up to where a Go library speaks. A random name agrees with any name of its form, as long
/// as it is the same one everywhere.
fn settle_texts(expected: &mut Value, got: &mut Value) {
    let mut random: Option<String> = None;
    walk::text_pairs(expected, got, &mut |expected, got| {
        // Go's protobuf library writes a no-break space now and then, so that nobody relies on its texts.
        for text in [&mut *expected, &mut *got] {
            if text.contains(NO_BREAK_SPACE) {
                *text = text.replace(NO_BREAK_SPACE, " ");
            }
        }
        let own_words = GO_WORDING.iter().filter_map(|words| expected.find(words)).min();
        let same_words = own_words.is_some_and(|end| end > 0 && got.starts_with(&expected[..end]));
        if same_words || (expected == RANDOM_NAME && random.get_or_insert_with(|| got.clone()) == got && is_random(got))
        {
            got.clone_from(expected);
        }
    });
}

/// An error without a code: some recordings show an empty code, others none.
fn settle_codes(side: &mut Value) {
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

/// Stored state compares by what it says: the Go encoding also keeps the time zone in which a time was written.
fn settle_stored_state(expected: &mut Value, got: &mut Value) {
    for side in [expected, got] {
        if let Some(encoded) = side.pointer_mut("/value/gob") {
            *encoded = stored_state_meaning(encoded);
        }
    }
}

fn settle_message(exact: bool, expected: &mut Map<String, Value>, got: &mut Map<String, Value>) {
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
    fn an_inexact_message_leaves_the_code() {
        let expected = case(&json!({"error": {"code": "A", "message": "go says", "messageExact": false}}));
        assert!(judge(&expected, &json!({"error": {"code": "A", "message": "we say"}})).is_empty());
        assert!(!judge(&expected, &json!({"error": {"code": "B", "message": "go says"}})).is_empty());
        assert!(!judge(&expected, &json!({"resource": {}})).is_empty());
    }

    #[test]
    fn an_empty_code_is_no_code_and_no_other() {
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
    fn an_exact_message_must_match_but_for_repeated_blanks() {
        let expected = case(&json!({"error": {"code": "A", "message": "a b", "messageExact": true}}));
        assert!(judge(&expected, &json!({"error": {"code": "A", "message": "a  b"}})).is_empty());
        assert!(!judge(&expected, &json!({"error": {"code": "A", "message": "a c"}})).is_empty());
    }

    #[test]
    fn a_text_counts_up_to_where_a_go_library_speaks() {
        let expected = case(&json!({"note": "bad spec: proto: cannot parse x"}));
        assert!(judge(&expected, &json!({"note": "bad spec: invalid varint"})).is_empty());
        assert!(!judge(&expected, &json!({"note": "good spec: invalid varint"})).is_empty());
    }

    #[test]
    fn a_random_name_is_any_name_but_one() {
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
    fn a_changed_environment_variable_is_seen_through_all_layers() {
        let pod =
            |value: &str| json!({"resource": {"spec": {"containers": [{"env": [{"name": "A", "value": value}]}]}}});
        let found = judge(&case(&pod("1")), &pod("2"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "resource.spec.containers[0].env[0].value");
    }
}
