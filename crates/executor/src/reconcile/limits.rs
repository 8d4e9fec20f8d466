//! How long an attempt may wait and run, how long an action may last, and the pause before another attempt: what the
//! author of the task said.

use aileron_idl::flyteidl2::core::TaskMetadata;
use aileron_kubekit::duration::GoDuration;
use aileron_machinery::{ExecutionError, PendingReason};
use jiff::{SignedDuration, Timestamp};

use crate::action::conditions::reason;
use crate::action::{TaskAction, TaskActionStatus};

/// Codes of the limits, by which the SDK chooses what to raise.
const RAN_TOO_LONG: &str = "MAX_RUNTIME_EXCEEDED";
const QUEUED_TOO_LONG: &str = "QUEUED_TIMEOUT_EXCEEDED";
const PAST_DEADLINE: &str = "DEADLINE_EXCEEDED";

/// Times in an object are whole seconds, cut off. What began at some moment of a second is taken to have begun at its
/// end: late by a second at most, and never early.
const CUT_OFF: SignedDuration = SignedDuration::from_millis(999);

/// The longest pause before another attempt, whatever a task asks for: it must be a time that can be written down.
const LONGEST_PAUSE: f64 = 366.0 * 86_400.0;

/// What the time says about an action.
///
/// # Differs from upstream
///
/// Upstream reads none of these times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All is well until this moment; nothing means for ever.
    Within(Option<Timestamp>),
    /// It is over.
    Over(Over),
}

/// Which limit was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) error: ExecutionError,
    /// It was that of the action, whatever attempts are left; else another attempt may follow.
    pub(super) is_final: bool,
    /// The attempt has not begun to run, so nothing of it can have ended.
    pub(super) is_queued: bool,
}

/// Where an attempt stands, and since when.
#[derive(Clone, Copy)]
enum Stage {
    Queued(Timestamp),
    Running(Timestamp),
    Other,
}

/// Decides from an action and its status, which may be newer than that in the action.
pub(super) fn judge(
    metadata: Option<&TaskMetadata>,
    object: &TaskAction,
    status: &TaskActionStatus,
    now: Timestamp,
) -> Verdict {
    let Some(metadata) = metadata else { return Verdict::Within(None) };
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
    let is_queued = matches!(stage, Stage::Queued(_));
    let timeouts = metadata.timeouts.as_ref();
    let first = status.phase_history.first().map(|line| line.occurred_at.0).or(created);
    let deadline = positive(timeouts.and_then(|timeouts| timeouts.deadline.as_ref()));
    if let Some(limit) = reached(first, deadline) {
        let message =
            format!("the action had not ended {} after it was queued first, which is its deadline", go(limit));
        return Verdict::Over(Over { error: ExecutionError::user(PAST_DEADLINE, message), is_final: true, is_queued });
    }
    let (since, limit) = match stage {
        Stage::Queued(since) => (since, positive(timeouts.and_then(|timeouts| timeouts.queued_timeout.as_ref()))),
        Stage::Running(since) => (since, positive(metadata.timeout.as_ref())),
        Stage::Other => return Verdict::Within(next),
    };
    let Some(limit) = reached(Some(since), limit) else { return Verdict::Within(next) };
    let limit = go(limit);
    let error = if is_queued {
        let what = status.pending().map(|pending| format!(": {}", pending.message)).unwrap_or_default();
        let message = format!("attempt {attempt} was queued for {limit}, the longest that the task allows{what}");
        ExecutionError::user(QUEUED_TOO_LONG, message)
    } else {
        let message = format!("attempt {attempt} ran for {limit}, the longest that the task allows, and was stopped");
        ExecutionError::user(RAN_TOO_LONG, message)
    };
    Verdict::Over(Over { error, is_final: false, is_queued })
}

/// Whether the time in the queue matters, so that each attempt needs a line of its own in the history.
pub(super) fn limits_queue(metadata: Option<&TaskMetadata>) -> bool {
    let timeouts = metadata.and_then(|metadata| metadata.timeouts.as_ref());
    positive(timeouts.and_then(|timeouts| timeouts.queued_timeout.as_ref())).is_some()
}

/// The pause before the attempt after this one: the base times the factor for each earlier retry, at most the cap.
pub(super) fn pause_after(metadata: Option<&TaskMetadata>, attempt: u32) -> SignedDuration {
    let backoff = metadata.and_then(|metadata| metadata.retries.as_ref()?.backoff.as_ref());
    let Some(backoff) = backoff else { return SignedDuration::ZERO };
    let Some(base) = positive(backoff.base.as_ref()) else { return SignedDuration::ZERO };
    let factor = backoff.factor.filter(|factor| factor.is_finite() && *factor >= 1.0).unwrap_or(1.0);
    let power = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
    let seconds = (base.as_secs_f64() * factor.powi(power)).min(LONGEST_PAUSE);
    let pause = SignedDuration::try_from_secs_f64(seconds).unwrap_or(base);
    backoff.cap.as_ref().map_or(pause, |cap| pause.min(span(cap)))
}

