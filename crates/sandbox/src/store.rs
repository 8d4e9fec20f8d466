//! All objects, one revision counter, and a bounded history of changes that watches read from.
//!
//! Everything happens under one lock: what a transaction reads is what it writes upon, and a watcher that takes a
//! list and a position under it misses nothing. Objects are kept as encoded bytes: they are sent many times, looked
//! into rarely, and take a fifth of the memory that a tree takes.

mod cursor;
mod snapshot;
mod stored;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

pub(crate) use cursor::{Cursor, Start};
pub use snapshot::Snapshot;
pub use stored::Stored;

use crate::admission::tally::Tallies;
use crate::kind::Kind;
use crate::object::set_meta;
use crate::status::ApiError;

/// A namespace (empty for objects outside of namespaces) and a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub namespace: String,
    pub name: String,
}

/// An object among all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    pub place: Arc<str>,
    pub key: Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Added,
    Modified,
    Deleted,
}

/// One write, as watches see it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub what: What,
    pub object: Arc<Stored>,
    /// What was there before: a selector may have selected it.
    pub before: Option<Arc<Stored>>,
}

/// The objects of the server.
#[derive(Debug)]
pub struct Store {
    state: Mutex<State>,
    history: usize,
}

#[derive(Debug, Default)]
struct State {
    revision: u64,
    /// The revision of the last write, for those who follow everything.
    written: watch::Sender<u64>,
    places: HashMap<Arc<str>, Place>,
    /// Who names this uid among its owners.
    dependents: HashMap<String, BTreeSet<Address>>,
    uids: HashMap<String, Address>,
    /// What objects take of quotas.
    tallies: Tallies,
}

/// The objects of one kind.
#[derive(Debug)]
struct Place {
    objects: BTreeMap<Key, Arc<Stored>>,
    history: VecDeque<Change>,
    /// Changes up to this revision are forgotten.
    forgotten: u64,
    changed: watch::Sender<u64>,
}

/// The store, held for as long as a decision takes.
pub(crate) struct Transaction<'a> {
    state: MutexGuard<'a, State>,
    history: usize,
}

impl Key {
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub(crate) fn of(object: &Value) -> Self {
        Self::new(crate::object::meta(object, "namespace"), crate::object::meta(object, "name"))
    }
}

impl Store {
    pub(crate) fn new(history: usize) -> Self {
        Self { state: Mutex::new(State::default()), history }
    }

    /// Holds the store. Nobody panics while holding it; if somebody did, each single write is still whole.
    pub(crate) fn lock(&self) -> Transaction<'_> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Transaction { state, history: self.history }
    }

    /// The revision of the last write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision()
    }

    /// Tells of every write by its revision; of many in quick succession, only of the last.
    pub(crate) fn writes(&self) -> watch::Receiver<u64> {
        self.lock().state.written.subscribe()
    }

    /// How many objects there are of a resource: `pods`, `things.example.org`.
    #[must_use]
    pub fn count(&self, qualified: &str) -> usize {
        self.lock().state.places.get(qualified).map_or(0, |place| place.objects.len())
    }

    /// The objects of a resource, in all namespaces, without kind and version.
    #[must_use]
    pub fn objects(&self, qualified: &str) -> Vec<Value> {
        let all: Vec<_> = self.lock().list(qualified, "");
        all.iter().map(|stored| stored.body()).collect()
    }

    /// One object, without kind and version.
    #[must_use]
    pub fn object(&self, qualified: &str, namespace: &str, name: &str) -> Option<Value> {
        self.lock().get(qualified, &Key::new(namespace, name)).map(|stored| stored.body())
    }

    /// Forgets the history: watches and lists from any earlier revision are answered by 410.
    pub fn compact(&self) {
        self.lock().forget();
    }
}

