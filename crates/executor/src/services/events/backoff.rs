//! Waiting longer and longer.

use std::time::Duration;

use aileron_machinery::time::backoff::{ExponentialBackoff, Jitter};

/// First wait: longer than a hiccup of the network, shorter than anybody notices.
const FIRST: Duration = Duration::from_millis(100);

/// Longest wait: a service that comes back is found within this time.
const LONGEST: Duration = Duration::from_secs(10);

/// The lower half of a wait is fixed and the upper half random, so that replicas that failed together do not try again
/// together.
const JITTER: Jitter = Jitter { from: 0.5, to: 1.0 };

/// How long to wait after `failures` failures in a row, at least one.
pub(super) fn delay(failures: u32, random: f64) -> Duration {
    ExponentialBackoff::doubling(FIRST, LONGEST).pause_with(failures, JITTER, random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_the_limit_and_is_never_zero() {
        assert_eq!(delay(1, 1.0), FIRST);
        assert_eq!(delay(1, 0.0), FIRST / 2);
        assert_eq!(delay(3, 1.0), FIRST * 4);
        assert_eq!(delay(u32::MAX, 1.0), LONGEST);
    }
}
