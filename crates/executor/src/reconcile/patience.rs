//! How long an action may wait for something that may never come.

use aileron_action::TaskActionStatus;
use aileron_kubekit::KIND_NOT_SERVED;
use aileron_machinery::{ExecutionError, PendingReason};
use jiff::{SignedDuration, Timestamp};

/// What an action that waits is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Wait on; nothing but a change ends it.
    Unbounded,
    /// Wait on, and give up at this moment.
    Until(Timestamp),
    /// Give up.
    Over(ExecutionError),
}

/// Decides from the status that is about to be written. Only a missing kind is waited for with a limit; 0 is none.
pub(super) fn patience(status: &TaskActionStatus, missing_kind_timeout: SignedDuration, now: Timestamp) -> Patience {
    let Some(pending) = status.pending().filter(|it| it.reason == PendingReason::MissingKind.as_str()) else {
        return Patience::Unbounded;
    };
    if !missing_kind_timeout.is_positive() {
        return Patience::Unbounded;
    }
    let since = pending.last_transition_time.0;
    let Ok(deadline) = since.checked_add(missing_kind_timeout) else { return Patience::Unbounded };
    if now < deadline {
        return Patience::Until(deadline);
    }
    let waited = aileron_kubekit::duration::GoDuration::from_secs(now.duration_since(since).as_secs());
    let message = format!("{} (waited {waited}; executor.missingKindTimeout)", pending.message);
    Patience::Over(ExecutionError::system(KIND_NOT_SERVED, message))
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
    fn a_missing_kind_is_waited_for_as_long_as_configured() {
        let minute = SignedDuration::from_secs(60);
        let status = waiting_for(PendingReason::MissingKind);
        assert_eq!(patience(&status, minute, at(159)), Patience::Until(at(160)));
        let over = ExecutionError::system("KindNotServed", "no such kind (waited 1m0s; executor.missingKindTimeout)");
        assert_eq!(patience(&status, minute, at(160)), Patience::Over(over));
        assert_eq!(patience(&status, SignedDuration::ZERO, at(9999)), Patience::Unbounded);
        assert_eq!(patience(&waiting_for(PendingReason::Quota), minute, at(9999)), Patience::Unbounded);
        assert_eq!(patience(&TaskActionStatus::default(), minute, at(9999)), Patience::Unbounded);
    }
}
