//! The whole content of a store, to be written to a file and read back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Store, Transaction};

/// All objects at one revision. The history of changes is not part of it: watches start anew after a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The revision of the last write.
    pub revision: u64,
    /// Objects without kind and version, by their resource.
    pub objects: Vec<(String, Value)>,
}

impl Store {
    /// The content as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let transaction = self.lock();
        let revision = transaction.revision();
        let mut stored = Vec::new();
        for (name, place) in &transaction.state.places {
            stored.extend(place.objects.values().map(|stored| (name.to_string(), stored.clone())));
        }
        // Reading the objects takes a while; nobody has to wait for that.
        drop(transaction);
        stored.sort_by(|left, right| left.0.cmp(&right.0));
        Snapshot { revision, objects: stored.into_iter().map(|(name, stored)| (name, stored.body())).collect() }
    }
}

impl Transaction<'_> {
    /// Continues the count of revisions of an earlier life, one past it: what clients remember is then too old.
    pub(crate) fn resume(&mut self, revision: u64) {
        self.state.revision = self.state.revision.max(revision) + 1;
        self.state.tallies.forget_all();
    }

    /// Makes every earlier revision too old for watches.
    pub(crate) fn forget(&mut self) {
        let revision = self.state.revision;
        for place in self.state.places.values_mut() {
            place.history.clear();
            place.forgotten = revision;
        }
    }
}
