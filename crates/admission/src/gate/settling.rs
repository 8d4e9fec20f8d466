//! Room that has just appeared.
//!
//! The API server decides by a copy of the quota that hears of a change no sooner than we do: a create that is sent the
//! moment room appears is refused, or answered with a conflict, because the server does not know of the room yet. So room
//! counts only after it has been there for a moment.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use crate::amounts::Amounts;
use crate::backoff::later;
use crate::quota::Quota;

/// Changes this close to each other, as a part of the moment, are one: a busy namespace has hundreds of them.
const PARTS: u32 = 8;

/// Each refusal although there seemed to be room doubles the moment, up to this many times: some clusters are slow, and
/// several API servers may hear of a change at different times.
const MOST_DOUBLINGS: u32 = 4;

/// After so long without such a refusal the moment is halved again.
const CALM: Duration = Duration::from_secs(60);

/// What quotas had left before room appeared in them, as long as the server may not know of it.
#[derive(Debug, Default)]
pub(super) struct Settling {
    before: VecDeque<Before>,
    wariness: SettleBackoff,
}

#[derive(Debug)]
struct Before {
    quota: String,
    left: Amounts,
    first: Timestamp,
    last: Timestamp,
}

/// How much longer than usual room takes to settle here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SettleBackoff {
    doublings: u32,
    changed: Timestamp,
}

impl Settling {
    /// How long room takes to settle.
    pub(super) fn moment(&self, usual: Duration) -> Duration {
        usual.saturating_mul(1 << self.wariness.doublings.min(MOST_DOUBLINGS))
    }

    /// Room appeared in a quota that was like this before.
    pub(super) fn add(&mut self, before: &Quota, usual: Duration, now: Timestamp) {
        let together = self.moment(usual) / PARTS;
        let left = before.left();
        match self.before.iter_mut().rev().find(|other| other.quota == before.name) {
            Some(other) if now <= later(other.first, together) => {
                lower(&mut other.left, &left);
                other.last = now;
            }
            _ => self.before.push_back(Before { quota: before.name.clone(), left, first: now, last: now }),
        }
    }

    /// Lowers what a quota has left to what the server may still believe.
    pub(super) fn lower(&self, quota: &str, left: &mut Amounts) {
        for before in self.before.iter().filter(|before| before.quota == quota) {
            lower(left, &before.left);
        }
    }

    /// A create was refused although there seemed to be room.
    pub(super) fn refused(&mut self, usual: Duration, now: Timestamp) {
        // Creates that were on their way together met the same state.
        if now >= later(self.wariness.changed, self.moment(usual)) {
            let doublings = self.wariness.doublings.saturating_add(1).min(MOST_DOUBLINGS);
            self.wariness = SettleBackoff { doublings, changed: now };
        }
    }

    /// Forgets what the server must know by now.
    pub(super) fn expire(&mut self, usual: Duration, now: Timestamp) {
        let moment = self.moment(usual);
        self.before.retain(|before| now < later(before.last, moment));
        if self.wariness.doublings > 0 && now >= later(self.wariness.changed, CALM) {
            self.wariness = SettleBackoff { doublings: self.wariness.doublings - 1, changed: now };
        }
    }

    /// When room will have settled next.
    pub(super) fn next(&self, usual: Duration) -> Option<Timestamp> {
        let moment = self.moment(usual);
        self.before.iter().map(|before| later(before.last, moment)).min()
    }

    /// Nothing differs from a namespace that was never seen.
    pub(super) fn is_idle(&self) -> bool {
        self.before.is_empty() && self.wariness.doublings == 0
    }
}

fn lower(left: &mut Amounts, to: &Amounts) {
    for (name, own) in left.iter_mut() {
        if let Some(amount) = to.get(name).filter(|amount| *amount < own) {
            *own = amount.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::amounts::of;

    const USUAL: Duration = Duration::from_millis(160);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn quota(used: i64) -> Quota {
        Quota::plain("q", 1, of(&[("pods", "10")]), of(&[("pods", &used.to_string())]))
    }

    fn left(settling: &Settling, used: i64) -> String {
        let mut left = quota(used).left();
        settling.lower("q", &mut left);
        settling.lower("other", &mut left);
        left["pods"].to_string()
    }

    #[test]
    fn room_counts_after_a_moment() {
        let mut settling = Settling::default();
        settling.add(&quota(10), USUAL, at(0));
        settling.add(&quota(9), USUAL, at(100));
        assert_eq!((left(&settling, 8).as_str(), settling.next(USUAL)), ("0", Some(at(160))));
        settling.expire(USUAL, at(160));
        assert_eq!((left(&settling, 8).as_str(), settling.next(USUAL)), ("1", Some(at(260))));
        assert_eq!(left(&settling, 10), "0", "what was taken meanwhile is taken");
        settling.expire(USUAL, at(260));
        assert_eq!((left(&settling, 8).as_str(), settling.is_idle()), ("2", true));
    }

    #[test]
    fn a_refusal_makes_it_wary_for_a_while() {
        let mut settling = Settling::default();
        for now in [1000, 1001, 1319] {
            settling.refused(USUAL, at(now));
        }
        assert_eq!(settling.moment(USUAL), USUAL * 2, "one cause is one refusal");
        settling.refused(USUAL, at(1320));
        assert_eq!(settling.moment(USUAL), USUAL * 4);
        for now in 2..20 {
            settling.refused(USUAL, at(now * 5000));
        }
        assert_eq!(settling.moment(USUAL), USUAL * 16);
        for minute in 1..=4 {
            settling.expire(USUAL, at(95_000 + minute * 60_000));
        }
        assert_eq!(settling.moment(USUAL), USUAL);
    }

    proptest! {
        /// However many changes there are, few are kept, and each is settled no later than a part of the moment after
        /// its own time.
        #[test]
        fn a_busy_namespace_costs_little(gaps in proptest::collection::vec(0_i64..50, 1..200)) {
            let mut settling = Settling::default();
            let mut now = 0;
            for gap in gaps {
                now += gap;
                settling.expire(USUAL, at(now));
                settling.add(&quota(10), USUAL, at(now));
                prop_assert!(settling.before.len() <= PARTS as usize + 1);
                let late = settling.before.front().unwrap();
                prop_assert!(late.last <= later(late.first, USUAL / PARTS));
            }
            settling.expire(USUAL, later(at(now), USUAL));
            prop_assert!(settling.is_idle());
        }
    }
}
