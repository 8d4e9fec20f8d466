//! Throttle for create requests of one kind in one namespace: back-off, and how many may be in flight after a refusal.

use std::time::Instant;

use aileron_machinery::PendingReason;

use crate::amounts::Amounts;
use crate::backoff::{Backoff, BackoffCause, BackoffSettings};
use crate::create_request::CreateRequest;
use crate::quota::message::ExceededQuota;
use crate::refusal::{Overload, Refusal};

/// After a back-off period one create request is sent to probe the API server, and each success doubles how many may be in
/// flight. From this number on there is no limit: the executor never has more write requests in flight.
const UNLIMITED_FROM: u32 = 32;

/// The throttle of one kind.
#[derive(Debug)]
pub(super) struct KindThrottle {
    backoff: Backoff,
    /// How many create requests may be in flight; `None` for no limit.
    max_in_flight: Option<u32>,
    /// Create requests that are reserved, permitted or sent, and not settled yet.
    in_flight: u32,
    last_refusal: Option<LastRefusal>,
}

/// Why the API server refused the last create request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LastRefusal {
    Quota(Vec<ExceededQuota>),
    Overload(Overload),
}

impl LastRefusal {
    /// The pending reason of an action that waits because of this refusal.
    pub(super) fn pending_reason(&self) -> PendingReason {
        match self {
            Self::Quota(_) => PendingReason::Quota,
            Self::Overload(what) => what.reason(),
        }
    }
}

impl KindThrottle {
    pub(super) fn new(settings: BackoffSettings) -> Self {
        Self { backoff: Backoff::new(settings), max_in_flight: None, in_flight: 0, last_refusal: None }
    }

    /// Whether one more create request may be started now.
    pub(super) fn allows_start(&self, request: &CreateRequest, now: Instant) -> bool {
        self.free_slots().is_none_or(|slots| slots > 0) && self.allows_send(request, now)
    }

    /// Whether back-off allows a create request that was started already to be sent now.
    pub(super) fn allows_send(&self, request: &CreateRequest, now: Instant) -> bool {
        self.backoff.allows(&request.amounts, now)
    }

    /// How many more create requests may be in flight; `None` for no limit.
    pub(super) fn free_slots(&self) -> Option<u32> {
        self.max_in_flight.map(|max| max.saturating_sub(self.in_flight))
    }

    /// A create request is about to be sent.
    pub(super) fn create_started(&mut self) {
        self.in_flight = self.in_flight.saturating_add(1);
    }

    /// A started create request is settled, with whatever result.
    pub(super) fn create_settled(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A create request succeeded.
    pub(super) fn create_succeeded(&mut self, request: &CreateRequest, now: Instant) {
        self.backoff.create_succeeded(&request.amounts, now);
        if self.backoff.is_reset() {
            self.max_in_flight =
                self.max_in_flight.map(|max| max.saturating_mul(2)).filter(|max| *max < UNLIMITED_FROM);
            if self.max_in_flight.is_none() {
                self.last_refusal = None;
            }
        }
    }

    /// A create request was refused for a temporary reason. Other refusals do not change the throttle.
    pub(super) fn create_refused(&mut self, refusal: &Refusal, now: Instant, random: f64) {
        match refusal {
            Refusal::Quota(quotas) => {
                let mut refused = Amounts::new();
                for quota in quotas {
                    refused.extend(quota.requested.clone());
                }
                self.backoff.create_refused(BackoffCause::Quota, &refused, None, now, random);
                self.last_refusal = Some(LastRefusal::Quota(quotas.clone()));
            }
            Refusal::Overload { what, retry_after } => {
                self.backoff.create_refused(BackoffCause::Overload, &Amounts::new(), *retry_after, now, random);
                self.last_refusal = Some(LastRefusal::Overload(what.clone()));
            }
            Refusal::Other => return,
        }
        self.max_in_flight = Some(1);
    }

    /// Part of the quota became free: a back-off for quota ends at `retry_at` at the latest.
    pub(super) fn quota_freed(&mut self, retry_at: Instant) {
        self.backoff.quota_freed(retry_at);
    }

    pub(super) fn is_backing_off(&self, now: Instant) -> bool {
        self.backoff.active_cause(now).is_some()
    }

    /// When the current back-off period ends; `None` outside a period.
    pub(super) fn backoff_ends_at(&self, now: Instant) -> Option<Instant> {
        self.backoff.ends_at(now)
    }

    pub(super) fn last_refusal(&self) -> Option<&LastRefusal> {
        self.last_refusal.as_ref()
    }

    /// The last refusal was long ago, and nothing is in flight.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.in_flight == 0 && self.backoff.is_stale(now)
    }

    /// Whether the state is the same as that of a new throttle.
    pub(super) fn is_idle(&self) -> bool {
        self.backoff.is_reset() && self.max_in_flight.is_none() && self.in_flight == 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_machinery::ResourceKind;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::amounts::of;
    use crate::time::testing::at_second as at;

    #[test]
    fn after_a_refusal_each_success_doubles_how_many_may_be_in_flight() {
        let request = CreateRequest {
            kind: ResourceKind::of::<Pod>(),
            amounts: of(&[("pods", "1")]),
            pod_traits: Some(Default::default()),
        };
        let mut throttle = KindThrottle::new(BackoffSettings::default());
        let overload = Refusal::Overload { what: Overload::Server("busy"), retry_after: None };
        throttle.create_refused(&overload, at(0), 0.0);
        assert!(!throttle.allows_start(&request, at(0)), "the back-off period lasts a second");
        let mut slots = Vec::new();
        while let Some(free) = throttle.free_slots() {
            slots.push(free);
            throttle.create_started();
            throttle.create_settled();
            throttle.create_succeeded(&request, at(1));
        }
        assert_eq!(slots, [1, 2, 4, 8, 16]);
        assert!(throttle.is_idle() && throttle.last_refusal().is_none());
    }
}
