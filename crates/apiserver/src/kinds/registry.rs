//! The kinds that the server serves at the moment.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::Kind;
use super::builtin::builtin_kinds;

/// Built-in kinds and the kinds of CustomResourceDefinitions, by group, version and plural name.
#[derive(Debug)]
pub(crate) struct Registry {
    kinds: RwLock<BTreeMap<(String, String, String), Arc<Kind>>>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        let kinds = builtin_kinds().into_iter().map(|kind| (key(&kind), Arc::new(kind)));
        Self { kinds: RwLock::new(kinds.collect()) }
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.read().get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned()
    }

    /// Whether the server has a kind in this group and version.
    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.read().keys().any(|(g, v, _)| g == group && v == version)
    }

    /// All kinds, sorted by group, version and plural name.
    pub(crate) fn all(&self) -> Vec<Arc<Kind>> {
        self.read().values().cloned().collect()
    }

    /// A kind whose objects are stored under this resource name.
    pub(crate) fn by_resource(&self, resource: &str) -> Option<Arc<Kind>> {
        // The core group sorts first, so events have the form of the core group.
        self.read().values().find(|kind| kind.is(resource)).cloned()
    }

    /// Replaces all kinds of this group and plural name.
    pub(crate) fn replace(&self, group: &str, plural: &str, kinds: Vec<Kind>) {
        let mut all = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(g, _, p), _| g != group || p != plural);
        all.extend(kinds.into_iter().map(|kind| (key(&kind), Arc::new(kind))));
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<(String, String, String), Arc<Kind>>> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(kind: &Kind) -> (String, String, String) {
    (kind.group.clone(), kind.version.clone(), kind.plural.clone())
}
