//! How long an intermediate status may be held, and when a held status is sent.

use std::time::{Duration, Instant};

use aileron_action::TaskActionStatus;
use aileron_machinery::{PendingReason, Phase};

use crate::caches::held_status::Held;

/// Bounds how long `Queued` is held. Its event, with the reason, is recorded at once, and most tasks start within this
/// time; then `Queued` is never written.
const HOLD_QUEUED: Duration = Duration::from_secs(10);
/// Bounds how long a status is held that says what keeps a task from starting. Users look for that reason, so it must
/// appear soon. An obstacle that is gone within this time is not worth a write.
const HOLD_PENDING_REASON: Duration = Duration::from_secs(1);
/// Bounds how long `Initializing` is held. Most pods run within this time after their preparation began.
const HOLD_INITIALIZING: Duration = Duration::from_secs(2);
/// Bounds how long a phase before `Running` is held while all write slots are taken. A phase that is older than this
/// looks like a stuck task.
const LONGEST_HOLD_BEFORE_RUNNING: Duration = Duration::from_secs(15);
/// Bounds how long `Running` is held while all write slots are taken. Users wait to see that their code runs.
const LONGEST_HOLD_RUNNING: Duration = Duration::from_secs(3);
/// The time after which a status that is due, but gave way to other writes, is tried again. It is short, because a slot
/// becomes free whenever one request is answered.
const BUSY_RETRY: Duration = Duration::from_millis(250);

/// What to do with a held status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Send it now.
    Now,
    /// Ask again at this time.
    Later(Instant),
}

/// How long an intermediate status may wait for a newer one to replace it.
pub fn hold_time(status: &TaskActionStatus) -> Duration {
    let has_obstacle = status.pending().is_some_and(|pending| pending.reason != PendingReason::Starting.as_str());
    match Phase::from_name(&status.plugin_phase) {
        Some(Phase::Queued | Phase::WaitingForResources | Phase::Initializing) if has_obstacle => HOLD_PENDING_REASON,
        Some(Phase::Queued | Phase::WaitingForResources) => HOLD_QUEUED,
        Some(Phase::Initializing) => HOLD_INITIALIZING,
        _ => Duration::ZERO,
    }
}

/// Decides whether a held status is sent. While all write slots are taken (`is_busy`), an intermediate status gives way
/// to writes that end tasks, but not longer than its phase allows.
pub fn decide_flush(held: &Held, now: Instant, is_busy: bool) -> Flush {
    if held.due > now {
        return Flush::Later(held.due);
    }
    if is_busy && now < held.since + longest_hold(&held.wanted) {
        return Flush::Later(now + BUSY_RETRY);
    }
    Flush::Now
}

/// How long a status may be held in total while all write slots are taken.
fn longest_hold(status: &TaskActionStatus) -> Duration {
    match Phase::from_name(&status.plugin_phase) {
        Some(Phase::Queued | Phase::WaitingForResources | Phase::Initializing) => LONGEST_HOLD_BEFORE_RUNNING,
        _ => LONGEST_HOLD_RUNNING,
    }
}

#[cfg(test)]
mod tests {
    use aileron_machinery::Pending;
    use jiff::Timestamp;

    use super::*;
    use crate::caches::held_status::Written;

    fn status(phase: Phase, pending: Option<PendingReason>) -> TaskActionStatus {
        let mut status = TaskActionStatus { plugin_phase: phase.as_str().into(), ..TaskActionStatus::default() };
        let pending = pending.map(|reason| Pending::new(reason, "m"));
        status.show_pending(pending.as_ref(), Timestamp::UNIX_EPOCH);
        status
    }

    #[test]
    fn the_hold_time_depends_on_the_phase_and_on_whether_an_obstacle_is_known() {
        let starting = Some(PendingReason::Starting);
        let hold = |phase, pending| hold_time(&status(phase, pending));
        assert_eq!(hold(Phase::Queued, None), HOLD_QUEUED);
        assert_eq!(hold(Phase::Queued, starting), HOLD_QUEUED, "a task that starts normally has no obstacle");
        assert_eq!(hold(Phase::WaitingForResources, None), HOLD_QUEUED);
        assert_eq!(hold(Phase::WaitingForResources, Some(PendingReason::Quota)), HOLD_PENDING_REASON);
        assert_eq!(hold(Phase::Queued, Some(PendingReason::Unschedulable)), HOLD_PENDING_REASON);
        assert_eq!(hold(Phase::Initializing, starting), HOLD_INITIALIZING);
        assert_eq!(hold(Phase::Initializing, Some(PendingReason::ImagePull)), HOLD_PENDING_REASON);
        for phase in [Phase::Running, Phase::WaitingForCache, Phase::NotReady, Phase::RetryableFailure] {
            assert_eq!(hold(phase, None), Duration::ZERO, "{phase}");
        }
    }

    #[test]
    fn a_held_status_is_sent_when_it_is_due() {
        let since = Instant::now();
        let due = since + Duration::from_secs(2);
        let held = Held { written: Written::default(), wanted: status(Phase::Initializing, None), since, due };
        assert_eq!(decide_flush(&held, since, false), Flush::Later(due));
        assert_eq!(decide_flush(&held, due - Duration::from_millis(1), true), Flush::Later(due));
        assert_eq!(decide_flush(&held, due, false), Flush::Now);
    }

    #[test]
    fn a_due_status_gives_way_to_other_writes_up_to_a_limit() {
        let since = Instant::now();
        let held = |phase| Held { written: Written::default(), wanted: status(phase, None), since, due: since };
        let later = |seconds| since + Duration::from_secs(seconds);
        for (phase, limit) in [(Phase::Queued, 15), (Phase::Initializing, 15), (Phase::Running, 3)] {
            let before = later(limit) - Duration::from_millis(1);
            assert_eq!(decide_flush(&held(phase), before, true), Flush::Later(before + BUSY_RETRY), "{phase}");
            assert_eq!(decide_flush(&held(phase), later(limit), true), Flush::Now, "{phase}");
        }
    }
}
