//! Exponential back-off: pauses between tries that grow with each failure.

use std::time::Duration;

/// Pauses that are multiplied by a factor with each failure in a row, up to a bound.
///
/// ```
/// use std::time::Duration;
/// use aileron_machinery::time::backoff::ExponentialBackoff;
///
/// const RETRIES: ExponentialBackoff = ExponentialBackoff::doubling(Duration::from_secs(1), Duration::from_secs(30));
/// assert_eq!([1, 2, 3, 9].map(|failures| RETRIES.pause(failures).as_secs()), [1, 2, 4, 30]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExponentialBackoff {
    /// The pause after the first failure.
    pub first: Duration,
    /// What each further failure multiplies the pause with.
    pub factor: u32,
    /// The longest pause, before jitter.
    pub longest: Duration,
}

/// The random part of a pause: the pause is multiplied by a number in this range. It keeps clients that failed at the
/// same moment from trying again at the same moment.
///
/// ```
/// use std::time::Duration;
/// use aileron_machinery::time::{backoff::Jitter, jitter::random};
///
/// let jitter = Jitter { from: 0.5, to: 1.5 };
/// assert_eq!(jitter.applied(Duration::from_secs(10), 0.0), Duration::from_secs(5));
/// assert!(jitter.applied(Duration::from_secs(10), random()) <= Duration::from_secs(15));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// The smallest multiplier.
    pub from: f64,
    /// The largest multiplier.
    pub to: f64,
}

impl ExponentialBackoff {
    /// Pauses that double with each failure.
    #[must_use]
    pub const fn doubling(first: Duration, longest: Duration) -> Self {
        Self { first, factor: 2, longest }
    }

    /// The pause after this number of failures in a row, which is at least one. It has no random part.
    #[must_use]
    pub fn pause(&self, failures: u32) -> Duration {
        let growth = self.factor.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(growth).min(self.longest)
    }

    /// The pause after this number of failures in a row with its random part. `random` is between zero and one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use aileron_machinery::time::backoff::{ExponentialBackoff, Jitter};
    ///
    /// let backoff = ExponentialBackoff::doubling(Duration::from_secs(1), Duration::from_secs(30));
    /// assert_eq!(backoff.pause_with(3, Jitter { from: 1.0, to: 2.0 }, 0.5), Duration::from_secs(6));
    /// ```
    #[must_use]
    pub fn pause_with(&self, failures: u32, jitter: Jitter, random: f64) -> Duration {
        jitter.applied(self.pause(failures), random)
    }
}

impl Jitter {
    /// A pause with its random part. `random` is between zero and one.
    #[must_use]
    pub fn applied(&self, pause: Duration, random: f64) -> Duration {
        pause.mul_f64(self.from + (self.to - self.from) * random.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_are_multiplied_up_to_the_bound() {
        let doubling = ExponentialBackoff::doubling(SECOND, 10 * SECOND);
        let seconds = [0, 1, 2, 3, 4, 5, u32::MAX].map(|failures| doubling.pause(failures).as_secs());
        assert_eq!(seconds, [1, 1, 2, 4, 8, 10, 10]);
        let tripling = ExponentialBackoff { factor: 3, ..doubling };
        assert_eq!([1, 2, 3, 4].map(|failures| tripling.pause(failures).as_secs()), [1, 3, 9, 10]);
    }

    #[test]
    fn jitter_spreads_a_pause_over_its_range() {
        let backoff = ExponentialBackoff::doubling(SECOND, 10 * SECOND);
        let lower_half = Jitter { from: 0.5, to: 1.0 };
        assert_eq!(backoff.pause_with(2, lower_half, 0.0), SECOND);
        assert_eq!(backoff.pause_with(2, lower_half, 1.0), 2 * SECOND);
        assert_eq!(backoff.pause_with(2, Jitter { from: 1.0, to: 1.5 }, 7.0), 3 * SECOND, "random is bounded by one");
    }

    proptest! {
        #[test]
        fn pauses_never_shrink_and_never_exceed_the_bound(
            first in 0_u64..10_000, factor in 1_u32..100, longest in 0_u64..1_000_000, failures in 1_u32..200,
        ) {
            let (first, longest) = (Duration::from_millis(first), Duration::from_millis(longest));
            let backoff = ExponentialBackoff { first, factor, longest };
            prop_assert!(backoff.pause(failures) <= backoff.pause(failures + 1));
            prop_assert!(backoff.pause(failures) <= longest);
        }
    }
}
