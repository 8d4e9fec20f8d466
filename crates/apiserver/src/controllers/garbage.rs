//! Garbage collection: dependents of deleted owners, contents of deleted namespaces, kinds of deleted definitions.

use std::sync::Arc;

use serde_json::Value;

use super::deletion::{Deleted, FOREGROUND, ORPHAN, Propagation, begin};
use super::quota;
use crate::kinds::{Kind, definition};
use crate::object::{Key, is_terminating, meta, set_meta, strings};
use crate::state::ServerState;
use crate::store::{ObjectRef, Stored, Transaction};

/// Called after an object was created or changed.
pub(crate) fn after_write(state: &ServerState, transaction: &mut Transaction<'_>, kind: &Kind, stored: &Arc<Stored>) {
    if kind.is(definition::RESOURCE) {
        definition::serve(&state.registry, &stored.body());
    }
    if !state.options.controllers {
        return;
    }
    if !stored.owners.is_empty() {
        finish_waiting_owners(state, transaction, &stored.owners);
    }
    quota::recount(state, transaction, kind, &stored.key);
}

/// Called after a deletion started.
pub(crate) fn after_delete(state: &ServerState, transaction: &mut Transaction<'_>, kind: &Kind, deleted: &Deleted) {
    let mut removed_uids = Vec::new();
    if deleted.removed {
        after_removal(state, transaction, kind, &deleted.object, &mut removed_uids);
    } else if state.options.controllers {
        resolve_hold(state, transaction, kind, &deleted.object, &mut removed_uids);
    }
    collect_dependents(state, transaction, removed_uids);
}

/// Removes an object whose last finalizer is gone.
pub(crate) fn remove(state: &ServerState, transaction: &mut Transaction<'_>, kind: &Kind, key: &Key) {
    let Some(stored) = transaction.remove(kind, key) else { return };
    let mut removed_uids = Vec::new();
    after_removal(state, transaction, kind, &stored.body(), &mut removed_uids);
    collect_dependents(state, transaction, removed_uids);
}

/// Deletes an object whose owners all do not exist, as the garbage collector does a moment after such an object was
/// created.
pub(crate) fn collect_orphan(state: &ServerState, kind: &Kind, key: &Key) {
    if !state.options.controllers {
        return;
    }
    let mut transaction = state.store.lock();
    let Some(stored) = transaction.get(&kind.resource, key) else { return };
    if !stored.owners.is_empty() && !stored.owners.iter().any(|uid| transaction.exists(uid)) {
        let mut removed_uids = Vec::new();
        delete_one(state, &mut transaction, kind, &stored.object(kind), &mut removed_uids);
        collect_dependents(state, &mut transaction, removed_uids);
    }
}

/// Deletes the dependents of removed objects, then the dependents of these dependents, and so on. Works through a list
/// instead of recursing, because chains of owners may be long.
fn collect_dependents(state: &ServerState, transaction: &mut Transaction<'_>, mut removed_uids: Vec<String>) {
    while let Some(uid) = removed_uids.pop() {
        for dependent in transaction.dependents(&uid) {
            let Some((kind, object)) = fetch(state, transaction, &dependent) else { continue };
            let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let exists = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| transaction.exists(uid));
            let left: Vec<_> = owners.into_iter().filter(exists).collect();
            if left.is_empty() {
                delete_one(state, transaction, &kind, &object, &mut removed_uids);
            } else {
                let mut object = object;
                set_meta(&mut object, "ownerReferences", left.into());
                transaction.put(&kind, object);
            }
        }
    }
}

fn fetch(state: &ServerState, transaction: &Transaction<'_>, reference: &ObjectRef) -> Option<(Arc<Kind>, Value)> {
    let kind = state.registry.by_resource(&reference.resource)?;
    let object = transaction.get(&reference.resource, &reference.key)?.object(&kind);
    Some((kind, object))
}

/// Deletes an object with background propagation, unless its deletion has started already.
fn delete_one(
    state: &ServerState,
    transaction: &mut Transaction<'_>,
    kind: &Kind,
    object: &Value,
    removed_uids: &mut Vec<String>,
) {
    if is_terminating(object) {
        return;
    }
    let deleted = begin(state.now(), transaction, kind, object, Propagation::Background, None);
    if deleted.removed {
        after_removal(state, transaction, kind, &deleted.object, removed_uids);
    }
}

/// Everything that follows from a removal, except for dependents: their owner is added to `removed_uids`.
fn after_removal(
    state: &ServerState,
    transaction: &mut Transaction<'_>,
    kind: &Kind,
    object: &Value,
    removed_uids: &mut Vec<String>,
) {
    if kind.is(definition::RESOURCE) {
        remove_defined_kind(state, transaction, object);
    }
    if kind.is("pods") {
        state.logs.forget(meta(object, "uid"));
    }
    if !state.options.controllers {
        return;
    }
    removed_uids.push(meta(object, "uid").to_owned());
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owners: Vec<String> = owners.filter_map(|owner| owner["uid"].as_str().map(str::to_owned)).collect();
    let namespace = meta(object, "namespace");
    quota::recount(state, transaction, kind, &Key::of(object));
    finish_waiting_owners(state, transaction, &owners);
    finish_empty_namespace(state, transaction, namespace);
}

