//! Quota that became free a moment ago.
//!
//! The API server decides with a cached copy of the quota, which it updates no sooner than the executor's watch does. A
//! create request that is sent as soon as the watch shows free quota is refused, or answered with a conflict, because the
//! API server does not know the new state yet. So free quota is used only after the settle time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::amounts::{self, Amounts};
use crate::quota::Quota;
use crate::time::after;

/// Increases of one quota within this fraction of the settle time (one eighth) are merged. This bounds the number of
/// entries in a busy namespace, and delays an increase by at most that fraction.
const MERGE_FRACTION: u32 = 8;

/// The settle time is at most doubled this often, so at most 16 times the configured value. Some clusters are slow, and
/// several API servers may learn of a change at different times.
const MAX_DOUBLINGS: u32 = 4;

/// After this time without an unexpected refusal the settle time is halved again. Long compared with the settle time, so
/// that a slow cluster does not cause a refusal each time.
const HALVE_AFTER: Duration = Duration::from_secs(60);

/// Increases of free quota that the API server may not know of yet.
#[derive(Debug, Default)]
pub(super) struct SettlingQuota {
    increases: VecDeque<Increase>,
    backoff: SettleBackoff,
}

/// Increases of one quota that are close to each other.
#[derive(Debug)]
struct Increase {
    quota: String,
    /// What the quota had left before the first increase, or the least between them.
    remaining_before: Amounts,
    first: Instant,
    last: Instant,
}

/// How often the configured settle time is doubled at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SettleBackoff {
    doublings: u32,
    /// When `doublings` changed last; `None` if it never did.
    changed_at: Option<Instant>,
}

impl SettlingQuota {
    /// The settle time at present. `configured` is [`GateSettings::settle`](super::settings::GateSettings::settle).
    pub(super) fn settle_time(&self, configured: Duration) -> Duration {
        configured.saturating_mul(1 << self.backoff.doublings.min(MAX_DOUBLINGS))
    }

    /// Records that a quota has more left than in its state `before`.
    pub(super) fn increased(&mut self, before: &Quota, configured: Duration, now: Instant) {
        let merge_within = self.settle_time(configured) / MERGE_FRACTION;
        let remaining_before = before.remaining();
        match self.increases.iter_mut().rev().find(|increase| increase.quota == before.name) {
            Some(increase) if now <= after(increase.first, merge_within) => {
                amounts::lower_to(&mut increase.remaining_before, &remaining_before);
                increase.last = now;
            }
            _ => {
                let quota = before.name.clone();
                self.increases.push_back(Increase { quota, remaining_before, first: now, last: now });
            }
        }
    }

    /// Lowers what a quota has left to what the API server may still believe.
    pub(super) fn lower(&self, quota: &str, remaining: &mut Amounts) {
        for increase in self.increases.iter().filter(|increase| increase.quota == quota) {
            amounts::lower_to(remaining, &increase.remaining_before);
        }
    }

    /// Records that a create request was refused although the quota seemed to have enough left: doubles the settle time.
    pub(super) fn create_refused(&mut self, configured: Duration, now: Instant) {
        // Create requests that were in flight together met the same state of the API server.
        let settle_time = self.settle_time(configured);
        if self.backoff.changed_at.is_none_or(|changed_at| now >= after(changed_at, settle_time)) {
            let doublings = self.backoff.doublings.saturating_add(1).min(MAX_DOUBLINGS);
            self.backoff = SettleBackoff { doublings, changed_at: Some(now) };
        }
    }

    /// Drops the increases that the API server must know by now, and shortens the settle time if it may be.
    pub(super) fn expire(&mut self, configured: Duration, now: Instant) {
        let settle_time = self.settle_time(configured);
        self.increases.retain(|increase| now < after(increase.last, settle_time));
        let may_halve = |changed_at| now >= after(changed_at, HALVE_AFTER);
        if self.backoff.doublings > 0 && self.backoff.changed_at.is_none_or(may_halve) {
            self.backoff = SettleBackoff { doublings: self.backoff.doublings - 1, changed_at: Some(now) };
        }
    }

    /// When the next increase may be used.
    pub(super) fn next_settled(&self, configured: Duration) -> Option<Instant> {
        let settle_time = self.settle_time(configured);
        self.increases.iter().map(|increase| after(increase.last, settle_time)).min()
    }

    /// Whether the state is the same as that of a new namespace.
    pub(super) fn is_idle(&self) -> bool {
        self.increases.is_empty() && self.backoff.doublings == 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::amounts::of;
    use crate::time::testing::at_milli as at;

    const SETTLE: Duration = Duration::from_millis(160);

    fn quota(used: i64) -> Quota {
        Quota::without_scopes("q", 1, of(&[("pods", "10")]), of(&[("pods", &used.to_string())]))
    }

    fn remaining(settling: &SettlingQuota, used: i64) -> String {
        let mut remaining = quota(used).remaining();
        settling.lower("q", &mut remaining);
        settling.lower("other", &mut remaining);
        remaining["pods"].to_string()
    }

    #[test]
    fn free_quota_counts_after_the_settle_time() {
        let mut settling = SettlingQuota::default();
        settling.increased(&quota(10), SETTLE, at(0));
        settling.increased(&quota(9), SETTLE, at(100));
        assert_eq!((remaining(&settling, 8).as_str(), settling.next_settled(SETTLE)), ("0", Some(at(160))));
        settling.expire(SETTLE, at(160));
        assert_eq!((remaining(&settling, 8).as_str(), settling.next_settled(SETTLE)), ("1", Some(at(260))));
        assert_eq!(remaining(&settling, 10), "0", "usage that grew since counts at once");
        settling.expire(SETTLE, at(260));
        assert_eq!((remaining(&settling, 8).as_str(), settling.is_idle()), ("2", true));
    }

    #[test]
    fn a_refusal_doubles_the_settle_time_for_a_while() {
        let mut settling = SettlingQuota::default();
        for now in [1000, 1001, 1319] {
            settling.create_refused(SETTLE, at(now));
        }
        assert_eq!(settling.settle_time(SETTLE), SETTLE * 2, "refusals within the settle time count once");
        settling.create_refused(SETTLE, at(1320));
        assert_eq!(settling.settle_time(SETTLE), SETTLE * 4);
        for now in 2..20 {
            settling.create_refused(SETTLE, at(now * 5000));
        }
        assert_eq!(settling.settle_time(SETTLE), SETTLE * 16);
        for minute in 1..=4 {
            settling.expire(SETTLE, at(95_000 + minute * 60_000));
        }
        assert_eq!(settling.settle_time(SETTLE), SETTLE);
    }

    proptest! {
        /// However many increases there are, few entries are kept, and merging delays an increase by no more than the
        /// documented fraction of the settle time.
        #[test]
        fn a_busy_namespace_keeps_few_entries(gaps in proptest::collection::vec(0_i64..50, 1..200)) {
            let mut settling = SettlingQuota::default();
            let mut now = 0;
            for gap in gaps {
                now += gap;
                settling.expire(SETTLE, at(now));
                settling.increased(&quota(10), SETTLE, at(now));
                prop_assert!(settling.increases.len() <= MERGE_FRACTION as usize + 1);
                let oldest = settling.increases.front().unwrap();
                prop_assert!(oldest.last <= after(oldest.first, SETTLE / MERGE_FRACTION));
            }
            settling.expire(SETTLE, after(at(now), SETTLE));
            prop_assert!(settling.is_idle());
        }
    }
}
