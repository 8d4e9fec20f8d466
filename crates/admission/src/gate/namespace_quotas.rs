//! How much of a namespace's quotas is available, given the watched quotas and what they do not show yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::own_usage::{CountingDelay, OwnUsage};
use super::quota_shortage::{self, UsedQuotas};
use super::release_burst::ReleaseBurst;
use super::reservations::{ReservationId, Reservations};
use super::settling::SettlingQuota;
use crate::amounts::{self, Amounts};
use crate::create_request::CreateRequest;
use crate::quota::Quota;
use crate::quota::message::ExceededQuota;

/// One set of amounts for each quota, in the order of the quotas' names.
pub(super) type AmountsPerQuota = Vec<Amounts>;

/// The quotas of one namespace. The parameter `settle` of the methods is the configured settle time.
#[derive(Debug, Default)]
pub(super) struct NamespaceQuotas {
    /// By name. Empty if the namespace has no quota, or if the executor may not watch quotas.
    quotas: BTreeMap<String, Quota>,
    reservations: Reservations,
    own_usage: OwnUsage,
    settling: SettlingQuota,
    release_burst: Option<ReleaseBurst>,
}

impl NamespaceQuotas {
    /// Whether at least one quota of the namespace is visible.
    pub(super) fn has_quotas(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// Whether the state is the same as that of a new namespace.
    pub(super) fn is_idle(&self) -> bool {
        self.quotas.is_empty() && self.reservations.is_empty() && self.settling.is_idle()
    }

    /// How many objects of the executor count as usage.
    pub(super) fn known_objects(&self) -> usize {
        self.own_usage.known_objects()
    }

    /// Records the watched state of a quota. Returns whether more may be available than before. A state that is older than
    /// the known one is ignored.
    pub(super) fn quota_changed(&mut self, quota: &Quota, settle: Duration, now: Instant) -> bool {
        let before = self.quotas.get(&quota.name).cloned();
        if before.as_ref().is_some_and(|before| before.resource_version > quota.resource_version) {
            return false;
        }
        if before.as_ref().is_some_and(|before| is_recount(before, quota)) {
            self.own_usage.recounted(self.counting_delay(settle), now);
        }
        self.quotas.insert(quota.name.clone(), quota.clone());
        self.reservations.quota_changed(before.as_ref(), quota, &self.quotas);
        let Some(before) = before else { return true };
        let has_more = has_more_remaining(&before, quota);
        if has_more {
            self.settling.increased(&before, settle, now);
        }
        has_more
    }

    /// Drops quotas that no longer exist. Returns whether there was one.
    pub(super) fn retain_quotas(&mut self, exists: impl Fn(&str) -> bool) -> bool {
        let before = self.quotas.len();
        self.quotas.retain(|name, _| exists(name));
        self.quotas.len() < before
    }

    /// Reserves the usage of a create request.
    pub(super) fn reserve(&mut self, request: &Arc<CreateRequest>) -> ReservationId {
        self.reservations.add(request, &self.quotas)
    }

    /// Ends a reservation whose object was not created.
    pub(super) fn release(&mut self, reservation: ReservationId) {
        self.reservations.remove(reservation, &self.quotas);
    }

    /// Records that the API server accepted a create request, or may have accepted it. The reservation stays until the
    /// quotas show the object.
    pub(super) fn create_accepted(&mut self, reservation: ReservationId, version: Option<u64>, now: Instant) {
        self.reservations.object_created(reservation, version, &self.quotas, now);
    }

    /// Records that the object of an action exists.
    pub(super) fn object_created(&mut self, action: &Arc<str>, request: &Arc<CreateRequest>, now: Instant) {
        if self.has_quotas() {
            self.own_usage.object_created(action, request, now);
        }
    }

    /// Records that the object of an action ended. Returns whether an object of the action was known.
    pub(super) fn object_ended(&mut self, action: &str, settle: Duration, now: Instant) -> bool {
        let was_known = self.own_usage.object_ended(action, now);
        if was_known {
            self.release_burst = Some(ReleaseBurst::with_end(self.release_burst, self.burst_gap(settle), now));
        }
        was_known
    }

    /// When the ResourceQuota controller has probably written the usage without the objects that ended a moment ago;
    /// `None` if no object ended a moment ago.
    pub(super) fn recounted_at(&self, settle: Duration) -> Option<Instant> {
        let over_at = |burst: ReleaseBurst| burst.over_at(self.burst_gap(settle), self.counting_delay(settle).ended);
        self.release_burst.map(over_at)
    }

    /// Forgets the objects of actions that the executor no longer knows.
    pub(super) fn retain_objects(&mut self, is_known: impl Fn(&Arc<str>) -> bool) {
        self.own_usage.retain(is_known);
        if !self.has_quotas() {
            self.own_usage = OwnUsage::default();
        }
    }

    /// Records that a quota refused a create request although enough seemed to be available.
    pub(super) fn create_refused(&mut self, settle: Duration, now: Instant) {
        if self.has_quotas() {
            self.settling.create_refused(settle, now);
        }
    }

    /// Applies what changed by time alone.
    pub(super) fn expire(&mut self, settle: Duration, now: Instant) {
        self.reservations.expire(&self.quotas, now);
        self.own_usage.expire(self.counting_delay(settle), now);
        self.settling.expire(settle, now);
        if self.recounted_at(settle).is_some_and(|at| at <= now) {
            self.release_burst = None;
        }
    }

    /// When time alone may make more available.
    pub(super) fn next_change(&self, settle: Duration) -> Option<Instant> {
        let times = [
            self.reservations.next_expiry(),
            self.own_usage.next_change(self.counting_delay(settle)),
            self.settling.next_settled(settle),
            self.recounted_at(settle),
        ];
        times.into_iter().flatten().min()
    }

    /// What a create request uses of each quota.
    pub(super) fn usage_of(&self, request: &CreateRequest) -> AmountsPerQuota {
        self.quotas.values().map(|quota| quota.usage_of(request)).collect()
    }

    /// Whether the quotas know the usage of all these resources. If one does not, the API server refuses the create.
    pub(super) fn know_usage_of(&self, usage: &AmountsPerQuota) -> bool {
        self.quotas.values().zip(usage).all(|(quota, usage)| quota.knows_usage_of(usage))
    }

    /// What is available of each quota.
    pub(super) fn available(&self) -> AmountsPerQuota {
        self.quotas.values().map(|quota| self.available_of(quota)).collect()
    }

    /// The quotas whose limits are below what a create request needs.
    pub(super) fn never_fits(&self, request: &CreateRequest) -> Vec<ExceededQuota> {
        self.quotas.values().filter_map(|quota| quota_shortage::never_fits(quota, request)).collect()
    }

    /// The quotas that a create request uses, and whether each has enough available.
    pub(super) fn compare(&self, request: &CreateRequest) -> UsedQuotas {
        let quotas = self.quotas.values().map(|quota| (quota, self.available_of(quota)));
        quota_shortage::compare(quotas, request)
    }

    fn available_of(&self, quota: &Quota) -> Amounts {
        let hidden = self.reservations.hidden_from(quota);
        // Own usage is not known by scope.
        let used =
            if quota.has_scopes() { quota.used.clone() } else { self.own_usage.at_least(&quota.used, &hidden.created) };
        let mut available = quota.hard.clone();
        amounts::subtract(&mut available, &used);
        self.settling.lower(&quota.name, &mut available);
        amounts::subtract(&mut available, &hidden.created);
        amounts::subtract(&mut available, &hidden.not_created);
        available
    }

    /// Ends of objects closer to each other than this belong to one burst.
    fn burst_gap(&self, settle: Duration) -> Duration {
        self.settling.settle_time(settle) / 2
    }

    /// The ResourceQuota controller needs longer than the API server: it has to notice the object, recount, write the
    /// quota, and try again if the API server wrote the quota at the same time.
    fn counting_delay(&self, settle: Duration) -> CountingDelay {
        let settle_time = self.settling.settle_time(settle);
        CountingDelay { created: settle_time.saturating_mul(4), ended: settle_time.saturating_mul(2) }
    }
}

/// Whether any resource has more left after the change.
fn has_more_remaining(before: &Quota, after: &Quota) -> bool {
    let before = before.remaining();
    after.remaining().iter().any(|(name, amount)| before.get(name).is_none_or(|before| amount > before))
}

/// Whether the change came from a recount of the ResourceQuota controller: only a recount lowers the usage.
fn is_recount(before: &Quota, after: &Quota) -> bool {
    after.used.iter().any(|(name, used)| before.used.get(name) > Some(used))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amounts::of;

    fn quota(hard: &str, used: &str) -> Quota {
        Quota::without_scopes("q", 1, of(&[("pods", hard)]), of(&[("pods", used)]))
    }

    #[test]
    fn a_lower_usage_comes_from_a_recount_and_a_higher_limit_does_not() {
        assert!(is_recount(&quota("5", "3"), &quota("5", "2")));
        assert!(!is_recount(&quota("5", "3"), &quota("5", "4")));
        assert!(!is_recount(&quota("5", "3"), &quota("9", "3")));
    }

    #[test]
    fn more_remains_after_a_lower_usage_or_a_higher_limit() {
        assert!(has_more_remaining(&quota("5", "3"), &quota("5", "2")));
        assert!(has_more_remaining(&quota("5", "3"), &quota("6", "3")));
        assert!(!has_more_remaining(&quota("5", "3"), &quota("6", "4")));
    }
}
