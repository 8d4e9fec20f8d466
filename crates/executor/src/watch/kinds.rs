//! Objects of kinds that plugins make, other than pods: one watch per kind, started when the cluster serves the kind and
//! stopped when it no longer does.

mod definitions;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aileron_machinery::{AnyResource, ObjectPlugin, ResourceKind};
use kube::api::{DynamicObject, ObjectMeta};
use serde_json::Value;

use super::events::EventFeed;
use super::missed::{Versions, version};
use super::{Sink, wake_owner};
use crate::cluster::kube::objects::KubeObjects;
use crate::controller::memory::Memory;
use crate::controller::queue::Queue;
use crate::plugin_list::{self, Served, ServedKinds};

pub use definitions::{NAME, run};

type Place = (String, String);

/// The objects of all watched kinds.
#[derive(Default)]
pub struct ObjectCache {
    kinds: RwLock<HashMap<ResourceKind, Kind>>,
    served: RwLock<ServedKinds>,
    /// What plugins read from the definitions of their kinds, by the id of the plugin.
    definitions: RwLock<HashMap<Arc<str>, Arc<Value>>>,
}

#[derive(Default)]
struct Kind {
    /// The first list is complete, so what is not here is not there.
    complete: bool,
    objects: HashMap<Place, Arc<dyn AnyResource>>,
    /// Versions of objects that were shown and cannot be read; they are not missed.
    unreadable: Versions,
}

impl ObjectCache {
    /// What is at a place.
    pub fn get(&self, kind: &ResourceKind, namespace: &str, name: &str) -> Option<Arc<dyn AnyResource>> {
        let kinds = self.read();
        let kind = kinds.get(kind).filter(|kind| kind.complete)?;
        kind.objects.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// All objects of all kinds.
    pub fn all(&self) -> Vec<(ResourceKind, Arc<dyn AnyResource>)> {
        let kinds = self.read();
        let objects = kinds.iter().flat_map(|(kind, it)| it.objects.values().map(move |object| (kind, object)));
        objects.map(|(kind, object)| (kind.clone(), Arc::clone(object))).collect()
    }

    /// The cluster is known not to serve this kind.
    pub fn kind_missing(&self, kind: &ResourceKind) -> bool {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        plugin_list::missing(&served, kind).is_some()
    }

    /// Enters what is known about a kind. True if it was not known before that the kind is served, and now is.
    fn learn(&self, kind: &ResourceKind, served: Served) -> bool {
        let is_served = served == Served::Yes;
        let mut known = self.served.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(kind.clone(), served) != Some(Served::Yes) && is_served
    }

    /// What the plugin of this id read from the definition of its kind; nothing without a definition.
    pub fn definition(&self, plugin: &str) -> Option<Arc<Value>> {
        self.definitions.read().unwrap_or_else(PoisonError::into_inner).get(plugin).cloned()
    }

    /// Stores what a plugin read from the definition of its kind.
    fn set_definition(&self, plugin: Arc<str>, facts: Option<Value>) {
        let mut definitions = self.definitions.write().unwrap_or_else(PoisonError::into_inner);
        match facts {
            Some(facts) => definitions.insert(plugin, Arc::new(facts)),
            None => definitions.remove(&plugin),
        };
    }

    /// The versions of all objects of a kind, as they were shown last.
    fn versions(&self, kind: &ResourceKind) -> Versions {
        let kinds = self.read();
        let Some(kind) = kinds.get(kind) else { return Versions::new() };
        let mut versions: Versions = kind.objects.values().map(|object| version(object.metadata())).collect();
        versions.extend(kind.unreadable.clone());
        versions
    }

    /// The kind's first list is complete.
    fn is_complete(&self, kind: &ResourceKind) -> bool {
        self.read().get(kind).is_some_and(|kind| kind.complete)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<ResourceKind, Kind>> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<ResourceKind, Kind>> {
        self.kinds.write().unwrap_or_else(PoisonError::into_inner)
    }
}

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
    pub memory: Arc<Memory>,
    /// Events about objects, followed with their kind and forgotten with them.
    pub events: EventFeed,
}

impl KindFeed {
    /// Wakes all actions when a kind appears, which happens rarely. A list of the actions that wait for the kind would miss
    /// an action whose round is just about to find that it waits.
    fn wake_all_actions(&self) {
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
    plugin: Arc<dyn ObjectPlugin>,
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
            self.feed.wake_all_actions();
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

fn place(metadata: &ObjectMeta) -> Place {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}
