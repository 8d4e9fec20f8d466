//! What follows from a write: owned objects go, namespaces empty themselves, definitions are served, usage is counted.
//!
//! In a real cluster controllers do most of this a moment later. Here it happens in the same transaction, so that
//! tests need not wait for it; [`crate::Options::controllers`] switches it off.

use std::sync::Arc;

use serde_json::Value;

use crate::delete::{Deleted, Options, Propagation, begin};
use crate::kind::Kind;
use crate::object::{is_terminating, meta, set_meta, texts};
use crate::server::ApiServer;
use crate::store::{Address, Key, Stored, Transaction};
use crate::{admission, crd};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// After an object was made or changed.
pub(crate) fn after_write(server: &ApiServer, transaction: &mut Transaction<'_>, kind: &Kind, stored: &Arc<Stored>) {
    if kind.is(crd::PLACE) {
        crd::serve(&server.inner.registry, &stored.body());
    }
    if !server.inner.options.controllers {
        return;
    }
    if !stored.owners.is_empty() {
        release_waiting(server, transaction, &stored.owners);
    }
    admission::quota::recount(server, transaction, kind, &stored.key);
}

/// After a deletion began.
pub(crate) fn after_delete(server: &ApiServer, transaction: &mut Transaction<'_>, kind: &Kind, deleted: &Deleted) {
    let mut gone = Vec::new();
    if deleted.removed {
        note_removed(server, transaction, kind, &deleted.object, &mut gone);
    } else if server.inner.options.controllers {
        held(server, transaction, kind, &deleted.object, &mut gone);
    }
    collect(server, transaction, gone);
}

/// Removes an object that nothing holds any more.
pub(crate) fn remove(server: &ApiServer, transaction: &mut Transaction<'_>, kind: &Kind, key: &Key) {
    let Some(stored) = transaction.remove(kind, key) else { return };
    let mut gone = Vec::new();
    note_removed(server, transaction, kind, &stored.body(), &mut gone);
    collect(server, transaction, gone);
}

/// Deletes those whose owners are gone, then those whose owners they were, and so on; a list instead of recursion,
/// since chains of owners may be long.
fn collect(server: &ApiServer, transaction: &mut Transaction<'_>, mut gone: Vec<String>) {
    while let Some(uid) = gone.pop() {
        for address in transaction.dependents(&uid) {
            let Some((kind, object)) = fetch(server, transaction, &address) else { continue };
            let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let lives = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| transaction.exists(uid));
            let left: Vec<_> = owners.into_iter().filter(lives).collect();
            if left.is_empty() {
                delete_one(server, transaction, &kind, &object, Propagation::Background, &mut gone);
            } else {
                let mut object = object;
                set_meta(&mut object, "ownerReferences", left.into());
                transaction.put(&kind, object);
            }
        }
    }
}

fn fetch(server: &ApiServer, transaction: &Transaction<'_>, address: &Address) -> Option<(Arc<Kind>, Value)> {
    let kind = server.inner.registry.at(&address.place)?;
    let object = transaction.get(&address.place, &address.key)?.object(&kind);
    Some((kind, object))
}

fn delete_one(
    server: &ApiServer,
    transaction: &mut Transaction<'_>,
    kind: &Kind,
    object: &Value,
    propagation: Propagation,
    gone: &mut Vec<String>,
) {
    if is_terminating(object) {
        return;
    }
    let options = Options { propagation, ..Options::default() };
    let deleted = begin(server.now(), transaction, kind, object, &options);
    if deleted.removed {
        note_removed(server, transaction, kind, &deleted.object, gone);
    }
}

/// Everything that a removal means to others.
fn note_removed(
    server: &ApiServer,
    transaction: &mut Transaction<'_>,
    kind: &Kind,
    object: &Value,
    gone: &mut Vec<String>,
) {
    if kind.is(crd::PLACE) {
        for (kind, key) in crd::withdraw(server, transaction, object) {
            transaction.remove(&kind, &key);
        }
    }
    if kind.is("pods") {
        server.logs().forget(meta(object, "uid"));
    }
    if !server.inner.options.controllers {
        return;
    }
    gone.push(meta(object, "uid").to_owned());
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owners: Vec<String> = owners.filter_map(|owner| owner["uid"].as_str().map(str::to_owned)).collect();
    let namespace = meta(object, "namespace");
    admission::quota::recount(server, transaction, kind, &Key::of(object));
    release_waiting(server, transaction, &owners);
    end_namespace(server, transaction, namespace);
}

