//! Arithmetic with monotonic times that cannot fail.

#[cfg(test)]
pub(crate) mod testing;

use std::time::{Duration, Instant};

/// Stands for "never" where a sum does not fit into an [`Instant`], which has no largest value. No process runs that long.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The monotonic time `wait` after `start`, or a time that no process reaches if the sum does not fit.
#[must_use]
pub fn after(start: Instant, wait: Duration) -> Instant {
    start.checked_add(wait.min(NEVER)).unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::testing::at_second;
    use super::*;

    #[test]
    fn a_wait_without_end_is_longer_than_any_process_runs() {
        assert_eq!(after(at_second(1), Duration::from_secs(2)), at_second(3));
        assert!(after(at_second(1), Duration::MAX) > at_second(10 * 365 * 24 * 3600));
    }
}
