//! Start of a deletion: the object is removed at once, or marked until its finalizers and its grace period are done.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::kinds::Kind;
use crate::object::{Key, is_terminating, set_meta, strings, timestamp};
use crate::store::Transaction;
use crate::strategy::pods;

/// Finalizer of an owner that waits until its dependents are deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an owner whose dependents are to lose their owner reference first.
pub(crate) const ORPHAN: &str = "orphan";

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted after the object.
    #[default]
    Background,
    /// They are deleted before the object.
    Foreground,
    /// They stay, without the owner reference.
    Orphan,
}

/// Result of a deletion.
pub(crate) struct Deleted {
    pub object: Value,
    /// Whether the object is gone. If not, it is marked as being deleted.
    pub removed: bool,
}

/// Removes the object, or marks it if a finalizer or a grace period holds it. Does not touch dependents.
///
/// `grace` is the grace period of the request in seconds; it matters for pods only.
pub(crate) fn begin(
    now: Timestamp,
    transaction: &mut Transaction<'_>,
    kind: &Kind,
    current: &Value,
    propagation: Propagation,
    grace: Option<i64>,
) -> Deleted {
    let mut object = current.clone();
    let finalizers = finalizers_after(current, propagation);
    let list = if finalizers.is_empty() { Value::Null } else { finalizers.clone().into() };
    set_meta(&mut object, "finalizers", list);

    if kind.is("namespaces") {
        object["status"]["phase"] = "Terminating".into();
        if !is_terminating(current) {
            set_meta(&mut object, "deletionTimestamp", timestamp(now));
        }
        let held = !finalizers.is_empty() || !strings(&object["spec"]["finalizers"]).is_empty();
        return finish(transaction, kind, object, current, held);
    }
    let grace = if kind.is("pods") { pods::grace(current, grace) } else { 0 };
    let pending = current["metadata"]["deletionGracePeriodSeconds"].as_i64();
    // A second deletion may shorten the grace period, but not extend it.
    if !is_terminating(current) || pending.is_some_and(|pending| grace < pending) {
        let end = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        set_meta(&mut object, "deletionTimestamp", timestamp(end));
        set_meta(&mut object, "deletionGracePeriodSeconds", grace.into());
        if !is_terminating(current)
            && let Some(generation) = current["metadata"]["generation"].as_i64()
        {
            set_meta(&mut object, "generation", (generation + 1).into());
        }
    }
    let held = !finalizers.is_empty() || object["metadata"]["deletionGracePeriodSeconds"] != 0;
    if !held && kind.is("pods") {
        // The kubelet watches for the deletion timestamp, so the pod is marked before it is removed.
        let marked = finish(transaction, kind, object, current, true);
        transaction.remove(kind, &Key::of(current));
        return Deleted { removed: true, ..marked };
    }
    finish(transaction, kind, object, current, held)
}

/// The finalizers of an object whose deletion starts: its own, and the one that the propagation needs.
fn finalizers_after(current: &Value, propagation: Propagation) -> Vec<String> {
    let needed = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    let mut finalizers = strings(&current["metadata"]["finalizers"]);
    finalizers.retain(|name| {
        ![ORPHAN, FOREGROUND].contains(&name.as_str()) || Some(name.as_str()) == needed || is_terminating(current)
    });
    if let Some(name) = needed.filter(|name| !finalizers.iter().any(|known| known == name)) {
        finalizers.push(name.to_owned());
    }
    finalizers
}

fn finish(transaction: &mut Transaction<'_>, kind: &Kind, object: Value, current: &Value, held: bool) -> Deleted {
    if !held {
        let last = transaction.remove(kind, &Key::of(current));
        let object = last.map_or_else(|| current.clone(), |last| last.object(kind));
        return Deleted { object, removed: true };
    }
    if object == *current {
        return Deleted { object, removed: false };
    }
    let stored = transaction.put(kind, object);
    Deleted { object: stored.object(kind), removed: false }
}
