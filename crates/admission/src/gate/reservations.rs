//! Reservations: quota usage of create requests that the watched quotas do not show yet.
//!
//! A reservation begins when the gate wakes an action, before its create request is sent. The API server adds a new object
//! to `status.used` of its quotas before it stores the object, but the watch shows the changed quota a little later. Until
//! then the executor counts the object itself. Otherwise it would give the same free quota to two actions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::amounts::{self, Amounts};
use crate::create_request::CreateRequest;
use crate::quota::Quota;
use crate::time::after;

/// How long a reservation is kept after its object was created, if the watched quotas do not show the object. The watch
/// shows a change within milliseconds. If the usage is not visible after this time, the object has ended already or a
/// recount changed the usage at the same time.
const USAGE_VISIBLE_WITHIN: Duration = Duration::from_secs(1);

/// Identifies a reservation. Later reservations have higher numbers.
pub(super) type ReservationId = u64;

/// All reservations of one namespace.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    by_id: BTreeMap<ReservationId, Reservation>,
    last_id: ReservationId,
    increases: BTreeMap<String, UsageIncreases>,
}

/// The usage of reservations that the watched state of one quota does not include.
#[derive(Debug, Default)]
pub(super) struct HiddenUsage {
    /// The usage of objects that were created.
    pub(super) created: Amounts,
    /// The usage of create requests that are not sent yet or in flight.
    pub(super) not_created: Amounts,
}

#[derive(Debug)]
struct Reservation {
    request: Arc<CreateRequest>,
    /// `None` while the create request is not sent yet or in flight.
    created: Option<Created>,
    /// The names of the quotas whose watched usage includes the object.
    shown_by: BTreeSet<String>,
}

/// When the API server accepted the create request, as far as the executor knows.
#[derive(Clone, Copy, Debug)]
struct Created {
    at: Instant,
    /// The resourceVersion of the object; `None` if it is not known.
    resource_version: Option<u64>,
}

/// Increases of one quota's usage since there was last no reservation that it did not show.
///
/// It is not known which increase belongs to which object. But when the sum of the increases reaches the sum of the
/// reservations, the usage includes all of them. A recount may cause an increase too. So this conclusion is used only for
/// objects that were created, which [`super::own_usage`] counts as well.
#[derive(Debug, Default)]
struct UsageIncreases {
    expected: Amounts,
    seen: Amounts,
}

impl Reservations {
    /// Reserves the usage of a create request.
    pub(super) fn add(&mut self, request: &Arc<CreateRequest>, quotas: &BTreeMap<String, Quota>) -> ReservationId {
        self.last_id += 1;
        let reservation = Reservation { request: Arc::clone(request), created: None, shown_by: BTreeSet::new() };
        for quota in quotas.values() {
            let usage = quota.usage_of(request);
            if !usage.is_empty() {
                amounts::add(&mut self.increases.entry(quota.name.clone()).or_default().expected, &usage);
            }
        }
        self.by_id.insert(self.last_id, reservation);
        self.last_id
    }

    /// Ends a reservation whose object was not created.
    pub(super) fn remove(&mut self, id: ReservationId, quotas: &BTreeMap<String, Quota>) {
        if let Some(reservation) = self.by_id.remove(&id) {
            self.expect_no_longer(&reservation, quotas);
        }
        self.drop_unneeded_increases(quotas);
    }

    /// Records that the API server accepted the create request, or may have accepted it.
    pub(super) fn object_created(
        &mut self,
        id: ReservationId,
        resource_version: Option<u64>,
        quotas: &BTreeMap<String, Quota>,
        now: Instant,
    ) {
        let Some(reservation) = self.by_id.get_mut(&id) else { return };
        reservation.created = Some(Created { at: now, resource_version });
        for quota in quotas.values() {
            let is_older = resource_version.is_some_and(|version| quota.resource_version > version);
            if is_older || self.increases.get(&quota.name).is_some_and(UsageIncreases::all_seen) {
                reservation.shown_by.insert(quota.name.clone());
            }
        }
        self.remove_shown(quotas);
    }

