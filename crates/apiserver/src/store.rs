//! All objects, the revision counter, and a bounded history of changes for watches.
//!
//! One lock protects everything. A transaction holds it from its first read to its last write, so nothing changes in
//! between. A watch takes its list and its position in the history under the same lock, so it misses no change.
//!
//! Objects are stored as encoded JSON: the server sends them often, reads their fields rarely, and the encoded form
//! takes a fifth of the memory of a parsed one.

mod cursor;
pub(crate) mod quota_usage;
mod snapshot;
mod stored;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};

pub(crate) use cursor::{Cursor, WatchStart};
pub use snapshot::Snapshot;
pub use stored::Stored;

use self::quota_usage::QuotaUsages;
use crate::errors::ApiError;
use crate::kinds::Kind;
use crate::object::{Key, set_meta};

/// Where an object is stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectRef {
    pub resource: Arc<str>,
    pub key: Key,
}

/// What a write did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeType {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was removed.
    Deleted,
}

/// One write, for an observer inside this process.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The resource, named `pods`, `things.example.org`.
    pub resource: Arc<str>,
    /// What happened to the object.
    pub change_type: ChangeType,
    /// The revision of the object.
    pub revision: u64,
    /// The object after the write; its last version if it was removed.
    pub object: Arc<Stored>,
}

/// One write, as watches see it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub change_type: ChangeType,
    pub object: Arc<Stored>,
    /// The object before the write. The selector of a watch may match only this version.
    pub before: Option<Arc<Stored>>,
}

impl Observed {
    fn new(resource: &Arc<str>, change_type: ChangeType, object: &Arc<Stored>) -> Self {
        Self { resource: Arc::clone(resource), change_type, revision: object.revision, object: Arc::clone(object) }
    }
}

/// The objects of a server.
#[derive(Debug)]
pub struct Store {
    content: Mutex<Content>,
    /// How many changes of each resource the history keeps.
    history_limit: usize,
}

#[derive(Debug, Default)]
struct Content {
    /// Revision of the last write.
    revision: u64,
    /// Sends the revision of every write, of all resources.
    written: watch::Sender<u64>,
    observers: Vec<mpsc::UnboundedSender<Observed>>,
    resources: HashMap<Arc<str>, Resource>,
    /// By the uid of an owner: the objects that name this owner.
    dependents: HashMap<String, BTreeSet<ObjectRef>>,
    uids: HashMap<String, ObjectRef>,
    quota_usage: QuotaUsages,
}

/// The objects of one resource.
#[derive(Debug)]
struct Resource {
    objects: BTreeMap<Key, Arc<Stored>>,
    history: VecDeque<Change>,
    /// A watch cannot start before this revision.
    compacted: u64,
    /// The revision of the last change that the history does not contain any more. An open watch that has read it goes on.
    dropped: u64,
    /// Notifies the watches of this resource at every write. `Notify` wakes them in the order in which they started to
    /// wait; `watch` would wake them in a random order, and a test with a seed could not repeat a run.
    written: Arc<Notify>,
}

/// Exclusive access to the store while this value lives.
pub(crate) struct Transaction<'a> {
    content: MutexGuard<'a, Content>,
    history_limit: usize,
}

impl Store {
    pub(crate) fn new(history_limit: usize) -> Self {
        Self { content: Mutex::new(Content::default()), history_limit }
    }

    /// Locks the store. A panic of an earlier holder is ignored, because each single write leaves the store consistent.
    pub(crate) fn lock(&self) -> Transaction<'_> {
        let content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        Transaction { content, history_limit: self.history_limit }
    }

    /// The revision of the last write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision()
    }

    /// Receives the revision of every write. If several writes follow each other quickly, only the last one is seen.
    pub(crate) fn writes(&self) -> watch::Receiver<u64> {
        self.lock().content.written.subscribe()
    }

    /// Receives all objects, as if they were created now, and then every write, of all resources. Unlike a watch it misses
    /// none, however late it reads: it does not depend on the history.
    #[must_use]
    pub fn observe(&self) -> mpsc::UnboundedReceiver<Observed> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut transaction = self.lock();
        for (resource, content) in &transaction.content.resources {
            for object in content.objects.values() {
                // The receiver exists, so this cannot fail.
                let _ = sender.send(Observed::new(resource, ChangeType::Added, object));
            }
        }
        transaction.content.observers.push(sender);
        receiver
    }

    /// How many objects a resource has, in all namespaces. Resources are named `pods`, `things.example.org`.
    #[must_use]
    pub fn count(&self, resource: &str) -> usize {
        self.lock().content.resources.get(resource).map_or(0, |resource| resource.objects.len())
    }

    /// The objects of a resource in all namespaces, without `kind` and `apiVersion`.
    #[must_use]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        let all: Vec<_> = self.lock().list(resource, "");
        all.iter().map(|stored| stored.body()).collect()
    }

    /// One object, without `kind` and `apiVersion`.
    #[must_use]
    pub fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.lock().get(resource, &Key::new(namespace, name)).map(|stored| stored.body())
    }

    /// Gives all objects new revisions that begin at 1, and drops the history. To a client this looks as if an etcd was
    /// restored from a backup: revisions go backwards.
    pub fn renumber(&self) {
        self.lock().renumber();
    }

    /// Drops the history: watches and lists that start at an earlier revision are answered with 410.
    pub fn compact(&self) {
        self.lock().compact();
    }
}

