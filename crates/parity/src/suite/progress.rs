//! Waiting for many steps: as long as steps are taken, however slowly.

use std::time::{Duration, Instant};

use super::WAIT_TIMEOUT;

/// Notices when something stops to make progress. A limit for all steps together would depend on the speed of the machine.
#[derive(Debug)]
pub struct Progress<S> {
    state: Option<S>,
    changed: Instant,
}

impl<S: PartialEq> Progress<S> {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { state: None, changed: Instant::now() }
    }

    /// Whether this state has been the same for as long as one step may take.
    pub fn has_stopped(&mut self, state: S) -> bool {
        self.has_stopped_at(state, Instant::now(), WAIT_TIMEOUT)
    }

    fn has_stopped_at(&mut self, state: S, now: Instant, limit: Duration) -> bool {
        if self.state.as_ref() != Some(&state) {
            (self.state, self.changed) = (Some(state), now);
        }
        now.duration_since(self.changed) > limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_state_that_stays_ends_the_wait() {
        let mut progress = Progress::start();
        let start = Instant::now();
        let mut stopped = |state, second| {
            progress.has_stopped_at(state, start + Duration::from_secs(second), Duration::from_secs(10))
        };
        assert!(!stopped(1, 9) && !stopped(2, 18) && !stopped(3, 27), "each change is progress");
        assert!(!stopped(3, 37));
        assert!(stopped(3, 38));
        assert!(!stopped(2, 39), "a step back is a change too");
    }
}
