//! Creates that a quota does not show yet.
//!
//! The API server adds a new object to `status.used` of its quotas before it stores the object, but the watch shows that
//! a little later. Until then the executor counts the object itself, or it would give the same room away twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::amounts::{self, Amounts};
use crate::backoff::later;
use crate::quota::Quota;
use crate::request::Request;

/// How long an object that exists may be missing from a quota's usage. A watch shows a change within milliseconds; what
/// is not to be seen after this was counted and given back already, or by somebody else's reckoning.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

/// Names a charge; a later one has a higher number.
pub(super) type ChargeId = u64;

/// What is or soon will be taken, and is not visible yet.
#[derive(Debug, Default)]
pub(super) struct Charges {
    all: BTreeMap<ChargeId, Charge>,
    made: ChargeId,
    ledgers: BTreeMap<String, Ledger>,
}

#[derive(Debug)]
struct Charge {
    request: Arc<Request>,
    /// When the server took it in, and the version of the object; nothing while it is on its way.
    taken: Option<(Timestamp, Option<u64>)>,
    /// Quotas that show it.
    shown_by: BTreeSet<String>,
}

/// Increases of one quota since there was last nothing to wait for. Which increase is whose cannot be told, but when
/// there were as many as there are charges, all charges are among them; or the count was put right meanwhile, so this is
/// said only of objects that are there, which [`super::own_usage`] knows too.
#[derive(Debug, Default)]
struct Ledger {
    owed: Amounts,
    seen: Amounts,
}

impl Charges {
    pub(super) fn add(&mut self, request: &Arc<Request>, quotas: &BTreeMap<String, Quota>) -> ChargeId {
        self.made += 1;
        let charge = Charge { request: Arc::clone(request), taken: None, shown_by: BTreeSet::new() };
        for quota in quotas.values() {
            let share = quota.share(request);
            if !share.is_empty() {
                amounts::add(&mut self.ledgers.entry(quota.name.clone()).or_default().owed, &share);
            }
        }
        self.all.insert(self.made, charge);
        self.made
    }

    /// Nothing was taken.
    pub(super) fn remove(&mut self, id: ChargeId, quotas: &BTreeMap<String, Quota>) {
        if let Some(charge) = self.all.remove(&id) {
            self.write_off(&charge, quotas);
        }
        self.close_ledgers(quotas);
    }

    /// The server took it in, as far as is known.
    pub(super) fn taken(
        &mut self,
        id: ChargeId,
        version: Option<u64>,
        quotas: &BTreeMap<String, Quota>,
        now: Timestamp,
    ) {
        let Some(charge) = self.all.get_mut(&id) else { return };
        charge.taken = Some((now, version));
        for quota in quotas.values() {
            let stored_before = version.is_some_and(|version| quota.version > version);
            if stored_before || self.ledgers.get(&quota.name).is_some_and(Ledger::is_settled) {
                charge.shown_by.insert(quota.name.clone());
            }
        }
        self.forget_shown(quotas);
    }

    /// A quota changed from one state to another. Whatever was stored before it was written is in it.
    pub(super) fn observe(&mut self, before: Option<&Quota>, after: &Quota, quotas: &BTreeMap<String, Quota>) {
        let mut all_seen = false;
        if let (Some(ledger), Some(before)) = (self.ledgers.get_mut(&after.name), before) {
            let mut more = after.used.clone();
            amounts::take(&mut more, &before.used);
            more.retain(|_, amount| amount.signum() > 0);
            amounts::add(&mut ledger.seen, &more);
            all_seen = ledger.is_settled();
        }
        for charge in self.all.values_mut() {
            let stored_before = matches!(charge.taken, Some((_, Some(version))) if after.version > version);
            if stored_before || (all_seen && charge.taken.is_some()) {
                charge.shown_by.insert(after.name.clone());
            }
        }
        self.forget_shown(quotas);
    }

    /// Forgets what must have been seen by now.
    pub(super) fn expire(&mut self, quotas: &BTreeMap<String, Quota>, now: Timestamp) {
        let late = |charge: &Charge| charge.expires().is_some_and(|at| at <= now);
        let late: Vec<_> = self.all.iter().filter(|(_, charge)| late(charge)).map(|(id, _)| *id).collect();
        for id in late {
            self.remove(id, quotas);
        }
    }

