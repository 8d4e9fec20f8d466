//! How much room a namespace has: what its quotas say, and what they cannot say yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::charges::{ChargeId, Charges};
use super::own_usage::{CountingDelay, OwnUsage};
use super::settling::Settling;
use crate::amounts::{self, Amounts};
use crate::backoff::later;
use crate::quota::Quota;
use crate::quota::message::ExceededQuota;
use crate::request::Request;

/// Amounts of each quota, in the order of the quotas.
pub(super) type Shares = Vec<Amounts>;

/// The quotas of a namespace.
#[derive(Debug, Default)]
pub(super) struct Room {
    quotas: BTreeMap<String, Quota>,
    charges: Charges,
    live: OwnUsage,
    settling: Settling,
    stir: Option<ReleaseBurst>,
}

/// Objects end one after the other.
#[derive(Clone, Copy, Debug)]
struct ReleaseBurst {
    first: Timestamp,
    last: Timestamp,
}

/// Quotas that a request takes something of.
#[derive(Debug, Default)]
pub(super) struct Concerned {
    /// Those that have not enough left.
    pub(super) short: Vec<ExceededQuota>,
    /// The others.
    pub(super) ample: Vec<ExceededQuota>,
}

impl Room {
    /// Quotas are seen here.
    pub(super) fn is_limited(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// Nothing is worth remembering.
    pub(super) fn is_idle(&self) -> bool {
        self.quotas.is_empty() && self.charges.is_empty() && self.settling.is_idle()
    }

    /// A quota is there, or changed. The answer is whether there is more room than before.
    pub(super) fn seen(&mut self, quota: &Quota, settle: Duration, now: Timestamp) -> bool {
        let before = self.quotas.get(&quota.name).cloned();
        if before.as_ref().is_some_and(|before| before.version > quota.version) {
            return false;
        }
        let more = before.as_ref().is_some_and(|before| {
            let left = before.left();
            quota.left().iter().any(|(name, now_left)| left.get(name).is_none_or(|left| now_left > left))
        });
        let is_lower = |before: &Quota| quota.used.iter().any(|(name, used)| before.used.get(name) > Some(used));
        if before.as_ref().is_some_and(is_lower) {
            self.live.counted(self.notice(settle), now);
        }
        self.quotas.insert(quota.name.clone(), quota.clone());
        self.charges.observe(before.as_ref(), quota, &self.quotas);
        match before {
            Some(before) if more => self.settling.add(&before, settle, now),
            Some(_) => {}
            None => return true,
        }
        more
    }

    /// Quotas went. The answer is whether one did.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) -> bool {
        let before = self.quotas.len();
        self.quotas.retain(|name, _| keep(name));
        self.quotas.len() < before
    }

    /// Keeps room for a create.
    pub(super) fn keep(&mut self, request: &Arc<Request>) -> ChargeId {
        self.charges.add(request, &self.quotas)
    }

    /// Nothing was taken.
    pub(super) fn give_back(&mut self, charge: ChargeId) {
        self.charges.remove(charge, &self.quotas);
    }

    /// The server took it in, as far as is known.
    pub(super) fn taken(&mut self, charge: ChargeId, version: Option<u64>, now: Timestamp) {
        self.charges.taken(charge, version, &self.quotas, now);
    }

    /// The object of an action is there.
    pub(super) fn made(&mut self, action: &Arc<str>, request: &Arc<Request>, now: Timestamp) {
        if self.is_limited() {
            self.live.add(action, request, now);
        }
    }

    /// The object of an action has ended. The answer is whether there was one.
    pub(super) fn ended(&mut self, action: &str, settle: Duration, now: Timestamp) -> bool {
        let was_there = self.live.end(action, now);
        if was_there {
            let quiet = self.quiet(settle);
            let first = self.stir.filter(|stir| now < later(stir.last, quiet)).map_or(now, |stir| stir.first);
            self.stir = Some(ReleaseBurst { first, last: now });
        }
        was_there
    }

    /// When the controller that counts will have written what ended, as far as that can be waited for. A create that
    /// meets such a write is answered with a conflict.
    pub(super) fn calm_at(&self, settle: Duration) -> Option<Timestamp> {
        let calm =
            |stir: ReleaseBurst| later(stir.last, self.quiet(settle)).min(later(stir.first, self.notice(settle).ended));
        self.stir.map(calm)
    }

    /// Forgets objects of actions that are not known any more.
    pub(super) fn retain_objects(&mut self, is_known: impl Fn(&Arc<str>) -> bool) {
        self.live.retain(is_known);
        if !self.is_limited() {
            self.live = OwnUsage::default();
        }
    }