impl Transaction<'_> {
    pub(crate) fn revision(&self) -> u64 {
        self.state.revision
    }

    pub(crate) fn get(&self, place: &str, key: &Key) -> Option<Arc<Stored>> {
        self.state.places.get(place)?.objects.get(key).cloned()
    }

    pub(crate) fn find(&self, kind: &Kind, key: &Key) -> Result<Arc<Stored>, ApiError> {
        self.get(&kind.place, key).ok_or_else(|| ApiError::not_found(kind, &key.name))
    }

    /// All objects, or those of one namespace, by namespace and name.
    pub(crate) fn list(&self, place: &str, namespace: &str) -> Vec<Arc<Stored>> {
        let Some(place) = self.state.places.get(place) else { return Vec::new() };
        if namespace.is_empty() {
            return place.objects.values().cloned().collect();
        }
        let from = Key::new(namespace, "");
        place
            .objects
            .range(from..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, stored)| stored.clone())
            .collect()
    }

    /// Writes an object, new or changed, under a new revision.
    pub(crate) fn put(&mut self, kind: &Kind, mut object: Value) -> Arc<Stored> {
        self.state.revision += 1;
        let revision = self.state.revision;
        set_meta(&mut object, "resourceVersion", revision.to_string().into());
        let stored = Arc::new(Stored::new(kind, &object, revision));
        let address = Address { place: kind.place.clone(), key: stored.key.clone() };
        let before = self.place(&kind.place).objects.insert(stored.key.clone(), stored.clone());
        if let Some(before) = &before {
            self.unlink(&address, before);
        }
        self.state.uids.insert(stored.uid.clone(), address.clone());
        for owner in &stored.owners {
            self.state.dependents.entry(owner.clone()).or_default().insert(address.clone());
        }
        let what = if before.is_some() { What::Modified } else { What::Added };
        self.record(&kind.place, Change { what, object: stored.clone(), before });
        stored
    }

    /// Removes an object, if it is there. Watches see it once more as it was, under a new revision.
    pub(crate) fn remove(&mut self, kind: &Kind, key: &Key) -> Option<Arc<Stored>> {
        let before = self.place(&kind.place).objects.remove(key)?;
        self.state.revision += 1;
        let last = Arc::new(before.at(kind, self.state.revision));
        self.unlink(&Address { place: kind.place.clone(), key: key.clone() }, &before);
        self.record(&kind.place, Change { what: What::Deleted, object: last.clone(), before: Some(before) });
        Some(last)
    }

    /// Whether an object of this uid exists.
    pub(crate) fn exists(&self, uid: &str) -> bool {
        self.state.uids.contains_key(uid)
    }

    pub(crate) fn address(&self, uid: &str) -> Option<Address> {
        self.state.uids.get(uid).cloned()
    }

    /// Whether nothing lives in a namespace.
    pub(crate) fn is_empty(&self, namespace: &str) -> bool {
        let from = Key::new(namespace, "");
        self.state
            .places
            .values()
            .all(|place| place.objects.range(&from..).next().is_none_or(|(key, _)| key.namespace != namespace))
    }

    /// The objects that name this uid among their owners.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Address> {
        self.state.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// What was counted so far.
    pub(crate) fn tallies(&mut self) -> &mut Tallies {
        &mut self.state.tallies
    }

    fn unlink(&mut self, address: &Address, before: &Stored) {
        self.state.uids.remove(&before.uid);
        for owner in &before.owners {
            if let Some(all) = self.state.dependents.get_mut(owner) {
                all.remove(address);
                if all.is_empty() {
                    self.state.dependents.remove(owner);
                }
            }
        }
    }

    fn place(&mut self, name: &Arc<str>) -> &mut Place {
        // What happened before a place existed is nothing, so nothing of it is forgotten.
        self.state.places.entry(name.clone()).or_insert_with(|| Place {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            forgotten: 0,
            changed: watch::Sender::new(0),
        })
    }

    fn record(&mut self, name: &Arc<str>, change: Change) {
        let limit = self.history;
        let place = self.place(name);
        let revision = change.object.revision;
        place.history.push_back(change);
        while place.history.len() > limit {
            if let Some(old) = place.history.pop_front() {
                place.forgotten = old.object.revision;
            }
        }
        place.changed.send_replace(revision);
        self.state.written.send_replace(revision);
    }
}

#[cfg(test)]
mod tests;