/// Until when an action pauses before its attempt, if it does.
pub(super) fn pauses_until(metadata: Option<&TaskMetadata>, status: &TaskActionStatus) -> Option<Timestamp> {
    let pending = status.pending().filter(|pending| pending.reason == PendingReason::Retry.as_str())?;
    let pause = pause_after(metadata, status.observed_attempt().saturating_sub(1));
    began(pending.last_transition_time.0).checked_add(pause).ok()
}

fn stage(metadata: &TaskMetadata, status: &TaskActionStatus, created: Option<Timestamp>) -> Stage {
    let Some(line) = status.phase_history.last() else { return created.map_or(Stage::Other, Stage::Queued) };
    let since = line.occurred_at.0;
    match line.phase.as_str() {
        reason::QUEUED => {
            // The pause before an attempt is no time in a queue.
            let pause = match status.observed_attempt() {
                0 | 1 => SignedDuration::ZERO,
                attempt => pause_after(Some(metadata), attempt - 1),
            };
            Stage::Queued(since.checked_add(pause).unwrap_or(since))
        }
        reason::EXECUTING => Stage::Running(since),
        _ => Stage::Other,
    }
}

fn began(stored: Timestamp) -> Timestamp {
    stored.checked_add(CUT_OFF).unwrap_or(stored)
}

/// Zero and less mean no limit.
pub(super) fn positive(duration: Option<&prost_types::Duration>) -> Option<SignedDuration> {
    duration.map(span).filter(SignedDuration::is_positive)
}

fn span(duration: &prost_types::Duration) -> SignedDuration {
    SignedDuration::new(duration.seconds, 0).saturating_add(SignedDuration::from_nanos(duration.nanos.into()))
}

