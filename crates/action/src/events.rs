//! The events that are recorded about an action.

use aileron_idl::flyteidl2::common::{ActionIdentifier, ActionPhase, RunIdentifier};
use aileron_idl::flyteidl2::core::CatalogCacheStatus;
use aileron_idl::flyteidl2::task::OutputReferences;
use aileron_idl::flyteidl2::workflow::{ActionEvent, ClusterEvent, ErrorInfo, error_info};
use aileron_machinery::{ErrorKind, ExecutionError, Phase, PhaseInfo, TaskInfo};
use jiff::Timestamp;

use super::metadata::output_prefix;
use super::{Action, TaskActionStatus};
use crate::shorten::{ERROR_CODE, EVENT_MESSAGE, shortened};

/// The event for a phase of the action's current attempt, as its status will be.
pub fn action_event(
    action: &Action,
    status: &TaskActionStatus,
    info: &PhaseInfo,
    cluster: &str,
    now: Timestamp,
) -> ActionEvent {
    let updated = match status.phase_history.last() {
        Some(entry) if !moved_within_queue(action, status, info) => entry.occurred_at.0,
        _ => now,
    };
    let details = info.info();
    ActionEvent {
        id: Some(identifier(action)),
        attempt: status.observed_attempt(),
        phase: action_phase(info).into(),
        version: info.version(),
        updated_time: Some(wire_time(updated)),
        reported_time: Some(wire_time(now)),
        error_info: info.error().map(wire_error),
        cluster: cluster.into(),
        outputs: output_references(action, status.observed_attempt()),
        cluster_events: cluster_events(info, updated),
        log_info: details.map(|details| details.logs.clone()).unwrap_or_default(),
        log_context: details.and_then(|details| details.log_context.clone()),
        cache_status: cache_status(details).into(),
        ..ActionEvent::default()
    }
}

/// The action stopped waiting and is queued now. The history has one entry for both, but events have two phases, so the
/// event needs a time of its own.
///
/// # Differs from upstream
///
/// Upstream never waits. With the time of the history entry, the time of waiting would count as time in the queue.
fn moved_within_queue(action: &Action, status: &TaskActionStatus, info: &PhaseInfo) -> bool {
    let Some(before) = action.object.status.as_ref() else { return false };
    let waits = [Phase::WaitingForResources.as_str(), Phase::WaitingForCache.as_str()];
    before.attempts == status.attempts
        && before.phase_history.last() == status.phase_history.last()
        && info.phase() == Phase::Queued
        && waits.contains(&before.plugin_phase.as_str())
}

/// The event that says an attempt was stopped on request.
pub fn abort_event(action: &Action, cluster: &str, now: Timestamp) -> ActionEvent {
    let info = PhaseInfo::aborted("aborted", TaskInfo::at(now));
    let mut event = action_event(action, &action.status(), &info, cluster, now);
    // The history has no entry for the abort. Its time is the end of the attempt.
    event.updated_time = Some(wire_time(now));
    event
}

/// The first cache status among the external resources that is not "disabled".
pub fn cache_status(info: Option<&TaskInfo>) -> CatalogCacheStatus {
    info.into_iter()
        .flat_map(|info| &info.external_resources)
        .map(|resource| resource.cache_status)
        .find(|status| *status != CatalogCacheStatus::CacheDisabled)
        .unwrap_or(CatalogCacheStatus::CacheDisabled)
}

/// A time as protobuf has it.
pub fn wire_time(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}

fn identifier(action: &Action) -> ActionIdentifier {
    let spec = &action.object.spec;
    ActionIdentifier {
        run: Some(RunIdentifier {
            project: spec.project.clone(),
            domain: spec.domain.clone(),
            name: spec.run_name.clone(),
            ..RunIdentifier::default()
        }),
        name: spec.action_name.clone(),
    }
}

fn action_phase(info: &PhaseInfo) -> ActionPhase {
    match info.phase() {
        Phase::RetryableFailure | Phase::PermanentFailure if info.is_out_of_time() => ActionPhase::TimedOut,
        Phase::Undefined => ActionPhase::Unspecified,
        Phase::NotReady | Phase::Queued => ActionPhase::Queued,
        Phase::WaitingForResources | Phase::WaitingForCache => ActionPhase::WaitingForResources,
        Phase::Initializing => ActionPhase::Initializing,
        Phase::Running => ActionPhase::Running,
        Phase::Success => ActionPhase::Succeeded,
        Phase::RetryableFailure | Phase::PermanentFailure => ActionPhase::Failed,
        Phase::Aborted => ActionPhase::Aborted,
    }
}