/// A deletion that waits: for its dependents, for a namespace to be empty.
fn held(server: &ApiServer, transaction: &mut Transaction<'_>, kind: &Kind, object: &Value, gone: &mut Vec<String>) {
    let finalizers = texts(&object["metadata"]["finalizers"]);
    let uid = meta(object, "uid").to_owned();
    if finalizers.iter().any(|name| name == ORPHAN) {
        for address in transaction.dependents(&uid) {
            let Some((kind, mut child)) = fetch(server, transaction, &address) else { continue };
            let owners = child["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let left: Vec<_> = owners.into_iter().filter(|owner| owner["uid"] != uid).collect();
            set_meta(&mut child, "ownerReferences", if left.is_empty() { Value::Null } else { left.into() });
            transaction.put(&kind, child);
        }
        let_go(server, transaction, kind, &Key::of(object), ORPHAN);
    }
    if finalizers.iter().any(|name| name == FOREGROUND) {
        for address in transaction.dependents(&uid) {
            let Some((kind, child)) = fetch(server, transaction, &address) else { continue };
            delete_one(server, transaction, &kind, &child, Propagation::Background, gone);
        }
        release_waiting(server, transaction, &[uid]);
    }
    if kind.is("namespaces") {
        let name = meta(object, "name");
        for kind in server.inner.registry.all().iter().filter(|kind| kind.namespaced) {
            for stored in transaction.list(&kind.place, name) {
                // It may have gone with its owner a moment ago.
                if let Some(current) = transaction.get(&kind.place, &stored.key) {
                    delete_one(server, transaction, kind, &current.object(kind), Propagation::Background, gone);
                }
            }
        }
        end_namespace(server, transaction, name);
    }
}

/// Owners that waited for their dependents and have none left that block.
fn release_waiting(server: &ApiServer, transaction: &mut Transaction<'_>, owners: &[String]) {
    for uid in owners {
        let Some(address) = transaction.address(uid) else { continue };
        let Some((kind, owner)) = fetch(server, transaction, &address) else { continue };
        let waits =
            is_terminating(&owner) && texts(&owner["metadata"]["finalizers"]).iter().any(|name| name == FOREGROUND);
        if waits && !is_blocked(server, transaction, uid) {
            let_go(server, transaction, &kind, &address.key, FOREGROUND);
        }
    }
}

fn is_blocked(server: &ApiServer, transaction: &Transaction<'_>, uid: &str) -> bool {
    transaction.dependents(uid).iter().filter_map(|address| fetch(server, transaction, address)).any(|(_, child)| {
        let owners = child["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.into_iter().any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true)
    })
}

/// Takes a finalizer of the collector's away, and the object if that was the last.
fn let_go(server: &ApiServer, transaction: &mut Transaction<'_>, kind: &Kind, key: &Key, finalizer: &str) {
    let Some(stored) = transaction.get(&kind.place, key) else { return };
    let mut object = stored.object(kind);
    let mut left = texts(&object["metadata"]["finalizers"]);
    left.retain(|name| name != finalizer);
    let is_last = left.is_empty() && object["metadata"]["deletionGracePeriodSeconds"] == 0;
    set_meta(&mut object, "finalizers", if left.is_empty() { Value::Null } else { left.into() });
    if is_last {
        remove(server, transaction, kind, key);
    } else {
        transaction.put(kind, object);
    }
}

fn end_namespace(server: &ApiServer, transaction: &mut Transaction<'_>, name: &str) {
    let key = Key::new("", name);
    let Some(stored) = transaction.get("namespaces", &key) else { return };
    let object = stored.body();
    if name.is_empty() || !is_terminating(&object) || !texts(&object["metadata"]["finalizers"]).is_empty() {
        return;
    }
    if transaction.is_empty(name)
        && let Some(kind) = server.inner.registry.at("namespaces")
    {
        transaction.remove(&kind, &key);
    }
}

/// Deletes an object that names only owners that are not there, as the collector does a moment after it was made.
pub(crate) fn collect_orphan(server: &ApiServer, kind: &Kind, key: &Key) {
    if !server.inner.options.controllers {
        return;
    }
    let mut transaction = server.store().lock();
    let Some(stored) = transaction.get(&kind.place, key) else { return };
    if !stored.owners.is_empty() && !stored.owners.iter().any(|uid| transaction.exists(uid)) {
        let mut gone = Vec::new();
        delete_one(server, &mut transaction, kind, &stored.object(kind), Propagation::Background, &mut gone);
        collect(server, &mut transaction, gone);
    }
}
