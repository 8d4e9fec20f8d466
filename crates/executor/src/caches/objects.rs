//! Objects of the kinds that plugins make, other than pods.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aileron_action::plugin_choice::{Served, ServedKinds, missing_kind};
use aileron_machinery::{AnyResource, ResourceKind};
use serde_json::Value;

use super::{Place, Versions, placed_version};

/// The objects of all watched kinds.
#[derive(Default)]
pub struct ObjectCache {
    kinds: RwLock<HashMap<ResourceKind, Kind>>,
    served: RwLock<ServedKinds>,
    /// What plugins read from the definitions of their kinds, by the id of the plugin.
    definitions: RwLock<HashMap<Arc<str>, Arc<Value>>>,
}

#[derive(Default)]
pub(crate) struct Kind {
    /// The first list is complete: an object that is not in the cache does not exist.
    pub(crate) complete: bool,
    pub(crate) objects: HashMap<Place, Arc<dyn AnyResource>>,
    /// Resource versions of objects from the watch that the plugin cannot decode. They do not count as missed by the watch.
    pub(crate) unreadable: Versions,
}

impl ObjectCache {
    /// The object of this kind, namespace and name. `None` until the first list of the kind is complete.
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

    /// How many objects of all kinds there are.
    pub(crate) fn len(&self) -> usize {
        self.read().values().map(|kind| kind.objects.len() + kind.unreadable.len()).sum()
    }

    /// Whether the cluster is known not to serve this kind.
    pub fn kind_missing(&self, kind: &ResourceKind) -> bool {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        missing_kind(&served, kind).is_some()
    }

    /// Stores whether the cluster serves a kind. Returns whether it serves it now and was not known to before.
    pub(crate) fn learn(&self, kind: &ResourceKind, served: Served) -> bool {
        let is_served = served == Served::Yes;
        let mut known = self.served.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(kind.clone(), served) != Some(Served::Yes) && is_served
    }

    /// What the plugin of this id read from the definition of its kind; nothing without a definition.
    pub fn definition(&self, plugin: &str) -> Option<Arc<Value>> {
        self.definitions.read().unwrap_or_else(PoisonError::into_inner).get(plugin).cloned()
    }

    /// Stores what a plugin read from the definition of its kind.
    pub(crate) fn set_definition(&self, plugin: Arc<str>, facts: Option<Value>) {
        let mut definitions = self.definitions.write().unwrap_or_else(PoisonError::into_inner);
        match facts {
            Some(facts) => definitions.insert(plugin, Arc::new(facts)),
            None => definitions.remove(&plugin),
        };
    }

    /// The resource versions of all objects of a kind, as the watch last showed them.
    pub(crate) fn versions(&self, kind: &ResourceKind) -> Versions {
        let kinds = self.read();
        let Some(kind) = kinds.get(kind) else { return Versions::new() };
        let mut versions: Versions = kind.objects.values().map(|object| placed_version(object.metadata())).collect();
        versions.extend(kind.unreadable.clone());
        versions
    }

    /// Whether the first list of the kind is complete.
    pub(crate) fn is_complete(&self, kind: &ResourceKind) -> bool {
        self.read().get(kind).is_some_and(|kind| kind.complete)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<ResourceKind, Kind>> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, HashMap<ResourceKind, Kind>> {
        self.kinds.write().unwrap_or_else(PoisonError::into_inner)
    }
}
