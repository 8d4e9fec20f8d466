//! How actions end.

use aileron_action::{ACTION_FINALIZER, TaskActionStatus};
use serde_json::Value;

use super::{Change, Facts, has_ended, is_deleting, status, text};
use crate::history::{ActionEvent, Entry, STALE_ANSWER, What};
use crate::plan::Expected;

/// Numbers of `ActionPhase` that end an attempt: succeeded, failed, aborted, timed out.
pub(super) const END_PHASES: [i32; 4] = [5, 6, 7, 8];
const SUCCEEDED: i32 = 5;
const ABORTED: i32 = 7;

pub(super) fn in_time(facts: &Facts<'_>) -> Vec<String> {
    if facts.evidence.settled {
        return Vec::new();
    }
    let actions = &facts.evidence.end.actions;
    actions
        .iter()
        .filter(|action| !has_ended(action))
        .map(|action| format!("{} {}", name(action), action["status"]))
        .collect()
}

/// A repeated write that changes nothing is answered with the version that was there before.
pub(super) fn stays(facts: &Facts<'_>) -> Vec<String> {
    let before = facts.evidence.writes_after.first().map_or(0, |entry| entry.revision);
    let is_write = |what: &What| match what {
        What::Answered { who, request, code, version, .. } => {
            let changes = version.is_none_or(|version| version > before);
            who.starts_with("executor") && *code < 300 && request.resource != "leases" && changes
        }
        What::Event { .. } => true,
        _ => false,
    };
    facts.evidence.writes_after.iter().filter(|entry| is_write(&entry.what)).map(ToString::to_string).collect()
}

pub(super) fn as_expected(facts: &Facts<'_>) -> Vec<String> {
    if !facts.evidence.settled {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for planned in &facts.evidence.tasks {
        let name = planned.name.as_str();
        if facts.is_disturbed(&planned.namespace, name) {
            continue;
        }
        let Some(action) = facts.final_action(&planned.namespace, name) else {
            wrong.push(format!("{}/{name} does not exist", planned.namespace));
            continue;
        };
        let status = status(action);
        let end = if succeeded(&status) {
            Expected::Success(status.observed_attempt())
        } else {
            Expected::Failure(status.observed_attempt())
        };
        if end != planned.expected && !(planned.is_cached && succeeded(&status)) {
            let error = status.error_state.unwrap_or_default();
            if facts.evidence.api_faults && error.code == "MaxSystemFailuresExceeded" {
                continue;
            }
            let (expected, code, message) = (planned.expected, error.code, error.message);
            wrong.push(format!(
                "{}/{name} should be {expected:?} and is {end:?} ({code}: {message})",
                planned.namespace
            ));
        }
    }
    wrong
}

/// Not promised where lists show an older state: a new process then records an event of that state once more, before its
/// watch shows the present one.
pub(super) fn last_event(facts: &Facts<'_>) -> Vec<String> {
    let is_stale = |entry: &Entry| matches!(&entry.what, What::Note(text) if text.starts_with(STALE_ANSWER));
    if !facts.evidence.settled || facts.entries.iter().any(is_stale) {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for action in &facts.evidence.end.actions {
        let status = status(action);
        let (run, own_name) = (text(action, "/spec/runName"), text(action, "/spec/actionName"));
        let last = facts.events.iter().rev().find(|(_, event)| event.run == run && event.action == own_name);
        let fits = last.is_some_and(|(_, event)| {
            event.attempt == status.observed_attempt()
                && END_PHASES.contains(&event.phase)
                && (event.phase == SUCCEEDED) == succeeded(&status)
        });
        if !fits {
            wrong.push(format!("{}: last event {last:?}, attempt {}", name(action), status.observed_attempt()));
        }
    }
    wrong
}

pub(super) fn event_before_status(facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (_, versions) in facts.actions() {
        for version in versions.iter().filter(|version| version.change != Change::Deleted) {
            let action = &version.object;
            let status = status(action);
            let wanted: &[i32] = if status.is_terminal() { &END_PHASES } else { &[] };
            if wanted.is_empty() {
                continue;
            }
            let is_end = |event: &ActionEvent| wanted.contains(&event.phase);
            let known = facts.has_event_before(action, version.revision, is_end);
            if !known {
                wrong.push(format!("{} at revision {}", name(action), version.revision));
            }
        }
    }
    wrong
}

/// An action that had our finalizer and goes away without an end was aborted.
///
/// An API server that reads an action without finalizers for a request to delete it removes the action, also if a finalizer
/// arrives before it does so. Nobody sees such an action as one that is being deleted, and nobody can report its abort.
pub(super) fn abort_reported(facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (_, versions) in facts.actions() {
        let Some(last) = versions.last().filter(|version| version.change == Change::Deleted) else { continue };
        let was_ours = versions.iter().any(|version| has_finalizer(&version.object) && is_deleting(&version.object));
        let is_abort = |event: &ActionEvent| event.phase == ABORTED;
        if was_ours
            && !status(&last.object).is_terminal()
            && !facts.has_event_before(&last.object, last.revision, is_abort)
        {
            wrong.push(name(&last.object));
        }
    }
    wrong
}

fn has_finalizer(action: &Value) -> bool {
    let finalizers = action.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.into_iter().flatten().any(|finalizer| finalizer == ACTION_FINALIZER)
}

pub(super) fn once(facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (_, versions) in facts.actions() {
        let mut end: Option<(u64, bool, u32)> = None;
        for version in versions {
            let status = status(&version.object);
            let now = status.is_terminal().then(|| (version.revision, succeeded(&status), status.observed_attempt()));
            match (end, now) {
                (Some((since, ..)), None) => {
                    wrong.push(format!(
                        "{} ended at revision {since} and not at {}",
                        name(&version.object),
                        version.revision
                    ));
                }
                (Some((_, was, attempt)), Some((revision, is, now_attempt))) if (was, attempt) != (is, now_attempt) => {
                    wrong.push(format!("{} ended otherwise at revision {revision}", name(&version.object)));
                }
                (None, now) => end = now,
                _ => {}
            }
        }
    }
    wrong
}

fn succeeded(status: &TaskActionStatus) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == "Succeeded" && condition.status == "True")
}

fn name(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}
