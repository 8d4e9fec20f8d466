//! Waiting for a service that does not work at the moment, at nobody's expense.

use aileron_machinery::{CoreStep, Pending, PendingReason, PhaseInfo, TaskInfo};
use jiff::{SignedDuration, Timestamp};

use super::Wake;
use super::decide::failure::stop_at_limit;
use super::decide::{Decision, Facts, ObjectStep, Record};

/// The first pause. Many outages, such as the restart of one server, are over after this.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_millis(500);
/// The longest pause. A task goes on within this time after the end of an outage, however long it was.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(5);

/// A service that a task needs does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outage {
    /// The object store.
    Storage,
    /// The cache service.
    Cache,
}

impl Outage {
    fn reason(self) -> PendingReason {
        match self {
            Self::Storage => PendingReason::Storage,
            Self::Cache => PendingReason::Cache,
        }
    }

    /// The fixed beginning of the message.
    fn sentence(self) -> &'static str {
        match self {
            Self::Storage => "waiting for the object store to work again",
            Self::Cache => "waiting for the cache service to grant a reservation",
        }
    }
}

/// Waits for the end of an outage. Time limits of the task still apply. The status says what the task waits for; its
/// phase stays.
///
/// # Differs from upstream
///
/// Upstream counts each failed read of the object store as a system failure, so that an outage of half a minute fails
/// tasks that had succeeded.
pub(super) fn wait_for_end(facts: &Facts<'_>, outage: Outage, detail: &str) -> Decision {
    if let Some(limit) = facts.limit_check.exceeded() {
        return stop_at_limit(facts, &CoreStep::of(PhaseInfo::undefined()), limit);
    }
    let mut status = facts.before.clone();
    let shown = status.pending().filter(|shown| shown.message.starts_with(outage.sentence()));
    let since = shown.map_or(facts.now, |shown| shown.last_transition_time.0);
    let mut phase = PhaseInfo::undefined();
    // Details differ from try to try. The first ones stay, so that the status is written once per outage.
    if shown.is_none() {
        let pending = Pending::new(outage.reason(), format!("{}: {detail}", outage.sentence()));
        if status.phase_history.is_empty() {
            phase = PhaseInfo::waiting_for_resources(outage.sentence(), TaskInfo::at(facts.now)).with_pending(pending);
            facts.show(&mut status, &phase);
        } else {
            status.show_pending(Some(&pending), facts.now);
        }
    }
    let again = facts.now.checked_add(pause(since, facts.now)).ok();
    let wake = facts.limit_check.earliest(again).map_or(Wake::OnChange, Wake::At);
    Decision::Record(Box::new(Record { status, phase, object: ObjectStep::Keep, wake }))
}

/// The pause grows with the age of the outage, so it needs no count of tries.
fn pause(since: Timestamp, now: Timestamp) -> SignedDuration {
    (now.duration_since(since) / 2).clamp(FIRST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_action::TaskActionStatus;
    use aileron_machinery::Phase;

    use super::*;
    use crate::reconcile::decide::tests::{Author, after, at, facts, queued, record, running, settings};

    fn wait(author: Author, status: TaskActionStatus, now: i64) -> Decision {
        let (action, settings) = (author.action(status), settings());
        wait_for_end(&facts(&action, &settings, now), Outage::Storage, "503 Slow Down")
    }

    fn ran() -> TaskActionStatus {
        TaskActionStatus { system_failures: 1, ..after(&[(&queued(), 1000), (&running(), 1005)]) }
    }

    #[test]
    fn an_outage_of_any_length_costs_the_task_nothing() {
        let first = record(wait(Author::default(), ran(), 1010));
        assert_eq!((first.status.system_failures, first.status.plugin_phase.as_str()), (1, "PhaseRunning"));
        assert_eq!(first.wake, Wake::At(at(1010) + FIRST_PAUSE));
        let pending = first.status.pending().unwrap();
        assert_eq!(pending.reason, "Storage");
        assert_eq!(pending.message, "waiting for the object store to work again: 503 Slow Down");
        let hours_later = record(wait(Author::default(), first.status.clone(), 50_000));
        assert_eq!(hours_later.status, first.status, "nothing is written again");
        assert_eq!(hours_later.wake, Wake::At(at(50_000) + LONGEST_PAUSE));
    }

    #[test]
    fn pauses_grow_with_the_outage() {
        let pauses = [0, 2, 6, 10, 1000].map(|age| pause(at(0), at(age)).as_millis());
        assert_eq!(pauses, [500, 1000, 3000, 5000, 5000]);
        assert_eq!(pause(at(5), at(0)), FIRST_PAUSE, "a clock that went back");
    }

    #[test]
    fn an_action_without_a_phase_shows_that_it_waits() {
        let fresh = record(wait(Author::default(), TaskActionStatus::default(), 1010));
        assert_eq!(fresh.phase.phase(), Phase::WaitingForResources);
        assert_eq!(fresh.status.plugin_phase, "PhaseWaitingForResources");
        assert_eq!(fresh.status.pending().unwrap().reason, "Storage");
        assert!(!fresh.status.phase_history.is_empty());
    }

    #[test]
    fn limits_of_time_end_the_wait() {
        let author = Author { run: 20, ..Author::default() };
        let waiting = record(wait(author, ran(), 1024)).wake;
        assert_eq!(waiting, Wake::At(at(1024) + FIRST_PAUSE));
        let status = record(wait(author, ran(), 1010)).status;
        let limit = at(1025) + SignedDuration::from_millis(999);
        assert_eq!(record(wait(author, status.clone(), 1022)).wake, Wake::At(limit), "the limit comes first");
        assert!(record(wait(author, status, 1026)).status.is_terminal());
    }
}
