//! How long an action may wait for a kind of object that the cluster does not serve.

use aileron_action::TaskActionStatus;
use aileron_kubekit::KIND_NOT_SERVED;
use aileron_machinery::{ExecutionError, PendingReason};
use jiff::{SignedDuration, Timestamp};

/// What `executor.missingKindTimeout` means for an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MissingKindDeadline {
    /// The action does not wait for a missing kind, or may wait without limit.
    None,
    /// The action waits for a missing kind, and fails at this time.
    At(Timestamp),
    /// The action has waited too long, and fails with this error.
    Passed(ExecutionError),
}

/// Decides from the status that is about to be recorded. A timeout of zero means no limit.
pub(super) fn missing_kind_deadline(
    status: &TaskActionStatus,
    timeout: SignedDuration,
    now: Timestamp,
) -> MissingKindDeadline {
    let Some(pending) = status.pending().filter(|it| it.reason == PendingReason::MissingKind.as_str()) else {
        return MissingKindDeadline::None;
    };
    if !timeout.is_positive() {
        return MissingKindDeadline::None;
    }
    let since = pending.last_transition_time.0;
    let Ok(deadline) = since.checked_add(timeout) else { return MissingKindDeadline::None };
    if now < deadline {
        return MissingKindDeadline::At(deadline);
    }
    let waited = aileron_kubekit::duration::GoDuration::from_secs(now.duration_since(since).as_secs());
    let message = format!("{} (waited {waited}; executor.missingKindTimeout)", pending.message);
    MissingKindDeadline::Passed(ExecutionError::system(KIND_NOT_SERVED, message))
}

#[cfg(test)]
mod tests {
    use aileron_machinery::Pending;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    fn waiting_for(reason: PendingReason) -> TaskActionStatus {
        let mut status = TaskActionStatus::default();
        status.show_pending(Some(&Pending::new(reason, "no such kind")), at(100));
        status
    }

    #[test]
    fn an_action_waits_for_a_missing_kind_as_long_as_configured() {
        let minute = SignedDuration::from_secs(60);
        let status = waiting_for(PendingReason::MissingKind);
        let deadline = |status: &_, timeout, now| missing_kind_deadline(status, timeout, at(now));
        assert_eq!(deadline(&status, minute, 159), MissingKindDeadline::At(at(160)));
        let error = ExecutionError::system("KindNotServed", "no such kind (waited 1m0s; executor.missingKindTimeout)");
        assert_eq!(deadline(&status, minute, 160), MissingKindDeadline::Passed(error));
        assert_eq!(deadline(&status, SignedDuration::ZERO, 9999), MissingKindDeadline::None);
        assert_eq!(deadline(&waiting_for(PendingReason::Quota), minute, 9999), MissingKindDeadline::None);
        assert_eq!(deadline(&TaskActionStatus::default(), minute, 9999), MissingKindDeadline::None);
    }
}
