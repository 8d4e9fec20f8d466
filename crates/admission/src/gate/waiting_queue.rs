//! The waiting queue of one namespace: which actions wait, in the order of their age.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use aileron_machinery::ResourceKind;
use jiff::Timestamp;

use crate::create_request::CreateRequest;

/// The place of an action in the waiting queue: the older action first, then the order of names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QueuePosition {
    pub(super) created_at: Timestamp,
    pub(super) action: Arc<str>,
}

/// The waiting actions, grouped by equal create requests.
///
/// If the oldest action of a group does not fit, no action of the group does. So thousands of waiting actions cost no more
/// than the number of their different create requests.
#[derive(Debug, Default)]
pub(super) struct WaitingQueue {
    groups: BTreeMap<Arc<CreateRequest>, BTreeSet<QueuePosition>>,
    not_empty_since: Option<Instant>,
}

impl WaitingQueue {
    pub(super) fn insert(&mut self, request: &Arc<CreateRequest>, position: QueuePosition, now: Instant) {
        self.groups.entry(Arc::clone(request)).or_default().insert(position);
        self.not_empty_since.get_or_insert(now);
    }

    /// Does nothing if the action does not wait with this create request.
    pub(super) fn remove(&mut self, request: &Arc<CreateRequest>, position: &QueuePosition) {
        let Some(group) = self.groups.get_mut(request) else { return };
        group.remove(position);
        if group.is_empty() {
            self.groups.remove(request);
        }
        if self.groups.is_empty() {
            self.not_empty_since = None;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Since when at least one action has been waiting at every moment.
    pub(super) fn not_empty_since(&self) -> Option<Instant> {
        self.not_empty_since
    }

    /// Each create request with the actions that wait with it, oldest first. No group is empty.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&Arc<CreateRequest>, &BTreeSet<QueuePosition>)> {
        self.groups.iter()
    }

    /// The oldest waiting action.
    pub(super) fn oldest(&self) -> Option<&QueuePosition> {
        self.groups.values().filter_map(BTreeSet::first).min()
    }

    /// Whether an action waits to create an object of this kind.
    pub(super) fn has_kind(&self, kind: &ResourceKind) -> bool {
        self.groups.keys().any(|request| request.kind == *kind)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::amounts::of;
    use crate::time::testing::{at_second as at, date};

    fn position(created: i64, action: &str) -> QueuePosition {
        QueuePosition { created_at: date(created), action: action.into() }
    }

    fn request(cpu: &str) -> Arc<CreateRequest> {
        let amounts = of(&[("requests.cpu", cpu)]);
        Arc::new(CreateRequest { kind: ResourceKind::of::<Pod>(), amounts, pod_traits: None })
    }

    #[test]
    fn names_order_only_actions_that_were_created_at_the_same_time() {
        assert!(position(1, "z") < position(2, "a"));
        assert!(position(1, "a") < position(1, "b"));
    }

    #[test]
    fn the_oldest_action_is_found_across_groups_and_empty_groups_are_dropped() {
        let mut queue = WaitingQueue::default();
        queue.insert(&request("1"), position(2, "a"), at(10));
        queue.insert(&request("2"), position(1, "b"), at(11));
        queue.insert(&request("1"), position(3, "c"), at(12));
        assert_eq!((queue.groups().count(), queue.oldest()), (2, Some(&position(1, "b"))));
        queue.remove(&request("2"), &position(1, "b"));
        assert_eq!((queue.groups().count(), queue.oldest()), (1, Some(&position(2, "a"))));
        assert_eq!(queue.not_empty_since(), Some(at(10)));
        queue.remove(&request("1"), &position(2, "a"));
        queue.remove(&request("1"), &position(3, "c"));
        assert!(queue.is_empty() && queue.not_empty_since().is_none());
    }
}