/// # Differs from upstream
///
/// The error code is sent too. Without it a client sees that a task failed, but not that it ran out of memory.
fn wire_error(error: &ExecutionError) -> ErrorInfo {
    let kind = match error.kind {
        ErrorKind::Unknown => error_info::Kind::Unspecified,
        ErrorKind::User => error_info::Kind::User,
        ErrorKind::System => error_info::Kind::System,
    };
    ErrorInfo {
        message: shortened(&error.message, EVENT_MESSAGE).into_owned(),
        kind: kind.into(),
        code: shortened(&error.code, ERROR_CODE).into_owned(),
        ..ErrorInfo::default()
    }
}

fn output_references(action: &Action, attempt: u32) -> Option<OutputReferences> {
    if action.object.spec.run_output_base.is_empty() {
        return None;
    }
    let prefix = output_prefix(action, attempt).ok()?;
    let prefix = prefix.trim_end_matches('/');
    Some(OutputReferences { output_uri: format!("{prefix}/outputs.pb"), report_uri: format!("{prefix}/report.html") })
}

fn cluster_events(info: &PhaseInfo, fallback: Timestamp) -> Vec<ClusterEvent> {
    let details = info.info();
    let mut events = Vec::new();
    if !info.reason().is_empty() {
        let at = details.map_or(fallback, |details| details.occurred_at);
        events.push(cluster_event(info.reason(), at));
    }
    for more in details.map(|details| details.additional_reasons.as_slice()).unwrap_or_default() {
        let at = more.occurred_at.unwrap_or(fallback);
        events.push(cluster_event(&more.reason, at));
    }
    events
}

fn cluster_event(message: &str, at: Timestamp) -> ClusterEvent {
    let message = shortened(message, EVENT_MESSAGE).into_owned();
    ClusterEvent { message, occurred_at: Some(wire_time(at)), ..ClusterEvent::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::TaskAction;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// The time of the event for a phase that is shown at second 60 after another one at second 10.
    fn event_time(first: &PhaseInfo, then: &PhaseInfo) -> i64 {
        let mut status = TaskActionStatus { attempts: 1, ..TaskActionStatus::default() };
        status.show_phase(first, at(10));
        status.plugin_phase = first.phase().as_str().into();
        let mut object = TaskAction::new("a", Default::default());
        object.status = Some(status.clone());
        status.show_phase(then, at(60));
        let event = action_event(&Action::new(object, None), &status, then, "", at(60));
        event.updated_time.unwrap().seconds
    }

    #[test]
    fn the_end_of_waiting_has_its_own_time() {
        let info = || TaskInfo::at(at(60));
        let waits = PhaseInfo::waiting_for_resources("waiting for quota", info());
        let queued = |reason: &str| PhaseInfo::queued(reason, info());
        assert_eq!(event_time(&waits, &queued("task submitted to K8s")), 60);
        assert_eq!(event_time(&queued("one"), &queued("another")), 10, "it is queued since then");
        assert_eq!(event_time(&waits, &PhaseInfo::running(info())), 60);
    }

    #[test]
    fn a_long_message_is_bounded() {
        let info = || TaskInfo::at(at(60));
        let huge = "x".repeat(2 * 1024 * 1024);
        let action = Action::new(TaskAction::default(), None);
        let size = |info: &PhaseInfo| {
            let event = action_event(&action, &TaskActionStatus::default(), info, "", at(60));
            prost::Message::encoded_len(&event)
        };
        let failed = size(&PhaseInfo::permanent_failure(ExecutionError::user(&huge, &huge), info()));
        assert!((EVENT_MESSAGE / 2..EVENT_MESSAGE * 5 / 2).contains(&failed), "{failed}");
        let queued = size(&PhaseInfo::queued(&huge, info()));
        assert!((EVENT_MESSAGE / 2..EVENT_MESSAGE * 2).contains(&queued), "{queued}");
    }

    #[test]
    fn an_attempt_that_took_too_long_has_a_phase_of_its_own() {
        let info = || TaskInfo::at(at(60));
        let error = || ExecutionError::user("MAX_RUNTIME_EXCEEDED", "too long");
        for phase in [PhaseInfo::retryable_failure(error(), info()), PhaseInfo::permanent_failure(error(), info())] {
            assert_eq!(action_phase(&phase), ActionPhase::Failed);
            assert_eq!(action_phase(&phase.out_of_time()), ActionPhase::TimedOut);
        }
    }
}
