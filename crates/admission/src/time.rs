//! Arithmetic with timestamps that cannot fail.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The timestamp `wait` after `start`, or the latest possible timestamp if the sum does not fit.
#[must_use]
pub fn after(start: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| start.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_does_not_fit_is_the_latest_timestamp() {
        let start = Timestamp::UNIX_EPOCH;
        assert_eq!(after(start, Duration::from_millis(1500)).as_millisecond(), 1500);
        assert_eq!(after(start, Duration::MAX), Timestamp::MAX);
        assert_eq!(after(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
    }
}
