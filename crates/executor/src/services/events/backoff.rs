//! Waiting longer and longer.

use std::time::Duration;

/// First wait: longer than a hiccup of the network, shorter than anybody notices.
const FIRST: Duration = Duration::from_millis(100);

/// Longest wait: a service that comes back is found within this time.
const LONGEST: Duration = Duration::from_secs(10);

/// How long to wait after `failures` failures in a row, at least one. Doubles each time; the upper half is random, so
/// that replicas that failed together do not come back together.
pub(super) fn delay(failures: u32, random: f64) -> Duration {
    let doubled = FIRST.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    doubled.min(LONGEST).mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
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
