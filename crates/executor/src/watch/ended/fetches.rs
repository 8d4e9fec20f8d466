//! Which actions are fetched next, and when: pure bookkeeping.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aileron_machinery::ActionKey;
use aileron_machinery::time::backoff::{ExponentialBackoff, Jitter};
use tokio::time::Instant;

/// Pauses between two attempts to fetch one action. A deletion may take a minute longer after a long outage.
const BACKOFF: ExponentialBackoff = ExponentialBackoff::doubling(Duration::from_secs(5), Duration::from_secs(60));
/// Spreads the actions whose fetches failed in the same outage.
const JITTER: Jitter = Jitter { from: 0.8, to: 1.5 };

/// The actions to fetch.
#[derive(Default)]
pub(super) struct Fetches {
    due: BTreeSet<(Instant, ActionKey)>,
    /// Failures in a row, for actions that are due or in flight. Each action is there once.
    failures: HashMap<ActionKey, u32>,
}

impl Fetches {
    /// Adds an action, unless it is due or in flight already.
    pub(super) fn add(&mut self, key: ActionKey, now: Instant) {
        if !self.failures.contains_key(&key) {
            self.failures.insert(key.clone(), 0);
            self.due.insert((now, key));
        }
    }

    /// An action to fetch now.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<ActionKey> {
        self.next_due().filter(|due| *due <= now)?;
        self.due.pop_first().map(|(_, key)| key)
    }

    /// When the next action is to be fetched.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The action was fetched, or is gone.
    pub(super) fn succeeded(&mut self, key: &ActionKey) {
        self.failures.remove(key);
    }

    /// The fetch failed and is repeated later. `random` is between zero and one. Returns the failures in a row.
    pub(super) fn failed(&mut self, key: ActionKey, now: Instant, random: f64) -> u32 {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        *failures = failures.saturating_add(1);
        let failures = *failures;
        self.due.insert((now + BACKOFF.pause_with(failures, JITTER, random), key));
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ActionKey {
        ActionKey::new("ns", name)
    }

    #[tokio::test(start_paused = true)]
    async fn an_action_is_due_once_and_later_after_each_failure() {
        let now = Instant::now();
        let mut fetches = Fetches::default();
        fetches.add(key("a"), now);
        fetches.add(key("a"), now);
        assert_eq!((fetches.take_due(now), fetches.take_due(now)), (Some(key("a")), None));
        fetches.add(key("a"), now);
        assert_eq!(fetches.take_due(now), None, "it is in flight");
        let pauses: Vec<_> = (0..6)
            .map(|_| {
                fetches.failed(key("a"), now, 0.0);
                let due = fetches.next_due().unwrap_or(now);
                assert_eq!(fetches.take_due(due), Some(key("a")));
                (due - now).as_secs()
            })
            .collect();
        assert_eq!(pauses, [4, 8, 16, 32, 48, 48]);
        fetches.succeeded(&key("a"));
        assert!(fetches.next_due().is_none() && fetches.failures.is_empty(), "nothing is kept of it");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_at_the_same_time_are_repeated_at_different_times() {
        let now = Instant::now();
        let mut fetches = Fetches::default();
        fetches.failed(key("a"), now, 0.0);
        fetches.failed(key("b"), now, 1.0);
        let times: BTreeSet<_> = fetches.due.iter().map(|(due, _)| *due).collect();
        assert_eq!(times.len(), 2);
    }
}