impl Transaction<'_> {
    pub(crate) fn revision(&self) -> u64 {
        self.content.revision
    }

    pub(crate) fn get(&self, resource: &str, key: &Key) -> Option<Arc<Stored>> {
        self.content.resources.get(resource)?.objects.get(key).cloned()
    }

    /// The object, or the answer 404.
    pub(crate) fn find(&self, kind: &Kind, key: &Key) -> Result<Arc<Stored>, ApiError> {
        self.get(&kind.resource, key).ok_or_else(|| ApiError::not_found(kind, &key.name))
    }

    /// The objects of one namespace, or of all namespaces if it is empty, sorted by namespace and name.
    pub(crate) fn list(&self, resource: &str, namespace: &str) -> Vec<Arc<Stored>> {
        let Some(resource) = self.content.resources.get(resource) else { return Vec::new() };
        if namespace.is_empty() {
            return resource.objects.values().cloned().collect();
        }
        let from = Key::new(namespace, "");
        resource
            .objects
            .range(from..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, stored)| stored.clone())
            .collect()
    }

    /// Writes a new or changed object under a new revision.
    pub(crate) fn put(&mut self, kind: &Kind, mut object: Value) -> Arc<Stored> {
        self.content.revision += 1;
        let revision = self.content.revision;
        set_meta(&mut object, "resourceVersion", revision.to_string().into());
        let stored = Arc::new(Stored::new(kind, &object, revision));
        let reference = ObjectRef { resource: kind.resource.clone(), key: stored.key.clone() };
        let before = self.resource(&kind.resource).objects.insert(stored.key.clone(), stored.clone());
        if let Some(before) = &before {
            self.remove_from_indices(&reference, before);
        }
        self.content.uids.insert(stored.uid.clone(), reference.clone());
        for owner in &stored.owners {
            self.content.dependents.entry(owner.clone()).or_default().insert(reference.clone());
        }
        let change_type = if before.is_some() { ChangeType::Modified } else { ChangeType::Added };
        self.record(&kind.resource, Change { change_type, object: stored.clone(), before });
        stored
    }

    /// Removes an object if it exists. Watches get its last version under a new revision.
    pub(crate) fn remove(&mut self, kind: &Kind, key: &Key) -> Option<Arc<Stored>> {
        let before = self.resource(&kind.resource).objects.remove(key)?;
        self.content.revision += 1;
        let last = Arc::new(before.at_revision(self.content.revision));
        self.remove_from_indices(&ObjectRef { resource: kind.resource.clone(), key: key.clone() }, &before);
        let change = Change { change_type: ChangeType::Deleted, object: last.clone(), before: Some(before) };
        self.record(&kind.resource, change);
        Some(last)
    }

    /// Whether an object with this uid exists.
    pub(crate) fn exists(&self, uid: &str) -> bool {
        self.content.uids.contains_key(uid)
    }

    pub(crate) fn find_by_uid(&self, uid: &str) -> Option<ObjectRef> {
        self.content.uids.get(uid).cloned()
    }

    /// Whether a namespace contains no object of any kind.
    pub(crate) fn is_namespace_empty(&self, namespace: &str) -> bool {
        let from = Key::new(namespace, "");
        let mut resources = self.content.resources.values();
        resources
            .all(|resource| resource.objects.range(&from..).next().is_none_or(|(key, _)| key.namespace != namespace))
    }

    /// The objects that name this uid in their owner references.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<ObjectRef> {
        self.content.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// What objects use of each quota.
    pub(crate) fn quota_usage(&mut self) -> &mut QuotaUsages {
        &mut self.content.quota_usage
    }

    fn remove_from_indices(&mut self, reference: &ObjectRef, before: &Stored) {
        self.content.uids.remove(&before.uid);
        for owner in &before.owners {
            if let Some(all) = self.content.dependents.get_mut(owner) {
                all.remove(reference);
                if all.is_empty() {
                    self.content.dependents.remove(owner);
                }
            }
        }
    }

    fn resource(&mut self, name: &Arc<str>) -> &mut Resource {
        // A new resource has no earlier changes, so its history is complete from revision 0 on.
        self.content.resources.entry(name.clone()).or_insert_with(|| Resource {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            compacted: 0,
            dropped: 0,
            written: Arc::default(),
        })
    }

    fn record(&mut self, name: &Arc<str>, change: Change) {
        let limit = self.history_limit;
        let revision = change.object.revision;
        let observed = Observed::new(name, change.change_type, &change.object);
        self.content.observers.retain(|observer| observer.send(observed.clone()).is_ok());
        let resource = self.resource(name);
        resource.history.push_back(change);
        while resource.history.len() > limit {
            if let Some(old) = resource.history.pop_front() {
                resource.dropped = old.object.revision;
                resource.compacted = resource.compacted.max(resource.dropped);
            }
        }
        resource.written.notify_waiters();
        self.content.written.send_replace(revision);
    }
}

#[cfg(test)]
mod tests;
