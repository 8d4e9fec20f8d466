//! Counts the objects of tasks in the watch caches, by kind, namespace and plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aileron_machinery::{AnyResource, ResourceKind};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ObjectMeta;

use crate::caches::Caches;
use crate::registry::Registry;

/// The plugin of an object whose action has ended, if several plugins create objects of its kind.
const UNKNOWN_PLUGIN: &str = "unknown";

/// Objects that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    kind: String,
    namespace: String,
    plugin: Arc<str>,
}

/// Counts objects.
pub struct ObjectCounts {
    caches: Caches,
    registry: Arc<Registry>,
    shown: BTreeSet<Group>,
}

impl ObjectCounts {
    /// Counts the objects in these caches.
    pub fn new(caches: Caches, registry: Arc<Registry>) -> Self {
        Self { caches, registry, shown: BTreeSet::new() }
    }

    /// Counts the objects, and sets the gauges.
    pub fn measure(&mut self) {
        let pod = ResourceKind::of::<Pod>();
        let pods = self.caches.pods.all();
        metrics::gauge!("aileron_pods").set(pods.len() as f64);
        let pods = pods.into_iter().map(|object| (pod.clone(), object as Arc<dyn AnyResource>));
        let mut counts: BTreeMap<Group, usize> = BTreeMap::new();
        for (kind, object) in pods.chain(self.caches.objects.all()) {
            let metadata = object.metadata();
            let group = Group {
                plugin: self.plugin(&kind, metadata),
                namespace: metadata.namespace.clone().unwrap_or_default(),
                kind: kind.kind.to_string(),
            };
            *counts.entry(group).or_default() += 1;
        }
        for (group, count) in with_zeroes(&mut self.shown, counts) {
            let Group { kind, namespace, plugin } = group;
            metrics::gauge!("aileron_objects", "kind" => kind, "namespace" => namespace, "plugin" => plugin.to_string())
                .set(count as f64);
        }
    }

    fn plugin(&self, kind: &ResourceKind, metadata: &ObjectMeta) -> Arc<str> {
        let action = self.caches.actions.actions_of(metadata).iter().find_map(|key| self.caches.actions.get(key));
        if let Some((plugin, _)) = action.and_then(|action| self.registry.resolve(&action.object.spec).ok()) {
            return plugin.entry().id;
        }
        let enabled = self.registry.plugins().iter().filter(|plugin| plugin.enabled);
        let mut makers = enabled.filter(|plugin| plugin.kind.as_ref() == Some(kind));
        match (makers.next(), makers.next()) {
            (Some(only), None) => Arc::clone(&only.entry.id),
            _ => UNKNOWN_PLUGIN.into(),
        }
    }
}

/// The counts, with zero for each group that had objects before and has none now.
fn with_zeroes(shown: &mut BTreeSet<Group>, mut counts: BTreeMap<Group, usize>) -> BTreeMap<Group, usize> {
    for group in shown.iter() {
        counts.entry(group.clone()).or_insert(0);
    }
    shown.extend(counts.keys().cloned());
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(namespace: &str) -> Group {
        Group { kind: "Pod".into(), namespace: namespace.into(), plugin: "container".into() }
    }

    #[test]
    fn a_namespace_without_objects_drops_to_zero() {
        let mut shown = BTreeSet::new();
        let first = with_zeroes(&mut shown, [(group("a"), 2), (group("b"), 1)].into());
        assert_eq!(first, [(group("a"), 2), (group("b"), 1)].into());
        let second = with_zeroes(&mut shown, [(group("b"), 1)].into());
        assert_eq!(second, [(group("a"), 0), (group("b"), 1)].into());
        assert_eq!(with_zeroes(&mut shown, BTreeMap::new()), [(group("a"), 0), (group("b"), 0)].into());
    }
}
