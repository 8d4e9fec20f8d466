//! What a new status means for others: whether it is worth a write, and whether an event goes first.

use std::time::Duration;

use aileron_action::TaskActionStatus;
use aileron_kubekit::ApiError;
use jiff::Timestamp;

use super::hold::hold_time;
use crate::services::events::EventError;

/// What recording a status takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Nothing changed.
    Nothing,
    /// Only the status is written: what changed is not part of events.
    Status(When),
    /// The event is recorded, and after it the status is written.
    EventThenStatus(When),
}

/// When a status is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In this round.
    Now,
    /// At most this much later, unless a newer status replaces it first.
    Within(Duration),
}

/// Decides how a status is recorded that follows another.
pub fn plan_recording(before: &TaskActionStatus, after: &TaskActionStatus) -> Recording {
    if !status_changed(before, after) {
        return Recording::Nothing;
    }
    let when = if after.is_terminal() { When::Now } else { When::Within(hold_time(after)) };
    if is_news(before, after) { Recording::EventThenStatus(when) } else { Recording::Status(when) }
}

/// Something changed that is worth a write. `stateJson` is only for people who read the object, so it does not count.
pub fn status_changed(before: &TaskActionStatus, after: &TaskActionStatus) -> bool {
    before.plugin_state_version != after.plugin_state_version
        || before.plugin_phase != after.plugin_phase
        || before.plugin_phase_version != after.plugin_phase_version
        || before.attempts != after.attempts
        || before.system_failures != after.system_failures
        || before.cache_status != after.cache_status
        || before.plugin_state != after.plugin_state
        || before.phase_history.len() != after.phase_history.len()
        // A full history drops an entry for each new one.
        || before.phase_history.last() != after.phase_history.last()
        || before.conditions != after.conditions
}

/// The API server refuses this status for its size, or because a text in it is longer than the schema allows.
pub fn is_refused_for_size(error: &ApiError) -> bool {
    // Said by the API server, by etcd, and by the API server's own client of etcd.
    const TEXTS: [&str; 3] = ["entity too large", "request is too large", "message larger than max"];
    let message = error.message.to_lowercase();
    error.is_too_large() || error.is_invalid() || TEXTS.iter().any(|text| message.contains(text))
}

/// The API server refused a status and changed nothing. A conflict says that somebody else wrote the action, perhaps this
/// executor itself in a request that got no answer.
pub fn is_certainly_not_written(error: &ApiError) -> bool {
    (400..500).contains(&error.code) && !error.is_conflict()
}

/// The events service refuses this event for what it is, and would refuse it again.
pub fn is_refused_for_good(error: &EventError) -> bool {
    match error {
        EventError::Invalid(_) | EventError::Rejected(_) => true,
        EventError::GaveUp { .. } | EventError::Closed => false,
    }
}

/// Something changed that events tell. The `Pending` condition, which says what an action waits for, is in the status
/// alone.
fn is_news(before: &TaskActionStatus, after: &TaskActionStatus) -> bool {
    let without_pending = |status: &TaskActionStatus| {
        let mut status = status.clone();
        status.show_pending(None, Timestamp::UNIX_EPOCH);
        status
    };
    status_changed(&without_pending(before), &without_pending(after))
}

#[cfg(test)]
mod tests {
    use aileron_machinery::{ExecutionError, Pending, PendingReason, PhaseInfo, TaskInfo};

    use super::*;

    fn shown(phase: &PhaseInfo) -> TaskActionStatus {
        let mut status = TaskActionStatus { attempts: 1, ..TaskActionStatus::default() };
        status.show_phase(phase, Timestamp::UNIX_EPOCH);
        status.plugin_phase = phase.phase().as_str().into();
        status
    }

