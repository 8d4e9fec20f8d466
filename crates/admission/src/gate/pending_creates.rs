//! The state of each create request of one namespace that is not settled yet.
//!
//! The methods of [`PendingCreates`] are the transitions in the diagram of the [module `gate`](super).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::reservations::ReservationId;
use super::waiting_queue::{QueuePosition, WaitingQueue};
use super::waiting_reason::LastReportedReason;
use crate::amounts::Amounts;
use crate::create_request::CreateRequest;
use crate::time::after;

/// A woken action must ask for its permit within this time; otherwise its reservation is released. The reconcile round of
/// a woken action normally starts within milliseconds. An action that does not ask has ended, or its wake-up was lost.
const RESERVATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of a create request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The action is in the waiting queue.
    Waiting,
    /// Quota is reserved, and the action was woken to ask for its permit.
    Reserved { woken_at: Instant, reservation: ReservationId },
    /// The action has a permit. Its create request is about to be sent or in flight.
    Permitted { reservation: ReservationId },
}

/// A create request that is not settled yet.
#[derive(Debug)]
pub(super) struct PendingCreate {
    pub(super) position: QueuePosition,
    pub(super) request: Arc<CreateRequest>,
    /// Amounts that a refusal named. They may be larger than those of the object that the executor sends.
    pub(super) refused_amounts: Amounts,
    /// When the action first asked for a permit.
    pub(super) first_asked: Instant,
    pub(super) stage: Stage,
    pub(super) reported: Option<LastReportedReason>,
}

/// The create requests of one namespace that are not settled yet.
#[derive(Debug, Default)]
pub(super) struct PendingCreates {
    by_action: HashMap<Arc<str>, PendingCreate>,
    queue: WaitingQueue,
    /// The actions in the stage [`Stage::Reserved`], by the time at which they were woken.
    reserved: BTreeSet<(Instant, Arc<str>)>,
}

impl PendingCreates {
    pub(super) fn is_empty(&self) -> bool {
        self.by_action.is_empty()
    }

    pub(super) fn get(&self, action: &str) -> Option<&PendingCreate> {
        self.by_action.get(action)
    }

    pub(super) fn get_mut(&mut self, action: &str) -> Option<&mut PendingCreate> {
        self.by_action.get_mut(action)
    }

    pub(super) fn actions(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_action.keys()
    }

    pub(super) fn queue(&self) -> &WaitingQueue {
        &self.queue
    }

    /// Any stage to [`Stage::Waiting`]: puts an action into the waiting queue, with this create request from now on. What
    /// is known of an earlier create request of the action is kept.
    pub(super) fn enqueue(&mut self, position: &QueuePosition, request: Arc<CreateRequest>, now: Instant) {
        let before = self.remove(&position.action);
        self.queue.insert(&request, position.clone(), now);
        let (first_asked, reported, refused_amounts) = before.map_or((now, None, Amounts::new()), |create| {
            (create.first_asked, create.reported, create.refused_amounts)
        });
        let position = position.clone();
        let stage = Stage::Waiting;
        let create = PendingCreate { position, request, refused_amounts, first_asked, stage, reported };
        self.by_action.insert(Arc::clone(&create.position.action), create);
    }

    /// [`Stage::Waiting`] to [`Stage::Reserved`].
    pub(super) fn reserve(&mut self, action: &Arc<str>, reservation: ReservationId, now: Instant) {
        let Some(create) = self.by_action.get_mut(action) else { return };
        create.stage = Stage::Reserved { woken_at: now, reservation };
        self.queue.remove(&create.request, &create.position);
        self.reserved.insert((now, Arc::clone(action)));
    }

    /// [`Stage::Reserved`] to [`Stage::Permitted`].
    pub(super) fn permit(&mut self, action: &str, reservation: ReservationId) {
        let Some(create) = self.by_action.get_mut(action) else { return };
        let before = std::mem::replace(&mut create.stage, Stage::Permitted { reservation });
        self.no_longer_reserved(action, before);
    }

    /// Any stage to settled.
    pub(super) fn remove(&mut self, action: &str) -> Option<PendingCreate> {
        let create = self.by_action.remove(action)?;
        self.queue.remove(&create.request, &create.position);
        self.no_longer_reserved(action, create.stage);
        Some(create)
    }

    /// An action that was woken and did not ask for its permit in time.
    pub(super) fn first_timed_out(&self, now: Instant) -> Option<Arc<str>> {
        let (woken_at, action) = self.reserved.first()?;
        (after(*woken_at, RESERVATION_TIMEOUT) <= now).then(|| Arc::clone(action))
    }

    /// When the next reservation of a woken action times out.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.reserved.first().map(|(woken_at, _)| after(*woken_at, RESERVATION_TIMEOUT))
    }

    fn no_longer_reserved(&mut self, action: &str, stage: Stage) {
        if let Stage::Reserved { woken_at, .. } = stage {
            self.reserved.remove(&(woken_at, action.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_machinery::ResourceKind;
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::amounts::of;
    use crate::time::testing::{at_second as at, date};

    #[test]
    fn a_create_request_goes_from_waiting_over_reserved_to_permitted_and_back() {
        let action: Arc<str> = "a".into();
        let position = QueuePosition { created_at: date(0), action: Arc::clone(&action) };
        let amounts = of(&[("pods", "1")]);
        let request = Arc::new(CreateRequest { kind: ResourceKind::of::<Pod>(), amounts, pod_traits: None });
        let mut creates = PendingCreates::default();
        creates.enqueue(&position, Arc::clone(&request), at(1));
        assert_eq!(creates.queue().oldest(), Some(&position));
        creates.reserve(&action, 7, at(2));
        assert_eq!(creates.get("a").unwrap().stage, Stage::Reserved { woken_at: at(2), reservation: 7 });
        assert!(creates.queue().is_empty());
        assert_eq!((creates.first_timed_out(at(6)), creates.first_timed_out(at(7))), (None, Some(Arc::clone(&action))));
        creates.permit("a", 7);
        assert_eq!(
            (creates.next_timeout(), creates.get("a").unwrap().stage),
            (None, Stage::Permitted { reservation: 7 })
        );
        creates.enqueue(&position, request, at(9));
        let create = creates.get("a").unwrap();
        assert_eq!((create.stage, create.first_asked), (Stage::Waiting, at(1)), "the first time is kept");
        assert!(creates.remove("a").is_some() && creates.is_empty() && creates.queue().is_empty());
    }
}