/// Stops serving the kind of a removed CustomResourceDefinition and removes all its objects.
fn remove_defined_kind(state: &ServerState, transaction: &mut Transaction<'_>, object: &Value) {
    let resource = definition::defined_resource(object);
    let Some(kind) = state.registry.by_resource(&resource) else { return };
    let keys: Vec<_> = transaction.list(&resource, "").iter().map(|stored| stored.key.clone()).collect();
    definition::stop_serving(&state.registry, object);
    for key in keys {
        transaction.remove(&kind, &key);
    }
}

/// Removes the reason why a deleted object still exists: orphans its dependents, deletes its dependents, or empties a
/// namespace.
fn resolve_hold(
    state: &ServerState,
    transaction: &mut Transaction<'_>,
    kind: &Kind,
    object: &Value,
    removed_uids: &mut Vec<String>,
) {
    let finalizers = strings(&object["metadata"]["finalizers"]);
    let uid = meta(object, "uid").to_owned();
    if finalizers.iter().any(|name| name == ORPHAN) {
        for dependent in transaction.dependents(&uid) {
            let Some((kind, mut child)) = fetch(state, transaction, &dependent) else { continue };
            let owners = child["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let left: Vec<_> = owners.into_iter().filter(|owner| owner["uid"] != uid).collect();
            set_meta(&mut child, "ownerReferences", if left.is_empty() { Value::Null } else { left.into() });
            transaction.put(&kind, child);
        }
        remove_finalizer(state, transaction, kind, &Key::of(object), ORPHAN);
    }
    if finalizers.iter().any(|name| name == FOREGROUND) {
        for dependent in transaction.dependents(&uid) {
            let Some((kind, child)) = fetch(state, transaction, &dependent) else { continue };
            delete_one(state, transaction, &kind, &child, removed_uids);
        }
        finish_waiting_owners(state, transaction, &[uid]);
    }
    if kind.is("namespaces") {
        let name = meta(object, "name");
        for kind in state.registry.all().iter().filter(|kind| kind.namespaced) {
            for stored in transaction.list(&kind.resource, name) {
                // An earlier round of this loop may have removed the object together with its owner.
                if let Some(current) = transaction.get(&kind.resource, &stored.key) {
                    delete_one(state, transaction, kind, &current.object(kind), removed_uids);
                }
            }
        }
        finish_empty_namespace(state, transaction, name);
    }
}

/// Finishes the foreground deletion of owners that have no blocking dependents left.
fn finish_waiting_owners(state: &ServerState, transaction: &mut Transaction<'_>, owners: &[String]) {
    for uid in owners {
        let Some(reference) = transaction.find_by_uid(uid) else { continue };
        let Some((kind, owner)) = fetch(state, transaction, &reference) else { continue };
        let waits =
            is_terminating(&owner) && strings(&owner["metadata"]["finalizers"]).iter().any(|name| name == FOREGROUND);
        if waits && !is_blocked(state, transaction, uid) {
            remove_finalizer(state, transaction, &kind, &reference.key, FOREGROUND);
        }
    }
}

fn is_blocked(state: &ServerState, transaction: &Transaction<'_>, uid: &str) -> bool {
    let dependents = transaction.dependents(uid);
    dependents.iter().filter_map(|reference| fetch(state, transaction, reference)).any(|(_, child)| {
        let owners = child["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.into_iter().any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true)
    })
}

/// Removes a finalizer of the garbage collector; removes the object if this was its last finalizer.
fn remove_finalizer(state: &ServerState, transaction: &mut Transaction<'_>, kind: &Kind, key: &Key, finalizer: &str) {
    let Some(stored) = transaction.get(&kind.resource, key) else { return };
    let mut object = stored.object(kind);
    let mut left = strings(&object["metadata"]["finalizers"]);
    left.retain(|name| name != finalizer);
    let is_last = left.is_empty() && object["metadata"]["deletionGracePeriodSeconds"] == 0;
    set_meta(&mut object, "finalizers", if left.is_empty() { Value::Null } else { left.into() });
    if is_last {
        remove(state, transaction, kind, key);
    } else {
        transaction.put(kind, object);
    }
}

/// Removes a namespace that is being deleted, once it has no objects and no finalizers.
fn finish_empty_namespace(state: &ServerState, transaction: &mut Transaction<'_>, name: &str) {
    let key = Key::new("", name);
    let Some(stored) = transaction.get("namespaces", &key) else { return };
    let object = stored.body();
    if name.is_empty() || !is_terminating(&object) || !strings(&object["metadata"]["finalizers"]).is_empty() {
        return;
    }
    if transaction.is_namespace_empty(name)
        && let Some(kind) = state.registry.by_resource("namespaces")
    {
        transaction.remove(&kind, &key);
    }
}
