//! What the state of an object means for the task. No I/O.

use aileron_action::pending::ObjectEvent;
use aileron_kubekit::ApiError;
use aileron_machinery::{ExecutionError, PhaseInfo, ReasonInfo, TaskInfo};

use crate::manager::gob::{ManagerPhase, PluginState};
use crate::manager::round::Round;
use crate::manager::state::with_phase;
use crate::storage::outputs::{Reported, TaskResult};

/// The result of reading the attempt's object.
#[derive(Debug)]
pub(in crate::manager) enum Observation {
    /// The cluster no longer serves the kind, and the object was deleted with it.
    KindMissing,
    /// The object was just created and the watch has not shown it yet.
    NotYetVisible,
    /// The object does not exist, or does not belong to the attempt.
    Lost(ApiError),
    /// The object was read.
    Read(Box<Reading>),
}

/// An object that was read by its plugin.
#[derive(Debug)]
pub(in crate::manager) struct Reading {
    /// The phase that the plugin reads from it, with its version.
    pub(in crate::manager) phase: PhaseInfo,
    /// The object has a deletion timestamp.
    pub(in crate::manager) being_deleted: bool,
    /// The outputs or the error document of the task in storage; read when the phase is a success.
    pub(in crate::manager) result: Option<TaskResult>,
    /// The Kubernetes events about the object since the previous round, oldest first.
    pub(in crate::manager) events: Vec<ObjectEvent>,
}

/// The phase of the task, and the state to store.
#[derive(Debug, PartialEq)]
pub(in crate::manager) struct Seen {
    pub(in crate::manager) phase: PhaseInfo,
    pub(in crate::manager) state: PluginState,
}

/// What an observation means for the task; `None` if the object is not visible yet.
pub(in crate::manager) fn decide(round: &Round, before: &PluginState, observation: Observation) -> Option<Seen> {
    match observation {
        Observation::NotYetVisible => None,
        // The object is created again when the kind is back.
        Observation::KindMissing => {
            let phase = round.waiting_for_kind();
            let state = PluginState { phase: ManagerPhase::NotStarted, ..with_phase(before, &phase) };
            Some(Seen { phase, state })
        }
        Observation::Lost(error) => {
            let object = &round.object;
            let (namespace, name) = (&object.namespace, &object.name);
            let message = format!("resource not found, name [{namespace}/{name}]. reason: {}", error.message);
            let error = ExecutionError::system("ResourceDeletedExternally", message);
            let phase = PhaseInfo::retryable_failure(error, round.info());
            Some(Seen { state: with_phase(before, &phase), phase })
        }
        Observation::Read(reading) => {
            let Reading { phase, being_deleted, result, events } = *reading;
            let phase = settled(round, phase, being_deleted, result);
            Some(with_events(round, before, phase, events))
        }
    }
}

/// The phase of the task, given the phase of its object. A task with an error document has not succeeded. An object that
/// is deleted while the task runs has no result.
fn settled(round: &Round, phase: PhaseInfo, being_deleted: bool, result: Option<TaskResult>) -> PhaseInfo {
    if let Some(TaskResult::Error(Reported { recoverable, error })) = result.filter(|_| phase.phase().is_success()) {
        let error = ExecutionError::from(error.as_ref());
        let info = phase.into_info().unwrap_or_else(|| TaskInfo::at(round.now));
        return if recoverable {
            PhaseInfo::retryable_failure(error, info)
        } else {
            PhaseInfo::permanent_failure(error, info)
        };
    }
    if being_deleted && !phase.phase().is_terminal() {
        let (namespace, name) = (&round.object.namespace, &round.object.name);
        let message = format!("object [{namespace}/{name}] terminated unexpectedly in the background");
        return PhaseInfo::retryable_failure(ExecutionError::system("UnexpectedObjectDeletion", message), round.info());
    }
    phase
}

