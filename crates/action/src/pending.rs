//! Why an action waits, as everybody sees it: one code and one sentence, whatever the plugin and whoever refused.
//!
//! Whoever makes a phase knows best and says it with [`PhaseInfo::because`], for example
//! `PhaseInfo::waiting_for_resources(version, sentence, info).because(PendingReason::Quota)`, or with
//! [`PhaseInfo::with_pending`] where the sentence is not the reason of the phase. Where nobody said anything, it is read
//! from the phase and from the pods of the attempt. The status shows it as a condition of its own ([`CONDITION`]), which
//! rides on the write of the phase and goes when the task runs or ends.

use std::sync::Arc;

use aileron_machinery::{Phase, PhaseInfo};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

pub use aileron_machinery::{Pending, PendingReason};

/// Type of the condition. The control plane reads other types only, so it may come and go.
pub const CONDITION: &str = "Pending";

/// Something Kubernetes recorded about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEvent {
    /// What it says.
    pub message: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When this executor first saw it; tells apart events of the same second.
    pub recorded_at: Timestamp,
}

/// What API servers say when a webhook does not answer, and when it says no.
const WEBHOOK_WORDS: [&str; 2] = ["failed calling webhook", "admission webhook"];

/// Always the same, so that nothing is written while nothing changes.
const STARTING: &str = "the cluster is preparing the task; nothing is known to be in its way";

/// What an action in this phase waits for; nothing if it runs or has ended.
///
/// `events` is what Kubernetes recorded about the object itself, oldest first.
pub fn explain(phase: &PhaseInfo, pods: &[Arc<Pod>], events: &[ObjectEvent]) -> Option<Pending> {
    let waits = match phase.phase() {
        Phase::NotReady | Phase::WaitingForResources | Phase::Queued | Phase::Initializing | Phase::WaitingForCache => {
            true
        }
        Phase::Undefined
        | Phase::Running
        | Phase::Success
        | Phase::RetryableFailure
        | Phase::PermanentFailure
        | Phase::Aborted => false,
    };
    if !waits {
        return None;
    }
    if let Some(pending) = phase.pending() {
        return Some(pending.clone());
    }
    if phase.phase() == Phase::WaitingForCache {
        return Some(Pending::new(PendingReason::Cache, phase.reason()));
    }
    if let Some(pending) = pods.iter().find_map(|pod| Pending::of_pod(pod)) {
        return Some(pending);
    }
    // An operator that cannot make its pods says so in events.
    let said = events.iter().rev().map(|event| event.message.as_str()).chain([phase.reason()]);
    if let Some(refusal) = said.into_iter().find(|text| WEBHOOK_WORDS.iter().any(|words| text.contains(words))) {
        return Some(Pending::new(PendingReason::Webhook, refusal));
    }
    Some(Pending::new(PendingReason::Starting, STARTING))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_machinery::{ExecutionError, TaskInfo};
    use serde_json::json;

    use super::*;

    fn info() -> TaskInfo {
        TaskInfo::at(Timestamp::UNIX_EPOCH)
    }

    fn code(phase: &PhaseInfo, pods: &[Arc<Pod>]) -> Option<PendingReason> {
        explain(phase, pods, &[]).map(|pending| pending.reason)
    }

    #[test]
    fn only_what_has_not_begun_waits() {
        assert_eq!(explain(&PhaseInfo::running(0, info()), &[], &[]), None);
        assert_eq!(explain(&PhaseInfo::success(info()), &[], &[]), None);
        assert_eq!(explain(&PhaseInfo::permanent_failure(ExecutionError::user("c", "m"), info()), &[], &[]), None);
        assert_eq!(explain(&PhaseInfo::undefined(), &[], &[]), None);
        assert_eq!(code(&PhaseInfo::queued(0, "task submitted to K8s", info()), &[]), Some(PendingReason::Starting));
    }

    #[test]
    fn whoever_knows_is_believed() {
        let phase = PhaseInfo::waiting_for_resources(0, "no cpu left", info()).because(PendingReason::Quota);
        assert_eq!(explain(&phase, &[], &[]), Some(Pending::new(PendingReason::Quota, "no cpu left")));
        let phase = PhaseInfo::waiting_for_cache(0, "waiting for owner", info());
        assert_eq!(explain(&phase, &[], &[]), Some(Pending::new(PendingReason::Cache, "waiting for owner")));
    }

    #[test]
    fn pods_and_events_tell_what_the_phase_does_not() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "w"}, "status": {"phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]}}))
        .unwrap();
        let phase = PhaseInfo::queued(0, "JobCreated", info());
        assert_eq!(code(&phase, &[Arc::new(pod)]), Some(PendingReason::Unschedulable));
        let refused = "Error creating: Internal error occurred: failed calling webhook \"x\"";
        let at = Timestamp::UNIX_EPOCH;
        let events = [ObjectEvent { message: refused.into(), created_at: at, recorded_at: at }];
        assert_eq!(explain(&phase, &[], &events), Some(Pending::new(PendingReason::Webhook, refused)));
    }
}
