//! Admission in one namespace: reacts to events and decides which action may create its object next.
//!
//! All decisions depend only on the reported events and on the time that the caller passes.

mod reasons;
mod wakeups;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aileron_machinery::ResourceKind;

use super::blocking_causes::BlockingCauses;
use super::kind_throttle::KindThrottle;
use super::namespace_quotas::NamespaceQuotas;
use super::pending_creates::{PendingCreates, Stage};
use super::reservations::ReservationId;
use super::settings::GateSettings;
use super::waiting_queue::QueuePosition;
use crate::amounts;
use crate::create_request::CreateRequest;
use crate::quota::Quota;
use crate::quota::message::ExceededQuota;
use crate::refusal::Refusal;
use crate::time::after;

/// When quotas are not visible and an object ends, a create request of the same kind is tried after this time. The
/// ResourceQuota controller needs about this long to recount.
const RETRY_AFTER_OBJECT_END: Duration = Duration::from_millis(150);

/// The actions that the caller must wake.
pub(super) type ToWake = Vec<Arc<str>>;

/// The answer to an action that asks for a permit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The create request may be sent. The reservation must be settled afterwards.
    Permit(ReservationId),
    /// The action waits.
    Wait,
    /// The create request exceeds the limits of these quotas and can never fit.
    NeverFits(Vec<ExceededQuota>),
}

/// A permitted create request.
#[derive(Clone, Debug)]
pub(super) struct PermittedCreate {
    pub(super) position: QueuePosition,
    pub(super) request: Arc<CreateRequest>,
    /// `None` if nothing was limited in the namespace when the permit was given.
    pub(super) reservation: Option<ReservationId>,
}

/// The admission state of one namespace.
#[derive(Debug, Default)]
pub(super) struct NamespaceAdmission {
    quotas: NamespaceQuotas,
    /// Only for kinds of which a create request was refused.
    throttles: BTreeMap<ResourceKind, KindThrottle>,
    creates: PendingCreates,
    causes: BlockingCauses,
}

impl NamespaceAdmission {
    /// Whether a create request of this kind needs no reservation: no quota is visible, no action waits, and the kind is
    /// not throttled.
    pub(super) fn is_unlimited(&self, kind: &ResourceKind) -> bool {
        !self.quotas.has_quotas() && self.creates.is_empty() && !self.throttles.contains_key(kind)
    }

    /// Whether the state is the same as that of a new namespace.
    pub(super) fn is_idle(&self) -> bool {
        self.quotas.is_idle() && self.creates.is_empty() && self.throttles.is_empty()
    }

    /// How many actions have a create request that is not settled, or an object that counts as usage.
    pub(super) fn known_actions(&self) -> usize {
        self.creates.actions().count() + self.quotas.known_objects()
    }

    /// Whether there are create requests that are not settled.
    pub(super) fn has_pending(&self) -> bool {
        !self.creates.is_empty()
    }

    /// An action asks for a permit to create its object. Other actions may have to be woken too.
    pub(super) fn request_permit(
        &mut self,
        position: &QueuePosition,
        request: &Arc<CreateRequest>,
        settings: &GateSettings,
        now: Instant,
    ) -> (Decision, ToWake) {
        // An action that asks has no object any more.
        self.quotas.object_ended(&position.action, settings.settle, now);
        let request = match self.creates.get(&position.action) {
            Some(create) if !create.refused_amounts.is_empty() => {
                Arc::new(request.with_at_least(&create.refused_amounts))
            }
            _ => Arc::clone(request),
        };
        let exceeded = self.quotas.never_fits(&request);
        if !exceeded.is_empty() {
            self.withdraw(&position.action, settings, now);
            return (Decision::NeverFits(exceeded), self.wake_fitting(settings, now));
        }
        match self.creates.get(&position.action).map(|create| (create.stage, create.request == request)) {
            Some((Stage::Reserved { reservation, .. }, true)) => {
                self.creates.permit(&position.action, reservation);
                return (Decision::Permit(reservation), Vec::new());
            }
            Some((Stage::Waiting, true)) => {}
            Some((Stage::Reserved { reservation, .. } | Stage::Permitted { reservation }, _)) => {
                // The reservation is for another create request, or the earlier one was never settled.
                let create = PermittedCreate { position: position.clone(), request, reservation: Some(reservation) };
                self.not_sent(&create, now);
            }
            Some((Stage::Waiting, false)) | None => self.creates.enqueue(position, request, now),
        }
        let mut woken = self.wake_fitting(settings, now);
        let stage = self.creates.get(&position.action).map(|create| create.stage);
        let Some(Stage::Reserved { reservation, .. }) = stage else { return (Decision::Wait, woken) };
        // The action is running already.
        woken.retain(|action| *action != position.action);
        self.creates.permit(&position.action, reservation);
        (Decision::Permit(reservation), woken)
    }

