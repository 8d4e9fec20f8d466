//! Objects that end shortly after one another.
//!
//! Each end makes the ResourceQuota controller recount the usage and write the quota. The API server answers a create
//! request that meets such a write with a conflict. So waiting actions are not woken until the burst is over.

use std::time::{Duration, Instant};

use crate::time::after;

/// Consecutive ends of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReleaseBurst {
    first: Instant,
    last: Instant,
}

impl ReleaseBurst {
    /// The burst after an object ended now. The end belongs to `current` if that burst saw its last end less than `gap`
    /// ago.
    pub(super) fn with_end(current: Option<Self>, gap: Duration, now: Instant) -> Self {
        let first = current.filter(|burst| now < after(burst.last, gap)).map_or(now, |burst| burst.first);
        Self { first, last: now }
    }

    /// When the burst is over: `gap` after its last end, but no later than `longest` after its first end, because in a
    /// busy namespace objects may never stop ending.
    pub(super) fn over_at(&self, gap: Duration, longest: Duration) -> Instant {
        after(self.last, gap).min(after(self.first, longest))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::time::testing::at_milli as at;

    const GAP: Duration = Duration::from_millis(75);
    const LONGEST: Duration = Duration::from_millis(300);

    #[test]
    fn ends_close_to_each_other_are_one_burst_of_bounded_length() {
        let mut burst = ReleaseBurst::with_end(None, GAP, at(0));
        assert_eq!(burst.over_at(GAP, LONGEST), at(75));
        for millis in [70, 140, 210, 280] {
            burst = ReleaseBurst::with_end(Some(burst), GAP, at(millis));
        }
        assert_eq!(burst, ReleaseBurst { first: at(0), last: at(280) });
        assert_eq!(burst.over_at(GAP, LONGEST), at(300), "the length is bounded");
        let next = ReleaseBurst::with_end(Some(burst), GAP, at(355));
        assert_eq!(next, ReleaseBurst { first: at(355), last: at(355) });
    }
}
