//! Which waiting actions may create their objects now: a pure decision.

use std::collections::{BTreeMap, BTreeSet};

use aileron_machinery::ResourceKind;

use super::namespace_quotas::AmountsPerQuota;
use super::waiting_queue::QueuePosition;
use crate::amounts;

/// Waiting actions with equal create requests.
#[derive(Debug)]
pub(super) struct WaitingGroup<'a> {
    pub(super) positions: &'a BTreeSet<QueuePosition>,
    pub(super) kind: &'a ResourceKind,
    /// What one of the create requests uses of each quota.
    pub(super) usage: AmountsPerQuota,
    /// Whether all quotas know the usage of these resources.
    pub(super) usage_is_known: bool,
    /// Whether the back-off of the kind allows the create request.
    pub(super) backoff_allows: bool,
}

/// What the selection distributes among the waiting actions.
#[derive(Debug, Default)]
pub(super) struct Supply<'a> {
    /// What is available of each quota.
    pub(super) available: AmountsPerQuota,
    /// How many more create requests of a kind may be in flight. A kind without an entry has no limit.
    pub(super) free_slots: BTreeMap<&'a ResourceKind, u32>,
}

/// Chooses the actions that may create their objects now, the oldest first.
///
/// A younger action may overtake an older one that does not fit. But what the action at `held_for` needs is not given to
/// younger ones.
pub(super) fn select(
    groups: Vec<WaitingGroup<'_>>,
    mut supply: Supply<'_>,
    held_for: Option<&QueuePosition>,
) -> Vec<QueuePosition> {
    let mut selected = Vec::new();
    // The oldest action of each group that was not considered yet.
    let mut heads = BTreeMap::new();
    for group in groups {
        let mut rest = group.positions.iter();
        if let Some(first) = rest.next() {
            heads.insert(first, (group, rest));
        }
    }
    while let Some((position, (group, mut rest))) = heads.pop_first() {
        if !group.backoff_allows || supply.free_slots.get(group.kind) == Some(&0) {
            continue;
        }
        if group.usage_is_known && fits(&group.usage, &supply.available) {
            subtract(&mut supply.available, &group.usage);
            if let Some(slots) = supply.free_slots.get_mut(group.kind) {
                *slots -= 1;
            }
            selected.push(position.clone());
            if let Some(next) = rest.next() {
                heads.insert(next, (group, rest));
            }
        } else if held_for == Some(position) {
            subtract(&mut supply.available, &group.usage);
        }
    }
    selected
}

fn fits(usage: &AmountsPerQuota, available: &AmountsPerQuota) -> bool {
    usage.iter().zip(available).all(|(usage, available)| {
        usage.iter().all(|(name, amount)| available.get(name).is_some_and(|available| available >= amount))
    })
}

fn subtract(available: &mut AmountsPerQuota, usage: &AmountsPerQuota) {
    for (available, usage) in available.iter_mut().zip(usage) {
        amounts::subtract(available, usage);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::*;
    use crate::amounts::of;

    fn position(name: &str) -> QueuePosition {
        QueuePosition { created_at: Timestamp::UNIX_EPOCH, action: name.into() }
    }

    fn positions(names: &[&str]) -> BTreeSet<QueuePosition> {
        names.iter().map(|name| position(name)).collect()
    }

    fn group<'a>(positions: &'a BTreeSet<QueuePosition>, kind: &'a ResourceKind, cpu: &str) -> WaitingGroup<'a> {
        let usage = vec![of(&[("requests.cpu", cpu)])];
        WaitingGroup { positions, kind, usage, usage_is_known: true, backoff_allows: true }
    }

    fn supply(cpu: &str) -> Supply<'static> {
        Supply { available: vec![of(&[("requests.cpu", cpu)])], free_slots: BTreeMap::new() }
    }

    fn names(selected: &[QueuePosition]) -> Vec<&str> {
        selected.iter().map(|position| &*position.action).collect()
    }

    #[test]
    fn actions_are_chosen_by_age_across_groups_and_smaller_ones_overtake() {
        let pod = ResourceKind::of::<Pod>();
        let (large, small) = (positions(&["a", "d"]), positions(&["b", "c", "e"]));
        let groups = || vec![group(&large, &pod, "3"), group(&small, &pod, "1")];
        assert_eq!(names(&select(groups(), supply("4"), None)), ["a", "b"]);
        assert_eq!(names(&select(groups(), supply("2"), None)), ["b", "c"], "a does not fit");
        assert_eq!(names(&select(groups(), supply("2"), Some(&position("a")))), [""; 0], "the quota is held for a");
        assert_eq!(names(&select(groups(), supply("9"), Some(&position("a")))), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn free_slots_limit_each_kind_separately() {
        let (pod, other) = (ResourceKind::of::<Pod>(), ResourceKind::of::<ConfigMap>());
        let (pods, large_pods, others) = (positions(&["a", "b"]), positions(&["c"]), positions(&["d", "e"]));
        let groups = vec![group(&pods, &pod, "1"), group(&large_pods, &pod, "2"), group(&others, &other, "1")];
        let supply = Supply { free_slots: [(&pod, 1)].into(), ..supply("99") };
        assert_eq!(names(&select(groups, supply, None)), ["a", "d", "e"]);
    }

    #[test]
    fn back_off_and_unknown_usage_block_a_group() {
        let pod = ResourceKind::of::<Pod>();
        let (first, second, third) = (positions(&["a"]), positions(&["b"]), positions(&["c"]));
        let groups = vec![
            WaitingGroup { backoff_allows: false, ..group(&first, &pod, "1") },
            WaitingGroup { usage_is_known: false, ..group(&second, &pod, "1") },
            group(&third, &pod, "1"),
        ];
        assert_eq!(names(&select(groups, supply("9"), Some(&position("a")))), ["c"], "nothing is held during back-off");
    }
}
