//! The whole content of a store, which can be written to a file and restored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Store, Transaction};

/// All objects at one revision. It does not contain the history of changes: after a restart, watches start again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The revision of the last write.
    pub revision: u64,
    /// Objects with the name of their resource, without `kind` and `apiVersion`.
    pub objects: Vec<(String, Value)>,
}

impl Store {
    /// The current content.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let transaction = self.lock();
        let revision = transaction.revision();
        let mut stored = Vec::new();
        for (name, resource) in &transaction.content.resources {
            stored.extend(resource.objects.values().map(|stored| (name.to_string(), stored.clone())));
        }
        // Parsing the objects takes a while. The store is unlocked meanwhile.
        drop(transaction);
        stored.sort_by(|left, right| left.0.cmp(&right.0));
        Snapshot { revision, objects: stored.into_iter().map(|(name, stored)| (name, stored.body())).collect() }
    }
}

impl Transaction<'_> {
    /// Continues with revisions after the last one of a restored snapshot. One revision is skipped, so that every
    /// revision that clients remember is too old to watch from.
    pub(crate) fn resume(&mut self, revision: u64) {
        self.content.revision = self.content.revision.max(revision) + 1;
        self.content.quota_usage.forget_all();
    }

    /// Gives every object a new revision, in the order of the old ones, and continues after the last of them.
    pub(crate) fn renumber(&mut self) {
        let mut all: Vec<_> = self.content.resources.values_mut().flat_map(|it| it.objects.values_mut()).collect();
        all.sort_by_key(|stored| stored.revision);
        let mut revision = 0;
        for stored in all {
            revision += 1;
            *stored = Arc::new(stored.at_revision(revision));
        }
        self.content.revision = revision;
        for resource in self.content.resources.values_mut() {
            resource.history.clear();
            (resource.compacted, resource.dropped) = (0, 0);
        }
        self.content.quota_usage.forget_all();
    }

    /// Drops the history, so that every earlier revision is too old to watch from.
    pub(crate) fn compact(&mut self) {
        let revision = self.content.revision;
        for resource in self.content.resources.values_mut() {
            if let Some(last) = resource.history.back() {
                resource.dropped = last.object.revision;
            }
            resource.history.clear();
            resource.compacted = revision;
        }
    }
}