/// Adds the Kubernetes events since the previous round. They are new to readers, so they raise the phase version.
fn with_events(round: &Round, before: &PluginState, mut phase: PhaseInfo, events: Vec<ObjectEvent>) -> Seen {
    let (Some(last), Some(info)) = (events.last().cloned(), phase.info_mut()) else {
        return Seen { state: with_phase(before, &phase), phase };
    };
    info.additional_reasons.extend(
        events.into_iter().map(|event| ReasonInfo { reason: event.message, occurred_at: Some(event.created_at) }),
    );
    let prior = &round.prior;
    if phase.phase() == prior.phase && phase.version() <= prior.version {
        phase = phase.with_version(prior.version.saturating_add(1));
    }
    let mut state = with_phase(before, &phase);
    state.last_event_update = Some(last.created_at);
    state.last_event_recorded_at = Some(last.recorded_at);
    Seen { phase, state }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use aileron_machinery::{ObjectRef, ObservedPhase, Phase, ResourceKind};
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn round() -> Round {
        Round {
            now: Timestamp::UNIX_EPOCH,
            prior: ObservedPhase { phase: Phase::Running, version: 2, reason: String::new() },
            object: ObjectRef::new(ResourceKind::of::<Pod>(), "ns", "r1-a0-0"),
        }
    }

    fn started() -> PluginState {
        PluginState { phase: ManagerPhase::Started, ..PluginState::default() }
    }

    fn read(phase: PhaseInfo) -> Reading {
        Reading { phase, being_deleted: false, result: None, events: Vec::new() }
    }

    fn seen(observation: Observation) -> Seen {
        decide(&round(), &started(), observation).unwrap()
    }

    fn info() -> TaskInfo {
        TaskInfo::at(Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn nothing_is_decided_before_the_object_can_be_seen() {
        assert_eq!(decide(&round(), &started(), Observation::NotYetVisible), None);
    }

    #[test]
    fn a_lost_object_costs_the_platform_a_failure() {
        let lost = seen(Observation::Lost(ApiError { message: "gone".into(), ..ApiError::default() }));
        assert!(lost.phase.is_system_retryable_failure());
        let message = &lost.phase.error().unwrap().message;
        assert_eq!(message, "resource not found, name [ns/r1-a0-0]. reason: gone");
    }

    #[test]
    fn the_object_of_a_removed_kind_is_launched_again_later() {
        let seen = seen(Observation::KindMissing);
        assert_eq!(seen.phase.phase(), Phase::WaitingForResources);
        assert_eq!(seen.state.phase, ManagerPhase::NotStarted);
    }

    #[test]
    fn the_error_document_turns_a_success_into_a_failure() {
        let with = |recoverable| {
            let result = Some(TaskResult::Error(Reported { recoverable, error: Box::default() }));
            seen(Observation::Read(Box::new(Reading { result, ..read(PhaseInfo::success(info())) }))).phase.phase()
        };
        assert_eq!(with(true), Phase::RetryableFailure);
        assert_eq!(with(false), Phase::PermanentFailure);
        let result = Some(TaskResult::Succeeded);
        let phase = seen(Observation::Read(Box::new(Reading { result, ..read(PhaseInfo::success(info())) }))).phase;
        assert_eq!(phase.phase(), Phase::Success);
    }

    #[test]
    fn an_object_that_is_deleted_while_it_runs_is_the_platforms_failure() {
        let deleted = |phase| seen(Observation::Read(Box::new(Reading { being_deleted: true, ..read(phase) }))).phase;
        assert!(deleted(PhaseInfo::running(info())).is_system_retryable_failure());
        assert_eq!(deleted(PhaseInfo::success(info())).phase(), Phase::Success, "it had ended before");
    }

    #[test]
    fn events_are_news_and_are_told_once() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let event = ObjectEvent { message: "pulled".into(), created_at: at(5), recorded_at: at(6) };
        let reading = Reading { events: vec![event], ..read(PhaseInfo::running(info())) };
        let seen = seen(Observation::Read(Box::new(reading)));
        assert_eq!(seen.phase.version(), 3);
        assert_eq!(seen.phase.info().unwrap().additional_reasons[0].reason, "pulled");
        assert_eq!((seen.state.last_event_update, seen.state.last_event_recorded_at), (Some(at(5)), Some(at(6))));
    }
}
