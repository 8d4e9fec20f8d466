//! The pause before a failed call to the events service is retried.

use std::time::Duration;

use aileron_machinery::time::backoff::{ExponentialBackoff, Jitter};

/// The first pause: longer than a short network error, too short to be noticed by users.
const FIRST: Duration = Duration::from_millis(100);

/// The longest pause: a call is made within this time after the service is available again. During an outage only one
/// call at a time is made, so this is no load.
const LONGEST: Duration = Duration::from_secs(3);

/// The lower half of a pause is fixed and the upper half is random, so that replicas that failed at the same time do not
/// retry at the same time.
const JITTER: Jitter = Jitter { from: 0.5, to: 1.0 };

/// The pause after `failures` failures in a row, at least one.
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
