//! The time limits that the author of a task set: how long an attempt may be queued and run, how long the whole action
//! may take, and the pause before a retry.

use aileron_action::conditions::reason;
use aileron_action::{TaskAction, TaskActionStatus};
use aileron_idl::flyteidl2::core::TaskMetadata;
use aileron_idl::signed_duration;
use aileron_kubekit::duration::GoDuration;
use aileron_machinery::{ExecutionError, PendingReason};
use jiff::{SignedDuration, Timestamp};

/// Error codes of the limits. The SDK chooses the exception to raise by them.
const RAN_TOO_LONG: &str = "MAX_RUNTIME_EXCEEDED";
const QUEUED_TOO_LONG: &str = "QUEUED_TIMEOUT_EXCEEDED";
const PAST_DEADLINE: &str = "DEADLINE_EXCEEDED";

/// Kubernetes stores times without the fraction of the second. A limit counts from the end of the stored second: it is
/// reached at most one second late, and never early.
const LOST_FRACTION: SignedDuration = SignedDuration::from_millis(999);

/// Bounds the pause before a retry, in seconds, so that its end is always a valid time.
const LONGEST_PAUSE: f64 = 366.0 * 86_400.0;

/// Whether an action is within its time limits.
///
/// # Differs from upstream
///
/// Upstream reads none of these times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LimitCheck {
    /// No limit is reached before this time; `None` if no limit applies.
    Within(Option<Timestamp>),
    /// A limit is reached.
    Exceeded(LimitExceeded),
}

/// The limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LimitExceeded {
    pub(super) error: ExecutionError,
    /// It is the deadline of the action, so no attempt follows. Else another attempt may follow.
    pub(super) ends_action: bool,
    /// The attempt is still queued, so it cannot have ended since the last round.
    pub(super) before_start: bool,
}

impl LimitCheck {
    /// The limit that was reached, if one was.
    pub(super) fn exceeded(&self) -> Option<&LimitExceeded> {
        match self {
            Self::Exceeded(limit) => Some(limit),
            Self::Within(_) => None,
        }
    }

    /// The earlier of a time and the one at which a limit is reached.
    pub(super) fn earliest(&self, at: Option<Timestamp>) -> Option<Timestamp> {
        match self {
            Self::Within(until) => [at, *until].into_iter().flatten().min(),
            Self::Exceeded(_) => at,
        }
    }
}

/// The stage of an attempt that has a limit, and since when it is in this stage.
#[derive(Clone, Copy)]
enum Stage {
    Queued(Timestamp),
    Running(Timestamp),
    Other,
}

/// Checks an action against its limits. `status` may be newer than the status in the action's object.
pub(super) fn check_limits(
    metadata: Option<&TaskMetadata>,
    object: &TaskAction,
    status: &TaskActionStatus,
    now: Timestamp,
) -> LimitCheck {
    let Some(metadata) = metadata else { return LimitCheck::Within(None) };
    let attempt = status.observed_attempt();
    let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let mut next: Option<Timestamp> = None;
    let mut reached = |since: Option<Timestamp>, limit: Option<SignedDuration>| {
        let end = since.and_then(|since| began(since).checked_add(limit?).ok())?;
        if now >= end {
            return limit;
        }
        next = Some(next.map_or(end, |next| next.min(end)));
        None
    };

    let stage = stage(metadata, status, created);
    let before_start = matches!(stage, Stage::Queued(_));
    let timeouts = metadata.timeouts.as_ref();
    let first = status.phase_history.first().map(|entry| entry.occurred_at.0).or(created);
    let deadline = positive(timeouts.and_then(|timeouts| timeouts.deadline.as_ref()));
    if let Some(limit) = reached(first, deadline) {
        let message =
            format!("the action had not ended {} after it was queued first, which is its deadline", go(limit));
        return LimitCheck::Exceeded(LimitExceeded {
            error: ExecutionError::user(PAST_DEADLINE, message),
            ends_action: true,
            before_start,
        });
    }
    let (since, limit) = match stage {
        Stage::Queued(since) => (since, positive(timeouts.and_then(|timeouts| timeouts.queued_timeout.as_ref()))),
        Stage::Running(since) => (since, positive(metadata.timeout.as_ref())),
        Stage::Other => return LimitCheck::Within(next),
    };
    let Some(limit) = reached(Some(since), limit) else { return LimitCheck::Within(next) };
    let limit = go(limit);
    let error = if before_start {
        let what = status.pending().map(|pending| format!(": {}", pending.message)).unwrap_or_default();
        let message = format!("attempt {attempt} was queued for {limit}, the longest that the task allows{what}");
        ExecutionError::user(QUEUED_TOO_LONG, message)
    } else {
        let message = format!("attempt {attempt} ran for {limit}, the longest that the task allows, and was stopped");
        ExecutionError::user(RAN_TOO_LONG, message)
    };
    LimitCheck::Exceeded(LimitExceeded { error, ends_action: false, before_start })
}

