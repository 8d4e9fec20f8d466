//! The pauses before an interrupted watch tries again.
//!
//! kube's own pauses grow to a minute, and a watch that was interrupted for long often needs two: one until its request is
//! answered with "too old", one until it lists again. Tasks would run unseen for two minutes after an outage of one.

use std::time::Duration;

use aileron_machinery::time::backoff::{ExponentialBackoff, Jitter};
use aileron_machinery::time::jitter::random;
use kube::runtime::utils::{Backoff, ResetTimerBackoff};

/// The first pause is short, because a restarted API server is often back at once. The longest one is short enough for tasks,
/// and not a burden: an executor has about ten watches, which send two requests per second during an outage.
const PAUSES: ExponentialBackoff = ExponentialBackoff::doubling(Duration::from_millis(500), Duration::from_secs(5));

/// Spreads the watches that one outage interrupted.
const JITTER: Jitter = Jitter { from: 1.0, to: 2.0 };

/// The longest pause with its random part.
pub(super) const LONGEST: Duration = Duration::from_secs(10);

/// Pauses begin again at the first one after this long without an interruption. Longer than a pause and a request without an
/// answer together, so that tries that fail one after the other do not count as a success.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// The pauses of one watch.
pub(super) fn pauses() -> ResetTimerBackoff<Pauses> {
    ResetTimerBackoff::new(Pauses { failures: 0 }, FORGET_AFTER)
}

/// Pauses that grow with each interruption.
pub(super) struct Pauses {
    failures: u32,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        Some(PAUSES.pause_with(self.failures, JITTER, random()))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_back_within_seconds_however_long_the_outage_was() {
        let mut pauses = pauses();
        assert!(pauses.next().unwrap_or_default() <= 2 * PAUSES.first);
        for _ in 0..1_000 {
            let pause = pauses.next().unwrap_or_default();
            assert!(pause > Duration::ZERO && pause <= LONGEST, "{pause:?}");
            tokio::time::sleep(pause).await;
        }
        assert!(pauses.next().unwrap_or_default() >= PAUSES.longest, "the outage goes on");
        tokio::time::sleep(2 * FORGET_AFTER).await;
        assert!(pauses.next().unwrap_or_default() <= 2 * PAUSES.first, "a later outage");
    }
}
