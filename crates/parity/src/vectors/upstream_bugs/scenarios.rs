//! Defects that change later steps of a scenario. Steps are compared up to the first one that differs because of the defect.

use serde_json::Value;

use crate::vectors::case::Case;
use crate::vectors::steps;

/// Our counter of system failures is not reset by a relaunch, so it may be higher and may reach the limit.
pub(super) fn failures_may_keep_counting(_: &Case, expected: &mut Value, got: &mut Value) {
    const COUNTER: &str = "/taskAction/status/systemFailures";
    let ceiling = |step: &Value| error_state(step, "code") == Some("MaxSystemFailuresExceeded");
    steps::cut_where(expected, got, |got, expected| ceiling(got) && !ceiling(expected));
    let count = |step: &Value| step.pointer(COUNTER).and_then(Value::as_u64).unwrap_or_default();
    for (expected, got) in steps::of_mut(expected).iter_mut().zip(steps::of_mut(got)) {
        if count(got) >= count(expected) {
            for step in [expected, got] {
                if let Some(Value::Object(status)) = step.pointer_mut("/taskAction/status") {
                    status.remove("systemFailures");
                }
            }
        }
    }
}

/// An action that had already ended was not aborted, so the ABORTED event may be missing.
pub(super) fn abort_event_may_be_missing(_: &Case, expected: &mut Value, got: &mut Value) {
    for (expected, got) in steps::of_mut(expected).iter_mut().zip(steps::of(got)) {
        let none = got["actionEvents"].as_array().is_none_or(Vec::is_empty);
        if let Some(Value::Array(events)) = expected.get_mut("actionEvents").filter(|_| none) {
            events.retain(|event| event["phase"] != "ACTION_PHASE_ABORTED");
        }
    }
}

/// Upstream writes an error document beside empty outputs, so it reads a failure when it reads the successful object again.
pub(crate) fn success_stays_success(_: &Case, expected: &mut Value, got: &mut Value) {
    steps::cut_where(expected, got, |got, expected| has_succeeded(got) && misses_outputs(expected));
}

/// A task that declares no outputs may succeed without writing any, and a success with empty outputs stays one.
pub(super) fn success_is_allowed(_: &Case, expected: &mut Value, got: &mut Value) {
    steps::cut_where(expected, got, |got, expected| has_succeeded(got) && !has_succeeded(expected));
}

/// A task that can never work may fail or count system failures; upstream retries it for ever.
pub(super) fn may_fail_instead_of_looping(_: &Case, expected: &mut Value, got: &mut Value) {
    steps::cut_where(expected, got, |got, _| {
        let counted = got.pointer("/taskAction/status/systemFailures").is_some_and(|count| *count != 0);
        has_failed(got) || counted
    });
}

/// Where upstream counts a container's exit code as a system failure, we may count it as the user's failure: the action
/// ends with an error of kind USER, or the next attempt begins.
pub(super) fn users_retries_may_be_used(expected: &mut Value, got: &mut Value) {
    steps::cut_where(expected, got, |got, expected| {
        let attempts = |step: &Value| step.pointer("/taskAction/status/attempts").and_then(Value::as_u64);
        let charged = |step: &Value| step["kubernetesEvents"].to_string().contains("[Interrupted]");
        let users = error_state(got, "kind") == Some("USER") || attempts(got) > attempts(expected);
        charged(expected) && !charged(got) && users
    });
}

fn error_state<'a>(step: &'a Value, field: &str) -> Option<&'a str> {
    step.pointer("/taskAction/status/errorState")?.get(field)?.as_str()
}

fn is_reported(step: &Value, phase: &str) -> bool {
    let phase = format!("ACTION_PHASE_{phase}");
    step["actionEvents"].as_array().into_iter().flatten().any(|event| event["phase"] == phase.as_str())
}

fn has_succeeded(step: &Value) -> bool {
    is_reported(step, "SUCCEEDED") || step.pointer("/transition/phaseInfo/phase") == Some(&"PhaseSuccess".into())
}

/// Whether the step has the error that upstream writes for an empty outputs file.
fn misses_outputs(step: &Value) -> bool {
    step.to_string().contains("outputs not found at [")
}

fn has_failed(step: &Value) -> bool {
    let conditions = step.pointer("/taskAction/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Failed" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::vectors::judge::judge;
    use serde_json::json;

    fn case(bug: &str, steps: &Value) -> Case {
        serde_json::from_value(json!({
            "family": "reconcile", "name": "x", "now": "2009-11-10T23:00:00Z", "upstreamBugs": [bug],
            "expected": {"steps": steps},
        }))
        .unwrap()
    }

    fn status(status: &Value) -> Value {
        json!({"taskAction": {"status": status}})
    }

    #[test]
    fn a_counter_may_be_higher_and_never_lower() {
        let recorded = case("system-failure-counter-reset", &json!([status(&json!({"systemFailures": 1}))]));
        let agrees =
            |count: u32| judge(&recorded, &json!({"steps": [status(&json!({"systemFailures": count}))]})).is_empty();
        assert!(agrees(1) && agrees(3));
        assert!(!agrees(0));
    }

    #[test]
    fn steps_are_compared_until_the_failure_limit_is_reached() {
        let recorded = case(
            "system-failure-counter-reset",
            &json!([status(&json!({"attempts": 1})), status(&json!({"attempts": 1}))]),
        );
        let ceiling = status(&json!({"errorState": {"code": "MaxSystemFailuresExceeded"}}));
        assert!(judge(&recorded, &json!({"steps": [status(&json!({"attempts": 1})), ceiling]})).is_empty());
        assert!(!judge(&recorded, &json!({"steps": [status(&json!({"attempts": 2})), ceiling]})).is_empty());
    }

    #[test]
    fn a_success_that_is_read_twice_stays_a_success_and_other_failures_count() {
        let seen = |phase: &str, message: &str| json!({"transition": {"phaseInfo": {"phase": phase, "error": {"code": "C", "message": message}}}});
        let success = json!({"transition": {"phaseInfo": {"phase": "PhaseSuccess"}}});
        let missing = seen("PhaseRetryableFailure", "outputs not found at [s3://b/outputs.pb]");
        let other = seen("PhaseRetryableFailure", "boom");
        let twice = json!({"steps": [success, success]});
        assert!(judge(&case("none", &json!([success, missing])), &twice).is_empty());
        assert!(!judge(&case("none", &json!([success, other])), &twice).is_empty());
        assert!(!judge(&case("none", &json!([other, missing])), &twice).is_empty(), "earlier steps are compared");
    }

    #[test]
    fn an_abort_event_may_be_missing_but_no_other() {
        let event = |phase: &str| json!({"actionEvents": [{"phase": format!("ACTION_PHASE_{phase}")}]});
        let none = json!({"steps": [{"actionEvents": []}]});
        assert!(judge(&case("abort-event-after-terminal", &json!([event("ABORTED")])), &none).is_empty());
        assert!(!judge(&case("abort-event-after-terminal", &json!([event("FAILED")])), &none).is_empty());
    }
}