/// The task limits the time in the queue, so each attempt needs its own entry in the history.
pub(super) fn limits_queue_time(metadata: Option<&TaskMetadata>) -> bool {
    let timeouts = metadata.and_then(|metadata| metadata.timeouts.as_ref());
    positive(timeouts.and_then(|timeouts| timeouts.queued_timeout.as_ref())).is_some()
}

/// The pause before the retry that follows this attempt: the base times the factor for each earlier retry, at most the
/// cap.
pub(super) fn retry_pause(metadata: Option<&TaskMetadata>, attempt: u32) -> SignedDuration {
    let backoff = metadata.and_then(|metadata| metadata.retries.as_ref()?.backoff.as_ref());
    let Some(backoff) = backoff else { return SignedDuration::ZERO };
    let Some(base) = positive(backoff.base.as_ref()) else { return SignedDuration::ZERO };
    let factor = backoff.factor.filter(|factor| factor.is_finite() && *factor >= 1.0).unwrap_or(1.0);
    let power = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
    let seconds = (base.as_secs_f64() * factor.powi(power)).min(LONGEST_PAUSE);
    let pause = SignedDuration::try_from_secs_f64(seconds).unwrap_or(base);
    backoff.cap.as_ref().map_or(pause, |cap| pause.min(signed_duration(cap)))
}

/// The end of the pause before the current attempt, if the action is in that pause.
pub(super) fn retry_pause_end(metadata: Option<&TaskMetadata>, status: &TaskActionStatus) -> Option<Timestamp> {
    let pending = status.pending().filter(|pending| pending.reason == PendingReason::Retry.as_str())?;
    let pause = retry_pause(metadata, status.observed_attempt().saturating_sub(1));
    began(pending.last_transition_time.0).checked_add(pause).ok()
}

fn stage(metadata: &TaskMetadata, status: &TaskActionStatus, created: Option<Timestamp>) -> Stage {
    let Some(entry) = status.phase_history.last() else { return created.map_or(Stage::Other, Stage::Queued) };
    let since = entry.occurred_at.0;
    match entry.phase.as_str() {
        reason::QUEUED => {
            // The pause before a retry does not count as time in the queue.
            let pause = match status.observed_attempt() {
                0 | 1 => SignedDuration::ZERO,
                attempt => retry_pause(Some(metadata), attempt - 1),
            };
            Stage::Queued(since.checked_add(pause).unwrap_or(since))
        }
        reason::EXECUTING => Stage::Running(since),
        _ => Stage::Other,
    }
}

/// The latest time that a stored time can stand for.
fn began(stored: Timestamp) -> Timestamp {
    stored.checked_add(LOST_FRACTION).unwrap_or(stored)
}

/// A duration as a limit; zero and less mean no limit.
pub(super) fn positive(duration: Option<&prost_types::Duration>) -> Option<SignedDuration> {
    duration.map(signed_duration).filter(SignedDuration::is_positive)
}

/// A duration as Go prints it.
pub(super) fn go(duration: SignedDuration) -> GoDuration {
    GoDuration::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
