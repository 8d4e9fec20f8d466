//! Where Aileron differs from upstream on purpose: the one list that the vectors and `docs/differences.md` follow.
//!
//! A difference says what it changes in a recorded result, so that everything else in the same result still counts.

mod markdown;

use serde_json::Value;

use crate::vectors::case::Case;

pub use markdown::{MarkdownError, render_markdown};

/// One thing that we do differently.
pub struct OnPurpose {
    /// A short name.
    pub id: &'static str,
    /// What differs and why, in one sentence for users.
    pub reason: &'static str,
    /// What it means for recorded results.
    pub effect: Effect,
}

/// What a difference means for recorded results.
pub enum Effect {
    /// The two sides are changed before they are compared.
    Normalise(fn(&Case, &mut Value, &mut Value)),
    /// These cases are not run, because nothing in them could agree.
    Skip(fn(&Case) -> bool),
    /// No recorded result shows it.
    Unseen,
}

/// Everything we do differently.
pub const ON_PURPOSE: &[OnPurpose] = &[
    OnPurpose {
        id: "event-error-code",
        reason: "Action events carry the code of an error in `error_info.code`, which upstream leaves empty, so that \
                 users can tell an `OOMKilled` from an `Interrupted` without reading the message.",
        effect: Effect::Normalise(ignore_error_codes_of_events),
    },
    OnPurpose {
        id: "failed-attempt-reported",
        reason: "When an attempt fails and another follows, the failed attempt is reported with a FAILED event before \
                 the QUEUED of the next one; upstream never reports it.",
        effect: Effect::Normalise(ignore_failed_attempt_before_next),
    },
    OnPurpose {
        id: "no-polling",
        reason: "An action is looked at again when something changed or a timer is due; upstream looks every \
                 `executor.requeueDuration`, whether or not anything happened.",
        effect: Effect::Normalise(ignore_polls),
    },
    OnPurpose {
        id: "file-output-base",
        reason: "A run's output base may be a `file:///` location, so that a single machine needs no object store; \
                 upstream refuses a location without a bucket.",
        effect: Effect::Skip(has_file_output_base),
    },
    OnPurpose {
        id: "pod-specs-always-there",
        reason: "Merging pod specs takes two pod specs, so upstream's error for a missing one cannot happen.",
        effect: Effect::Skip(merges_nothing),
    },
];

/// Takes what differs on purpose out of both sides.
pub fn normalise(case: &Case, expected: &mut Value, got: &mut Value) {
    for difference in ON_PURPOSE {
        if let Effect::Normalise(change) = difference.effect {
            change(case, expected, got);
        }
    }
}

/// The difference for which the case is not run, if there is one.
pub fn skipped(case: &Case) -> Option<&'static OnPurpose> {
    ON_PURPOSE.iter().find(|difference| matches!(difference.effect, Effect::Skip(applies) if applies(case)))
}

fn events(side: &mut Value) -> impl Iterator<Item = &mut Vec<Value>> {
    side.get_mut("steps")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(|step| step.get_mut("actionEvents").and_then(Value::as_array_mut))
}

fn ignore_error_codes_of_events(_: &Case, expected: &mut Value, got: &mut Value) {
    for side in [expected, got] {
        for error in events(side).flatten().filter_map(|event| event.get_mut("error_info")?.as_object_mut()) {
            error.remove("code");
        }
    }
}

fn ignore_failed_attempt_before_next(_: &Case, _: &mut Value, got: &mut Value) {
    for events in events(got) {
        let attempt = |event: &Value| event.get("attempt").and_then(Value::as_u64).unwrap_or_default();
        let is = |event: &Value, phase: &str| event.get("phase").is_some_and(|value| value == phase);
        let mut index = 0;
        while index + 1 < events.len() {
            let (failed, next) = (&events[index], &events[index + 1]);
            let followed = is(failed, "ACTION_PHASE_FAILED")
                && is(next, "ACTION_PHASE_QUEUED")
                && attempt(next) == attempt(failed) + 1;
            if followed {
                events.remove(index);
            } else {
                index += 1;
            }
        }
    }
}

/// A timer of ours stands where upstream polls. All other pauses are compared.
fn ignore_polls(_: &Case, expected: &mut Value, got: &mut Value) {
    let steps = |side| Value::as_array_mut(side).map(Vec::as_mut_slice).unwrap_or_default();
    let (Some(expected), Some(got)) = (expected.get_mut("steps"), got.get_mut("steps")) else { return };
    for (expected, got) in steps(expected).iter_mut().zip(steps(got)) {
        let Some(members) = got.as_object_mut() else { continue };
        let wake = members.remove("wake");
        if wake.is_some_and(|wake| wake == "at") {
            members.insert("requeueAfterSeconds".into(), expected["requeueAfterSeconds"].clone());
        }
    }
}

fn has_file_output_base(case: &Case) -> bool {
    let base = match case.function() {
        "names.actionOutputPath" => case.arg("runOutputBase"),
        _ => case.input("taskAction").pointer("/spec/runOutputBase").unwrap_or(&Value::Null),
    };
    base.as_str().is_some_and(|base| base.starts_with("file://"))
}

fn merges_nothing(case: &Case) -> bool {
    let parts: &[&str] = match case.function() {
        "pod.mergeBaseOntoTemplate" => &["base", "template"],
        "pod.mergeOverlayOntoBase" => &["base", "overlay"],
        _ => return false,
    };
    parts.iter().any(|part| case.arg(part).is_null())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::vectors::judge::judge;
    use serde_json::json;

    fn scenario(events: &Value) -> Case {
        serde_json::from_value(json!({
            "family": "reconcile", "name": "x", "now": "2009-11-10T23:00:00Z",
            "expected": {"steps": [{"actionEvents": events}]},
        }))
        .unwrap()
    }

    fn event(phase: &str, attempt: u32) -> Value {
        json!({"phase": format!("ACTION_PHASE_{phase}"), "attempt": attempt})
    }

    #[test]
    fn the_code_of_an_events_error_is_ours_and_its_message_is_not() {
        let with = |error: Value| json!({"steps": [{"actionEvents": [{"error_info": error}]}]});
        let case = scenario(&json!([{"error_info": {"message": "m"}}]));
        assert!(judge(&case, &with(json!({"message": "m", "code": "C"}))).is_empty());
        assert!(!judge(&case, &with(json!({"message": "n", "code": "C"}))).is_empty());
    }

    #[test]
    fn a_failed_attempt_may_be_reported_right_before_the_next_one() {
        let case = scenario(&json!([event("QUEUED", 2)]));
        let got = |events: Value| json!({"steps": [{"actionEvents": events}]});
        assert!(judge(&case, &got(json!([event("FAILED", 1), event("QUEUED", 2)]))).is_empty());
        assert!(judge(&case, &got(json!([event("QUEUED", 2)]))).is_empty());
        assert!(!judge(&case, &got(json!([event("FAILED", 2), event("QUEUED", 2)]))).is_empty());
        assert!(!judge(&case, &got(json!([event("QUEUED", 2), event("FAILED", 1)]))).is_empty());
    }
}