    fn info() -> TaskInfo {
        TaskInfo::at(Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn refusals_for_size_are_recognised_however_they_are_worded() {
        let refused = |code, reason: &str, message: &str| ApiError {
            code,
            reason: reason.into(),
            message: message.into(),
            retry_after: None,
        };
        assert!(is_refused_for_size(&refused(413, "RequestEntityTooLarge", "limit is 3145728")));
        assert!(is_refused_for_size(&refused(422, "Invalid", "status.conditions[0].message: Too long")));
        assert!(is_refused_for_size(&refused(400, "BadRequest", "Request entity too large: limit is 3145728")));
        assert!(is_refused_for_size(&refused(500, "InternalError", "etcdserver: request is too large")));
        let grpc = "trying to send message larger than max (2097153 vs. 2097152)";
        assert!(is_refused_for_size(&refused(500, "InternalError", grpc)));
        assert!(!is_refused_for_size(&refused(409, "Conflict", "the object has been modified")));
        assert!(!is_refused_for_size(&ApiError::unanswered("connection refused")));
    }

    #[test]
    fn only_a_refusal_of_the_api_server_proves_that_nothing_was_written() {
        let refused = |code, reason: &str| ApiError { code, reason: reason.into(), ..ApiError::default() };
        assert!(is_certainly_not_written(&refused(422, "Invalid")));
        assert!(is_certainly_not_written(&refused(429, "TooManyRequests")));
        assert!(!is_certainly_not_written(&refused(409, "Conflict")));
        assert!(!is_certainly_not_written(&refused(504, "Timeout")));
        assert!(!is_certainly_not_written(&ApiError::unanswered("connection reset")));
    }

    #[test]
    fn nothing_is_recorded_when_nothing_changed_but_the_summary_for_people() {
        let before = shown(&PhaseInfo::running(info()));
        let after = TaskActionStatus { state_json: "{}".into(), ..before.clone() };
        assert_eq!(plan_recording(&before, &after), Recording::Nothing);
    }

    #[test]
    fn every_field_that_others_or_the_next_round_read_is_worth_a_write() {
        let before = shown(&PhaseInfo::running(info()));
        let changes: [fn(&mut TaskActionStatus); 8] = [
            |status| status.plugin_state_version = 9,
            |status| status.plugin_phase = "PhaseQueued".into(),
            |status| status.plugin_phase_version = 9,
            |status| status.attempts = 9,
            |status| status.system_failures = 9,
            |status| status.cache_status = 9,
            |status| status.plugin_state.0.push(9),
            |status| status.begin_history("Executing", "", Timestamp::UNIX_EPOCH),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut after = before.clone();
            change(&mut after);
            assert!(matches!(plan_recording(&before, &after), Recording::EventThenStatus(_)), "change {index}");
        }
    }

    #[test]
    fn an_end_is_written_at_once_and_an_intermediate_phase_later() {
        let before = shown(&PhaseInfo::queued("q", info()));
        for end in [PhaseInfo::success(info()), PhaseInfo::permanent_failure(ExecutionError::user("c", "m"), info())] {
            assert_eq!(plan_recording(&before, &shown(&end)), Recording::EventThenStatus(When::Now));
        }
        let running = shown(&PhaseInfo::running(info()));
        assert_eq!(plan_recording(&before, &running), Recording::EventThenStatus(When::Within(hold_time(&running))));
    }

    #[test]
    fn what_an_action_waits_for_is_written_without_an_event() {
        let before = shown(&PhaseInfo::queued("q", info()));
        let mut after = before.clone();
        after.show_pending(Some(&Pending::new(PendingReason::Unschedulable, "no node")), Timestamp::UNIX_EPOCH);
        assert_eq!(plan_recording(&before, &after), Recording::Status(When::Within(hold_time(&after))));
        after.attempts += 1;
        assert!(matches!(plan_recording(&before, &after), Recording::EventThenStatus(_)));
    }

    #[test]
    fn only_an_event_that_the_service_will_never_accept_is_given_up() {
        let refused =
            crate::services::connect::ConnectError::new(crate::services::connect::Code::InvalidArgument, "no");
        assert!(is_refused_for_good(&EventError::Invalid("id is missing")));
        assert!(is_refused_for_good(&EventError::Rejected(refused)));
        assert!(!is_refused_for_good(&EventError::GaveUp { after: Duration::ZERO, last: None }));
        assert!(!is_refused_for_good(&EventError::Closed));
    }
}