    /// The API server accepted a create request.
    pub(super) fn created(&mut self, create: &PermittedCreate, resource_version: Option<u64>, now: Instant) {
        let PermittedCreate { position, request, reservation } = create;
        if let Some(reservation) = reservation {
            self.settle_in_throttle(&request.kind);
            self.quotas.create_accepted(*reservation, resource_version, now);
            self.creates.remove(&position.action);
            self.quotas.object_created(&position.action, request, now);
        }
        if let Some(throttle) = self.throttles.get_mut(&request.kind) {
            throttle.create_succeeded(request, now);
        }
        self.drop_unused_throttles(now);
    }

    /// The API server refused a create request for a temporary reason: the action waits.
    pub(super) fn refused(
        &mut self,
        create: &PermittedCreate,
        refusal: &Refusal,
        settings: &GateSettings,
        now: Instant,
        random: f64,
    ) {
        let PermittedCreate { position, request, .. } = create;
        self.release(create);
        let throttle = self.throttles.entry(request.kind.clone());
        let throttle = throttle.or_insert_with(|| KindThrottle::new(settings.backoff));
        throttle.create_refused(refusal, now, random);
        let known = self.creates.get(&position.action).map(|create| create.refused_amounts.clone());
        let mut refused_amounts = known.unwrap_or_default();
        if let Refusal::Quota(quotas) = refusal {
            self.quotas.create_refused(settings.settle, now);
            for quota in quotas {
                amounts::raise_to(&mut refused_amounts, &quota.requested);
            }
        }
        self.creates.enqueue(position, Arc::new(request.with_at_least(&refused_amounts)), now);
        if let Some(create) = self.creates.get_mut(&position.action) {
            create.refused_amounts = refused_amounts;
        }
    }

    /// A permitted create request was not sent: the action waits again.
    pub(super) fn not_sent(&mut self, create: &PermittedCreate, now: Instant) {
        self.release(create);
        self.creates.enqueue(&create.position, Arc::clone(&create.request), now);
    }

    /// A create request failed for another reason, or its result is not known. The API server may have counted it.
    pub(super) fn result_unknown(&mut self, create: &PermittedCreate, now: Instant) {
        if let Some(reservation) = create.reservation {
            self.settle_in_throttle(&create.request.kind);
            self.quotas.create_accepted(reservation, None, now);
            self.creates.remove(&create.position.action);
        }
    }

    /// An action no longer wants to create an object.
    pub(super) fn withdraw(&mut self, action: &str, settings: &GateSettings, now: Instant) {
        self.quotas.object_ended(action, settings.settle, now);
        let Some(create) = self.creates.get(action) else { return };
        match create.stage {
            Stage::Waiting => {}
            Stage::Reserved { reservation, .. } => {
                let kind = create.request.kind.clone();
                self.settle_in_throttle(&kind);
                self.quotas.release(reservation);
            }
            // The holder of the permit settles it.
            Stage::Permitted { .. } => return,
        }
        self.creates.remove(action);
    }