    /// When the next charge is forgotten.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.all.values().filter_map(Charge::expires).min()
    }

    /// What a quota does not show yet: first of objects that are there, then of creates that are on their way.
    pub(super) fn missing_from(&self, quota: &Quota) -> [Amounts; 2] {
        let mut missing = [Amounts::new(), Amounts::new()];
        for charge in self.all.values().filter(|charge| !charge.shown_by.contains(&quota.name)) {
            let place = usize::from(charge.taken.is_none());
            amounts::add(&mut missing[place], &quota.share(&charge.request));
        }
        missing
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn forget_shown(&mut self, quotas: &BTreeMap<String, Quota>) {
        self.all.retain(|_, charge| charge.taken.is_none() || !charge.is_shown(quotas));
        self.close_ledgers(quotas);
    }

    /// A ledger is kept only while there is something to wait for.
    fn close_ledgers(&mut self, quotas: &BTreeMap<String, Quota>) {
        let all = &self.all;
        self.ledgers.retain(|name, _| {
            quotas.get(name).is_some_and(|quota| {
                all.values().any(|charge| !charge.shown_by.contains(name) && !quota.share(&charge.request).is_empty())
            })
        });
    }

    fn write_off(&mut self, charge: &Charge, quotas: &BTreeMap<String, Quota>) {
        for quota in quotas.values().filter(|quota| !charge.shown_by.contains(&quota.name)) {
            if let Some(ledger) = self.ledgers.get_mut(&quota.name) {
                amounts::take(&mut ledger.owed, &quota.share(&charge.request));
            }
        }
    }
}

impl Ledger {
    /// Everything was seen.
    fn is_settled(&self) -> bool {
        self.owed.iter().all(|(name, owed)| self.seen.get(name).is_some_and(|seen| seen >= owed))
    }
}

impl Charge {
    fn expires(&self) -> Option<Timestamp> {
        self.taken.map(|(at, _)| later(at, SEEN_WITHIN))
    }

    fn is_shown(&self, quotas: &BTreeMap<String, Quota>) -> bool {
        quotas.values().all(|quota| self.shown_by.contains(&quota.name) || quota.share(&self.request).is_empty())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_machinery::ResourceKind;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::amounts::of;

    fn quota(version: u64, used: &str) -> Quota {
        Quota::plain("q", version, of(&[("pods", "10")]), of(&[("pods", used)]))
    }

    fn request() -> Arc<Request> {
        let kind = ResourceKind::of::<Pod>();
        Arc::new(Request { kind, amounts: of(&[("pods", "1")]), traits: Some(Default::default()) })
    }

    fn left(charges: &Charges, quota: &Quota) -> String {
        let mut left = quota.left();
        for missing in charges.missing_from(quota) {
            amounts::take(&mut left, &missing);
        }
        left["pods"].to_string()
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn quotas(quota: &Quota) -> BTreeMap<String, Quota> {
        [("q".to_owned(), quota.clone())].into()
    }

    #[test]
    fn a_charge_counts_until_the_quota_shows_it_and_never_twice() {
        let mut charges = Charges::default();
        let (first, second, third) = (quota(10, "4"), quota(12, "5"), quota(15, "6"));
        let other = charges.add(&request(), &quotas(&first));
        let id = charges.add(&request(), &quotas(&first));
        assert_eq!(left(&charges, &first), "4");
        charges.observe(Some(&first), &second, &quotas(&second));
        assert_eq!(left(&charges, &second), "3", "which of the two it is cannot be told");
        charges.taken(id, Some(14), &quotas(&second), at(0));
        assert_eq!(left(&charges, &second), "3");
        charges.observe(Some(&second), &third, &quotas(&third));
        assert_eq!(left(&charges, &third), "3", "two increases, but the count may have been put right meanwhile");
        charges.taken(other, Some(17), &quotas(&third), at(0));
        assert_eq!(left(&charges, &third), "4", "both are in the usage now");
        assert!(charges.is_empty());
    }

    #[test]
    fn a_create_that_was_stored_before_a_state_is_in_it() {
        let mut charges = Charges::default();
        let (first, second) = (quota(10, "4"), quota(15, "4"));
        let id = charges.add(&request(), &quotas(&first));
        charges.add(&request(), &quotas(&first));
        charges.taken(id, Some(14), &quotas(&first), at(0));
        charges.observe(Some(&first), &second, &quotas(&second));
        assert_eq!(left(&charges, &second), "5", "only the other one is still on its way");
    }

    #[test]
    fn usage_that_was_counted_and_freed_at_once_is_not_waited_for() {
        let mut charges = Charges::default();
        let seen = quota(20, "4");
        let id = charges.add(&request(), &quotas(&seen));
        charges.taken(id, Some(15), &quotas(&seen), at(0));
        assert!(charges.is_empty(), "the quota is newer than the object");
        let id = charges.add(&request(), &quotas(&seen));
        charges.taken(id, Some(25), &quotas(&seen), at(0));
        assert_eq!((left(&charges, &seen).as_str(), charges.next_expiry()), ("5", Some(at(1000))));
        charges.expire(&quotas(&seen), at(1000));
        assert_eq!(left(&charges, &seen), "6");
    }

    #[test]
    fn a_create_on_its_way_counts_however_long_it_takes() {
        let mut charges = Charges::default();
        let seen = quota(1, "0");
        charges.add(&request(), &quotas(&seen));
        charges.expire(&quotas(&seen), at(i64::from(i32::MAX)));
        assert_eq!(left(&charges, &seen), "9");
    }
}
