//! Objects of kinds that plugins make, other than pods: one watch per kind, started when the cluster serves the kind and
//! stopped when it no longer does.

mod definitions;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use aileron_action::plugin_choice::Served;
use aileron_machinery::{AnyK8sPlugin, ResourceKind};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ObjectMeta};

use super::events::EventFeed;
use super::{Sink, wake_owner};
use crate::caches::actions::ActionStore;
use crate::caches::objects::ObjectCache;
use crate::caches::{Place, place, version};
use crate::cluster::kube::objects::KubeObjects;
use crate::queue::Queue;

pub use definitions::{NAME, run};

/// What the watches feed.
#[derive(Clone)]
pub struct KindFeed {
    /// The cache.
    pub cache: Arc<ObjectCache>,
    /// Told when an object is gone.
    pub objects: Arc<KubeObjects>,
    /// Woken when an object changes.
    pub queue: Arc<Queue>,
    /// Who may have waited for a kind.
    pub memory: Arc<ActionStore>,
    /// Events about objects, followed with their kind and forgotten with them.
    pub events: EventFeed,
    /// Told what a definition looks like, by its name.
    pub observers: BTreeMap<&'static str, Observer>,
}

/// Told what a definition looks like; nothing if it is gone.
pub type Observer = Arc<dyn Fn(Option<&CustomResourceDefinition>) + Send + Sync>;

impl KindFeed {
    /// A kind appeared, which happens rarely. Who waited for it is not looked up: a round under way may be about to find
    /// that it waits.
    fn wake_everybody(&self) {
        for key in self.memory.keys() {
            self.queue.wake(&key);
        }
    }

    /// An object is gone.
    fn forget(&self, kind: &ResourceKind, metadata: &ObjectMeta) {
        let (namespace, name) = place(metadata);
        self.events.events.forget(&kind.kind, &namespace, &name);
        self.objects.gone(kind, metadata);
        wake_owner(&self.queue, &self.memory, metadata);
    }

    /// A kind is gone, and with it all its objects.
    fn drop_kind(&self, kind: &ResourceKind) {
        self.cache.learn(kind, Served::No);
        let dropped = self.cache.write().remove(kind).unwrap_or_default();
        for object in dropped.objects.values() {
            self.forget(kind, object.metadata());
        }
        // Also those about objects that were never seen; nobody tells any more when they are gone.
        self.events.events.forget_kind(&kind.kind);
    }
}

struct KindObjects {
    kind: ResourceKind,
    plugin: Arc<dyn AnyK8sPlugin>,
    feed: KindFeed,
    listed: HashSet<Place>,
}

impl KindObjects {
    fn drop_object(&self, metadata: &ObjectMeta) {
        let place = place(metadata);
        if let Some(kind) = self.feed.cache.write().get_mut(&self.kind) {
            kind.objects.remove(&place);
            kind.unreadable.remove(&place);
        }
        self.feed.forget(&self.kind, metadata);
    }
}

impl Sink<DynamicObject> for KindObjects {
    fn seen(&mut self, mut object: DynamicObject, listed: bool) {
        object.metadata.managed_fields = None;
        let metadata = object.metadata.clone();
        let place = place(&metadata);
        let decoded = serde_json::to_value(&object).map_err(|error| error.to_string());
        match decoded.and_then(|value| self.plugin.decode(value).map_err(|error| error.to_string())) {
            Ok(decoded) => {
                let mut kinds = self.feed.cache.write();
                let kind = kinds.entry(self.kind.clone()).or_default();
                kind.unreadable.remove(&place);
                kind.objects.insert(place.clone(), decoded);
            }
            // A live look will say the same to the action's round, which then says so in the action.
            Err(error) => {
                tracing::warn!(kind = %self.kind.kind, namespace = place.0, name = place.1, error, "an object cannot be read");
                let mut kinds = self.feed.cache.write();
                kinds.entry(self.kind.clone()).or_default().unreadable.extend([version(&metadata)]);
            }
        }
        if listed {
            self.listed.insert(place);
        }
        wake_owner(&self.feed.queue, &self.feed.memory, &metadata);
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        // A list is the proof that the kind is served; a definition alone is not, while it is being established.
        if self.feed.cache.learn(&self.kind, Served::Yes) {
            self.feed.wake_everybody();
        }
        let gone: Vec<_> = {
            let mut kinds = self.feed.cache.write();
            let kind = kinds.entry(self.kind.clone()).or_default();
            kind.complete = true;
            kind.unreadable.retain(|place, _| listed.contains(place));
            let gone = kind.objects.iter().filter(|(place, _)| !listed.contains(*place));
            gone.map(|(_, object)| object.metadata().clone()).collect()
        };
        for metadata in &gone {
            self.drop_object(metadata);
        }
    }

    fn gone(&mut self, object: DynamicObject) {
        self.drop_object(&object.metadata);
    }
}