    /// Records that a quota changed from `before` to `after`. The usage in `after` includes every object with a lower
    /// resourceVersion.
    pub(super) fn quota_changed(&mut self, before: Option<&Quota>, after: &Quota, quotas: &BTreeMap<String, Quota>) {
        let mut all_seen = false;
        if let (Some(increases), Some(before)) = (self.increases.get_mut(&after.name), before) {
            amounts::add(&mut increases.seen, &usage_increase(before, after));
            all_seen = increases.all_seen();
        }
        for reservation in self.by_id.values_mut() {
            let Some(created) = reservation.created else { continue };
            let is_older = created.resource_version.is_some_and(|version| after.resource_version > version);
            if is_older || all_seen {
                reservation.shown_by.insert(after.name.clone());
            }
        }
        self.remove_shown(quotas);
    }

    /// Ends the reservations of created objects that the quotas must show by now.
    pub(super) fn expire(&mut self, quotas: &BTreeMap<String, Quota>, now: Instant) {
        let is_over = |reservation: &Reservation| reservation.expires_at().is_some_and(|at| at <= now);
        let over: Vec<_> = self.by_id.iter().filter(|(_, reserved)| is_over(reserved)).map(|(id, _)| *id).collect();
        for id in over {
            self.remove(id, quotas);
        }
    }

    /// When the next reservation ends by time alone.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.by_id.values().filter_map(Reservation::expires_at).min()
    }

    /// The usage of all reservations that the watched state of a quota does not include.
    pub(super) fn hidden_from(&self, quota: &Quota) -> HiddenUsage {
        let mut hidden = HiddenUsage::default();
        for reservation in self.by_id.values().filter(|reservation| !reservation.shown_by.contains(&quota.name)) {
            let part = if reservation.created.is_some() { &mut hidden.created } else { &mut hidden.not_created };
            amounts::add(part, &quota.usage_of(&reservation.request));
        }
        hidden
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Ends the reservations of created objects that every quota shows.
    fn remove_shown(&mut self, quotas: &BTreeMap<String, Quota>) {
        self.by_id.retain(|_, reservation| reservation.created.is_none() || !reservation.is_shown_by_all(quotas));
        self.drop_unneeded_increases(quotas);
    }

    /// Increases of a quota are counted only while there is a reservation that the quota does not show.
    fn drop_unneeded_increases(&mut self, quotas: &BTreeMap<String, Quota>) {
        let by_id = &self.by_id;
        self.increases.retain(|name, _| {
            let is_hidden = |quota: &Quota, reservation: &Reservation| {
                !reservation.shown_by.contains(name) && !quota.usage_of(&reservation.request).is_empty()
            };
            quotas.get(name).is_some_and(|quota| by_id.values().any(|reservation| is_hidden(quota, reservation)))
        });
    }

    fn expect_no_longer(&mut self, reservation: &Reservation, quotas: &BTreeMap<String, Quota>) {
        for quota in quotas.values().filter(|quota| !reservation.shown_by.contains(&quota.name)) {
            if let Some(increases) = self.increases.get_mut(&quota.name) {
                amounts::subtract(&mut increases.expected, &quota.usage_of(&reservation.request));
            }
        }
    }
}

impl UsageIncreases {
    fn all_seen(&self) -> bool {
        self.expected.iter().all(|(name, expected)| self.seen.get(name).is_some_and(|seen| seen >= expected))
    }
}

impl Reservation {
    fn expires_at(&self) -> Option<Instant> {
        self.created.map(|created| after(created.at, USAGE_VISIBLE_WITHIN))
    }

    fn is_shown_by_all(&self, quotas: &BTreeMap<String, Quota>) -> bool {
        quotas.values().all(|quota| self.shown_by.contains(&quota.name) || quota.usage_of(&self.request).is_empty())
    }
}

