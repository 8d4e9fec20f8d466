//! How attempts and failures are counted.

use aileron_action::TaskActionStatus;

use super::ends::END_PHASES;
use super::{Facts, status, text};
use crate::history::ActionEvent;

pub(super) fn rise(facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (_, versions) in facts.actions() {
        let (mut before, mut failures_before) = (0, 0);
        for version in versions {
            let TaskActionStatus { attempts, system_failures, .. } = status(&version.object);
            let name = text(&version.object, "/metadata/name");
            if attempts < before || attempts > before.max(1) + 1 {
                wrong.push(format!("{name}: {before} to {attempts} at revision {}", version.revision));
            }
            if system_failures > failures_before + 1 {
                let revision = version.revision;
                wrong.push(format!("{name}: {failures_before} to {system_failures} failures at revision {revision}"));
            }
            (before, failures_before) = (attempts, system_failures);
        }
    }
    wrong
}

/// The control plane takes the error of an attempt from its last event. A status with the next attempt hides that none came.
pub(super) fn end_reported(facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (_, versions) in facts.actions() {
        for pair in versions.windows(2) {
            let (before, after) = (&pair[0].object, &pair[1]);
            let ended = status(before).observed_attempt();
            if status(&after.object).observed_attempt() <= ended {
                continue;
            }
            let is_end = |event: &ActionEvent| event.attempt == ended && END_PHASES.contains(&event.phase);
            if !facts.has_event_before(&after.object, after.revision, is_end) {
                let name = text(&after.object, "/metadata/name");
                wrong.push(format!("{name}: no end of attempt {ended} before revision {}", after.revision));
            }
        }
    }
    wrong
}

/// Objects of a simulation never fail by themselves, so a charge comes from a fault. Failed requests to the API server are
/// charged as upstream does; no other fault is.
pub(super) fn not_charged(facts: &Facts<'_>) -> Vec<String> {
    if facts.evidence.api_faults {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for (_, versions) in facts.actions() {
        let Some(first) = versions.first() else { continue };
        let (namespace, name) = (text(&first.object, "/metadata/namespace"), text(&first.object, "/metadata/name"));
        let most = versions.iter().map(|version| status(&version.object).system_failures).max().unwrap_or_default();
        if most > 0 && !facts.is_disturbed(namespace, name) {
            wrong.push(format!("{namespace}/{name} was charged {most} times"));
        }
    }
    wrong
}