/// A duration as people read it.
pub(super) fn go(duration: SignedDuration) -> GoDuration {
    GoDuration::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use aileron_idl::flyteidl2::core::{Backoff, RetryStrategy, TimeoutStrategy};
    use aileron_machinery::{Pending, PhaseInfo, TaskInfo};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000_000_000 + millis).unwrap()
    }

    fn seconds(seconds: i64) -> prost_types::Duration {
        prost_types::Duration { seconds, nanos: 0 }
    }

    fn limits(run: i64, queued: i64, deadline: i64) -> TaskMetadata {
        TaskMetadata {
            timeout: Some(seconds(run)),
            timeouts: Some(TimeoutStrategy {
                queued_timeout: Some(seconds(queued)),
                deadline: Some(seconds(deadline)),
            }),
            ..TaskMetadata::default()
        }
    }

    fn action() -> TaskAction {
        let mut action = TaskAction::new("a", Default::default());
        action.metadata.creation_timestamp = Some(Time(at(0)));
        action
    }

    /// A status in which these happened at these moments.
    fn after(phases: &[(PhaseInfo, i64)]) -> TaskActionStatus {
        let mut status = TaskActionStatus { attempts: 1, ..TaskActionStatus::default() };
        for (phase, millis) in phases {
            status.show_phase(phase, at(*millis));
        }
        status
    }

    fn queued() -> PhaseInfo {
        PhaseInfo::queued("waiting", TaskInfo::at(at(0)))
    }

    fn running() -> PhaseInfo {
        PhaseInfo::running(TaskInfo::at(at(0)))
    }

    fn judged(metadata: &TaskMetadata, status: &TaskActionStatus, millis: i64) -> Verdict {
        judge(Some(metadata), &action(), status, at(millis))
    }

    /// The moment in milliseconds at which what began at this second is over.
    fn end(began: i64, limit: i64) -> i64 {
        (began + limit) * 1000 + 999
    }

    #[test]
    fn an_attempt_that_runs_too_long_is_over_and_its_time_in_the_queue_does_not_count() {
        let limits = limits(10, 0, 0);
        let status = after(&[(queued(), 0), (running(), 60_300)]);
        assert_eq!(judged(&limits, &status, end(60, 10) - 1), Verdict::Within(Some(at(end(60, 10)))));
        let Verdict::Over(over) = judged(&limits, &status, end(60, 10)) else { panic!("it may go on") };
        assert_eq!((over.error.code.as_str(), over.is_final, over.is_queued), ("MAX_RUNTIME_EXCEEDED", false, false));
        assert_eq!(over.error.message, "attempt 1 ran for 10s, the longest that the task allows, and was stopped");
        assert_eq!(judged(&limits, &after(&[(queued(), 0)]), 90_000), Verdict::Within(None));
    }

    #[test]
    fn waiting_too_long_names_what_was_waited_for() {
        let limits = limits(0, 5, 0);
        assert_eq!(judged(&limits, &TaskActionStatus::default(), 2), Verdict::Within(Some(at(end(0, 5)))));
        let mut status = after(&[(queued(), 0)]);
        status.show_pending(Some(&Pending::new(PendingReason::Quota, "waiting for quota q")), at(1));
        let Verdict::Over(over) = judged(&limits, &status, end(0, 5)) else { panic!("it may go on") };
        assert_eq!(over.error.code, "QUEUED_TIMEOUT_EXCEEDED");
        assert!(over.is_queued && !over.is_final && over.error.message.ends_with("task allows: waiting for quota q"));
        assert_eq!(judged(&limits, &after(&[(queued(), 0), (running(), 2)]), 9000), Verdict::Within(None));
    }

    #[test]
    fn a_deadline_is_for_all_attempts_together() {
        let limits = limits(10, 10, 20);
        let mut status = after(&[(queued(), 0), (running(), 2000), (queued(), 15_000)]);
        status.attempts = 2;
        assert_eq!(judged(&limits, &status, 16_000), Verdict::Within(Some(at(end(0, 20)))));
        assert!(matches!(judged(&limits, &status, end(0, 20)), Verdict::Over(Over { is_final: true, .. })));
    }

    #[test]
    fn pauses_grow_to_their_cap_and_are_no_time_in_a_queue() {
        let backoff = Backoff { base: Some(seconds(1)), factor: Some(2.0), cap: Some(seconds(5)) };
        let mut metadata = limits(0, 3, 0);
        metadata.retries = Some(RetryStrategy { retries: 9, backoff: Some(backoff) });
        let pauses: Vec<_> = (1..6).map(|attempt| pause_after(Some(&metadata), attempt).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 5, 5]);
        assert_eq!(pause_after(Some(&TaskMetadata::default()), 3), SignedDuration::ZERO);

        let retried = queued().because(PendingReason::Retry);
        let mut status = after(&[(queued(), 0), (running(), 2000), (retried, 10_000)]);
        status.attempts = 3;
        assert_eq!(pauses_until(Some(&metadata), &status), Some(at(end(10, 2))));
        assert_eq!(judged(&metadata, &status, 10_002), Verdict::Within(Some(at(end(10, 5)))));
        status.show_phase(&queued(), at(12_001));
        assert_eq!(pauses_until(Some(&metadata), &status), None);
        assert_eq!(judged(&metadata, &status, 12_002), Verdict::Within(Some(at(end(10, 5)))));
    }

    #[test]
    fn without_limits_there_is_nothing_to_wait_for() {
        let status = after(&[(queued(), 1), (running(), 2)]);
        assert_eq!(judged(&limits(0, 0, 0), &status, i64::from(i32::MAX)), Verdict::Within(None));
        assert_eq!(judged(&limits(-5, -5, -5), &status, 10_000), Verdict::Within(None));
        assert_eq!(judge(None, &action(), &status, at(1)), Verdict::Within(None));
    }

    proptest! {
        /// Whatever a task says: no pause is negative, none exceeds the cap, and none is shorter than the one before.
        #[test]
        fn pauses_are_in_order(
            base in any::<i64>(), nanos in any::<i32>(), factor in any::<f64>(), cap in proptest::option::of(0_i64..1_000_000),
            attempt in 1_u32..5000,
        ) {
            let backoff = Backoff {
                base: Some(prost_types::Duration { seconds: base, nanos }),
                factor: Some(factor),
                cap: cap.map(seconds),
            };
            let retries = Some(RetryStrategy { retries: 1, backoff: Some(backoff) });
            let metadata = TaskMetadata { retries, ..TaskMetadata::default() };
            let (one, next) = (pause_after(Some(&metadata), attempt), pause_after(Some(&metadata), attempt + 1));
            prop_assert!(!one.is_negative() && one <= next);
            if let Some(cap) = cap {
                prop_assert!(next <= SignedDuration::from_secs(cap));
            }
        }

        /// A verdict stands until the moment it names, and not longer.
        #[test]
        fn a_verdict_changes_at_its_moment(
            run in 0_i64..50, queued_for in 0_i64..50, deadline in 0_i64..90, started in proptest::option::of(0_i64..60_000),
            now in 0_i64..120_000,
        ) {
            let limits = limits(run, queued_for, deadline);
            let mut phases = vec![(queued(), 0)];
            phases.extend(started.map(|millis| (running(), millis + 2)));
            let status = after(&phases);
            if let Verdict::Within(Some(until)) = judged(&limits, &status, now) {
                prop_assert!(until > at(now));
                let before = until.checked_sub(SignedDuration::from_millis(1)).unwrap();
                prop_assert_eq!(judge(Some(&limits), &action(), &status, before), Verdict::Within(Some(until)));
                prop_assert!(!matches!(judge(Some(&limits), &action(), &status, until), Verdict::Within(_)));
            }
        }
    }
}