/// By how much the usage of each resource grew between two states of a quota. Decreases are left out.
fn usage_increase(before: &Quota, after: &Quota) -> Amounts {
    let mut increase = after.used.clone();
    amounts::subtract(&mut increase, &before.used);
    increase.retain(|_, amount| amount.signum() > 0);
    increase
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_machinery::ResourceKind;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::amounts::of;
    use crate::time::testing::at_milli as at;

    fn quota(version: u64, used: &str) -> Quota {
        Quota::without_scopes("q", version, of(&[("pods", "10")]), of(&[("pods", used)]))
    }

    fn request() -> Arc<CreateRequest> {
        let kind = ResourceKind::of::<Pod>();
        Arc::new(CreateRequest { kind, amounts: of(&[("pods", "1")]), pod_traits: Some(Default::default()) })
    }

    fn available(reservations: &Reservations, quota: &Quota) -> String {
        let mut available = quota.remaining();
        let hidden = reservations.hidden_from(quota);
        for usage in [hidden.created, hidden.not_created] {
            amounts::subtract(&mut available, &usage);
        }
        available["pods"].to_string()
    }

    fn quotas(quota: &Quota) -> BTreeMap<String, Quota> {
        [("q".to_owned(), quota.clone())].into()
    }

    #[test]
    fn a_reservation_counts_until_the_quota_shows_the_object_and_never_twice() {
        let mut reservations = Reservations::default();
        let (first, second, third) = (quota(10, "4"), quota(12, "5"), quota(15, "6"));
        let other = reservations.add(&request(), &quotas(&first));
        let id = reservations.add(&request(), &quotas(&first));
        assert_eq!(available(&reservations, &first), "4");
        reservations.quota_changed(Some(&first), &second, &quotas(&second));
        assert_eq!(available(&reservations, &second), "3", "it is not known which of the two objects is included");
        reservations.object_created(id, Some(14), &quotas(&second), at(0));
        assert_eq!(available(&reservations, &second), "3");
        reservations.quota_changed(Some(&second), &third, &quotas(&third));
        assert_eq!(
            available(&reservations, &third),
            "3",
            "there were two increases, but a recount may have caused one"
        );
        reservations.object_created(other, Some(17), &quotas(&third), at(0));
        assert_eq!(available(&reservations, &third), "4", "the usage includes both");
        assert!(reservations.is_empty());
    }

    #[test]
    fn a_quota_includes_every_object_that_was_stored_before_it() {
        let mut reservations = Reservations::default();
        let (first, second) = (quota(10, "4"), quota(15, "4"));
        let id = reservations.add(&request(), &quotas(&first));
        reservations.add(&request(), &quotas(&first));
        reservations.object_created(id, Some(14), &quotas(&first), at(0));
        reservations.quota_changed(Some(&first), &second, &quotas(&second));
        assert_eq!(available(&reservations, &second), "5", "only the other one is still in flight");
    }

    #[test]
    fn a_reservation_whose_usage_never_becomes_visible_expires() {
        let mut reservations = Reservations::default();
        let seen = quota(20, "4");
        let id = reservations.add(&request(), &quotas(&seen));
        reservations.object_created(id, Some(15), &quotas(&seen), at(0));
        assert!(reservations.is_empty(), "the quota is newer than the object");
        let id = reservations.add(&request(), &quotas(&seen));
        reservations.object_created(id, Some(25), &quotas(&seen), at(0));
        assert_eq!((available(&reservations, &seen).as_str(), reservations.next_expiry()), ("5", Some(at(1000))));
        reservations.expire(&quotas(&seen), at(1000));
        assert_eq!(available(&reservations, &seen), "6");
    }

    #[test]
    fn the_reservation_of_a_request_in_flight_does_not_expire() {
        let mut reservations = Reservations::default();
        let seen = quota(1, "0");
        reservations.add(&request(), &quotas(&seen));
        reservations.expire(&quotas(&seen), at(i64::from(i32::MAX)));
        assert_eq!(available(&reservations, &seen), "9");
    }
}