    /// Whether a permitted create request may still be sent. Another one of the same kind may have been refused since.
    pub(super) fn allows_send(&self, request: &CreateRequest, now: Instant) -> bool {
        self.throttles.get(&request.kind).is_none_or(|throttle| throttle.allows_send(request, now))
    }

    /// A quota exists or changed.
    pub(super) fn quota_changed(&mut self, quota: &Quota, settings: &GateSettings, now: Instant) {
        if self.quotas.quota_changed(quota, settings.settle, now) {
            self.end_quota_backoff(now);
        }
    }

    /// Only the quotas with these names exist.
    pub(super) fn retain_quotas(&mut self, exists: impl Fn(&str) -> bool, now: Instant) {
        if self.quotas.retain_quotas(exists) {
            self.end_quota_backoff(now);
        }
    }

    /// The object of an action ended. Returns whether waiting actions may fit now.
    pub(super) fn object_ended(
        &mut self,
        action: &str,
        kind: &ResourceKind,
        settings: &GateSettings,
        now: Instant,
    ) -> bool {
        if self.quotas.object_ended(action, settings.settle, now) {
            return true;
        }
        // Visible quotas will show the end themselves.
        if self.quotas.has_quotas() || self.creates.queue().is_empty() {
            return false;
        }
        let Some(throttle) = self.throttles.get_mut(kind) else { return false };
        throttle.quota_freed(after(now, RETRY_AFTER_OBJECT_END));
        true
    }

    /// Forgets actions that the executor no longer knows, because an action that was deleted during an outage never
    /// withdraws, and throttles that are no longer needed.
    pub(super) fn forget_unknown(
        &mut self,
        is_known: impl Fn(&Arc<str>) -> bool,
        settings: &GateSettings,
        now: Instant,
    ) {
        self.quotas.retain_objects(&is_known);
        let unknown: Vec<_> = self.creates.actions().filter(|action| !is_known(action)).cloned().collect();
        for action in unknown {
            self.withdraw(&action, settings, now);
        }
        self.drop_unused_throttles(now);
    }

    /// The kinds whose create requests are in back-off.
    pub(super) fn kinds_in_backoff(&self, now: Instant) -> impl Iterator<Item = &ResourceKind> {
        self.throttles.iter().filter(move |(_, throttle)| throttle.is_backing_off(now)).map(|(kind, _)| kind)
    }

    /// When an action first asked for its permit; `None` if it has no pending create request.
    pub(super) fn first_asked(&self, action: &str) -> Option<Instant> {
        self.creates.get(action).map(|create| create.first_asked)
    }

    /// When the back-off of a kind ends; `None` if it is not in back-off.
    pub(super) fn backoff_ends_at(&self, kind: &ResourceKind, now: Instant) -> Option<Instant> {
        self.throttles.get(kind)?.backoff_ends_at(now)
    }

    /// Releases the reservation of a create request that the API server did not accept.
    fn release(&mut self, create: &PermittedCreate) {
        if let Some(reservation) = create.reservation {
            self.settle_in_throttle(&create.request.kind);
            self.quotas.release(reservation);
        }
    }

    fn settle_in_throttle(&mut self, kind: &ResourceKind) {
        if let Some(throttle) = self.throttles.get_mut(kind) {
            throttle.create_settled();
        }
    }

    /// More quota is available than when create requests were refused.
    fn end_quota_backoff(&mut self, now: Instant) {
        self.throttles.values_mut().for_each(|throttle| throttle.quota_freed(now));
    }

    fn drop_unused_throttles(&mut self, now: Instant) {
        let queue = self.creates.queue();
        let is_needed = |kind: &ResourceKind, throttle: &KindThrottle| {
            !throttle.is_idle() && (!throttle.is_stale(now) || queue.has_kind(kind))
        };
        self.throttles.retain(|kind, throttle| is_needed(kind, throttle));
    }
}