    /// A quota refused a create that was let through.
    pub(super) fn refused(&mut self, settle: Duration, now: Timestamp) {
        if self.is_limited() {
            self.settling.refused(settle, now);
        }
    }

    /// Forgets what is over.
    pub(super) fn expire(&mut self, settle: Duration, now: Timestamp) {
        self.charges.expire(&self.quotas, now);
        self.live.expire(self.notice(settle), now);
        self.settling.expire(settle, now);
        if self.calm_at(settle).is_some_and(|at| at <= now) {
            self.stir = None;
        }
    }

    /// When time alone makes room.
    pub(super) fn due(&self, settle: Duration) -> Option<Timestamp> {
        let times = [
            self.charges.next_expiry(),
            self.live.next_noticed(self.notice(settle)),
            self.settling.next(settle),
            self.calm_at(settle),
        ];
        times.into_iter().flatten().min()
    }

    /// What a request takes of each quota.
    pub(super) fn shares(&self, request: &Request) -> Shares {
        self.quotas.values().map(|quota| quota.share(request)).collect()
    }

    /// What is left of each quota.
    pub(super) fn left(&self) -> Shares {
        let left = self.quotas.values().map(|quota| {
            let [there, on_their_way] = self.charges.missing_from(quota);
            let used = if quota.has_scopes() { quota.used.clone() } else { self.live.at_least(&quota.used, &there) };
            let mut left = quota.hard.clone();
            amounts::take(&mut left, &used);
            self.settling.lower(&quota.name, &mut left);
            for taken in [&there, &on_their_way] {
                amounts::take(&mut left, taken);
            }
            left
        });
        left.collect()
    }

    /// Whether what is left is enough.
    pub(super) fn fits(&self, shares: &Shares, left: &Shares) -> bool {
        self.quotas.values().zip(shares).zip(left).all(|((quota, share), left)| {
            !quota.is_uncounted(share)
                && share.iter().all(|(name, amount)| left.get(name).is_some_and(|left| left >= amount))
        })
    }

    /// Quotas that could never take the request.
    pub(super) fn impossible(&self, request: &Request) -> Vec<ExceededQuota> {
        let over = |quota: &Quota| {
            let mut share = quota.share(request);
            share.retain(|name, amount| quota.hard.get(name).is_some_and(|hard| *amount > *hard));
            (!share.is_empty()).then(|| in_words(quota, &quota.left(), share))
        };
        self.quotas.values().filter_map(over).collect()
    }

    /// The quotas that a request takes something of, in words.
    pub(super) fn concerned(&self, request: &Request) -> Concerned {
        let mut concerned = Concerned::default();
        for (quota, left) in self.quotas.values().zip(&self.left()) {
            let share = quota.share(request);
            if share.is_empty() {
                continue;
            }
            let lacks = |name: &String| left.get(name) < share.get(name);
            let lacking: Amounts = share
                .iter()
                .filter(|(name, _)| lacks(name))
                .map(|(name, amount)| (name.clone(), amount.clone()))
                .collect();
            if !lacking.is_empty() || quota.is_uncounted(&share) {
                concerned.short.push(in_words(quota, left, if lacking.is_empty() { share } else { lacking }));
            } else {
                concerned.ample.push(in_words(quota, left, share));
            }
        }
        concerned
    }

    fn quiet(&self, settle: Duration) -> Duration {
        self.settling.moment(settle) / 2
    }

    /// The controller that counts has a longer way than the server: it has to take notice, to write what it counted, and
    /// to try again if somebody else wrote at the same time.
    fn notice(&self, settle: Duration) -> CountingDelay {
        let moment = self.settling.moment(settle);
        CountingDelay { made: moment.saturating_mul(4), ended: moment.saturating_mul(2) }
    }
}

/// Takes something of each quota.
pub(super) fn take(left: &mut Shares, shares: &Shares) {
    for (left, share) in left.iter_mut().zip(shares) {
        amounts::take(left, share);
    }
}

/// A quota in the words of a refusal, with what is on its way counted as used.
fn in_words(quota: &Quota, left: &Amounts, requested: Amounts) -> ExceededQuota {
    let named = |amounts: &Amounts| -> Amounts {
        amounts
            .iter()
            .filter(|(name, _)| requested.contains_key(*name))
            .map(|(name, amount)| (name.clone(), amount.clone()))
            .collect()
    };
    let limited = named(&quota.hard);
    let mut used = limited.clone();
    amounts::take(&mut used, left);
    if quota.is_uncounted(&requested) {
        used.clear();
    }
    ExceededQuota { name: quota.name.clone(), requested, used, limited }
}
