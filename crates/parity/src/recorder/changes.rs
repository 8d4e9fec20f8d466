//! The changes of objects, as the followers deliver them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aileron_history::check::FinalState;
use aileron_history::history::{Change, Entry, What};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::leadership::Leases;
use super::{place, since};

/// A kind of object that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Pods,
    Actions,
    Leases,
}

/// A change that a follower has delivered.
#[derive(Clone, Debug)]
pub(super) struct Delivered {
    pub at: Timestamp,
    pub revision: u64,
    pub kind: Kind,
    pub change: Change,
    pub object: Arc<Value>,
}

/// All changes so far, and what follows from them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    delivered: Vec<Delivered>,
    /// The highest revision that had been delivered at a time. Both parts rise.
    progress: Vec<(Timestamp, u64)>,
    /// The last state of each object that exists, with its revision.
    existing: BTreeMap<(Kind, String, String), (u64, Arc<Value>)>,
    /// Namespaces and names of actions whose later changes are not kept.
    pub retired: BTreeSet<(String, String)>,
    /// The leader lease.
    pub leases: Leases,
    /// Why the changes are not complete.
    pub problem: Option<String>,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Pods, Self::Actions, Self::Leases];

    pub fn plural(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Actions => "taskactions",
            Self::Leases => "leases",
        }
    }

    pub fn api_resource(self) -> ApiResource {
        let (group, kind) = match self {
            Self::Pods => ("", "Pod"),
            Self::Actions => ("flyte.org", "TaskAction"),
            Self::Leases => ("coordination.k8s.io", "Lease"),
        };
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind))
    }
}

impl Changes {
    /// Adds a change. `object` is the last state of an object that was deleted.
    pub fn add(&mut self, at: Timestamp, kind: Kind, change: Change, revision: u64, mut object: Value) {
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        self.progressed(at, revision);
        if kind == Kind::Leases {
            self.leases.changed(at, change, &object);
        }
        let (namespace, name) = place(&object);
        let key = (kind, namespace.to_owned(), name.to_owned());
        let object = Arc::new(slim(kind, object));
        if change == Change::Deleted {
            self.existing.remove(&key);
        } else {
            self.existing.insert(key, (revision, Arc::clone(&object)));
        }
        // Renewals of the leader lease are most of the changes, and no rule is about them.
        let is_retired =
            |(namespace, name): (&str, &str)| self.retired.contains(&(namespace.to_owned(), name.to_owned()));
        if action_of(kind, &object).is_some_and(|action| !is_retired(action)) {
            self.delivered.push(Delivered { at, revision, kind, change, object });
        }
    }

    /// A change of another kind of object: only its revision counts.
    pub fn progressed(&mut self, at: Timestamp, revision: u64) {
        if self.progress.last().is_none_or(|(_, highest)| *highest < revision) {
            self.progress.push((at, revision));
        }
    }

    /// The highest revision that had been delivered at this time. The API server had written it by then.
    pub fn revision_at(&self, at: Timestamp) -> u64 {
        let later = self.progress.partition_point(|(delivered, _)| *delivered <= at);
        later.checked_sub(1).map_or(0, |place| self.progress[place].1)
    }

    /// When the last change was delivered.
    pub fn last_delivery(&self) -> Option<Timestamp> {
        self.progress.last().map(|(at, _)| *at)
    }

    /// Which of the listed objects has not been delivered in this state or a later one.
    pub fn behind(&self, kind: Kind, listed: &[DynamicObject]) -> Option<String> {
        let key = |object: &DynamicObject| (kind, object.namespace().unwrap_or_default(), object.name_any());
        let known = |object: &&DynamicObject| {
            let revision: u64 = object.resource_version().and_then(|text| text.parse().ok()).unwrap_or_default();
            self.existing.get(&key(object)).is_some_and(|(delivered, _)| *delivered >= revision)
        };
        if let Some(object) = listed.iter().find(|object| !known(object)) {
            return Some(format!("{:?} is newer", key(object)));
        }
        let listed: BTreeSet<_> = listed.iter().map(key).collect();
        let gone = self.existing.keys().filter(|(other, ..)| *other == kind).find(|key| !listed.contains(key));
        gone.map(|key| format!("{key:?} is gone"))
    }

    /// The objects of a kind that exist and belong to these actions.
    pub fn existing(&self, kind: Kind, belongs: &dyn Fn(&str, &str) -> bool) -> Vec<Arc<Value>> {
        let objects = self.existing.iter().filter(|((other, ..), _)| *other == kind).map(|(_, (_, object))| object);
        objects.filter(|object| is_of(kind, object, belongs)).cloned().collect()
    }

    /// The UID of an object that exists.
    pub fn uid(&self, plural: &str, namespace: &str, name: &str) -> Option<String> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.plural() == plural)?;
        let (_, object) = self.existing.get(&(kind, namespace.to_owned(), name.to_owned()))?;
        object.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned)
    }

    /// The objects of some actions at the end.
    pub fn end(&self, belongs: &dyn Fn(&str, &str) -> bool) -> FinalState {
        let work = self.existing(Kind::Pods, belongs).into_iter();
        FinalState {
            actions: self.existing(Kind::Actions, belongs),
            work: work.map(|pod| (Kind::Pods.plural().to_owned(), pod)).collect(),
            leases: self.existing(Kind::Leases, belongs),
        }
    }

    /// Removes the changes of some actions, and returns them as entries.
    pub fn take(&mut self, began: Timestamp, belongs: &dyn Fn(&str, &str) -> bool) -> Vec<Entry> {
        let taken = self.delivered.extract_if(.., |one| is_of(one.kind, &one.object, belongs));
        let entry = |Delivered { at, revision, kind, change, object }| {
            let what = What::Changed { resource: kind.plural(), change, object };
            Entry { at: since(began, at), revision, what }
        };
        taken.map(entry).collect()
    }

    /// Drops what is only needed for requests and events before this time.
    pub fn forget_before(&mut self, at: Timestamp) {
        self.leases.forget_before(at);
        let old = self.progress.partition_point(|(delivered, _)| *delivered < at).saturating_sub(1);
        self.progress.drain(..old);
    }
}

/// Namespace and name of the action that an object is, or that it was made for. `None` for the leader lease and for objects
/// of others.
fn action_of(kind: Kind, object: &Value) -> Option<(&str, &str)> {
    let (namespace, name) = place(object);
    if kind == Kind::Actions {
        return Some((namespace, name));
    }
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["kind"] == "TaskAction")?;
    Some((namespace, owner["name"].as_str()?))
}

fn is_of(kind: Kind, object: &Value, belongs: &dyn Fn(&str, &str) -> bool) -> bool {
    action_of(kind, object).is_some_and(|(namespace, name)| belongs(namespace, name))
}

/// The parts of an object that the rules read. A long run keeps many states of many objects.
fn slim(kind: Kind, mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("annotations");
    }
    match kind {
        Kind::Pods => {
            let phase = object["status"]["phase"].take();
            json!({"metadata": object["metadata"].take(), "status": {"phase": phase}})
        }
        Kind::Actions => {
            let spec = json!({"runName": object["spec"]["runName"], "actionName": object["spec"]["actionName"]});
            json!({"metadata": object["metadata"].take(), "spec": spec, "status": object["status"].take()})
        }
        Kind::Leases => object,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn action(name: &str) -> Value {
        json!({"metadata": {"namespace": "ns", "name": name, "annotations": {}}, "spec": {"runName": "ns", "taskTemplate": "x"}})
    }

    fn pod(name: &str, owner: &str) -> Value {
        let owners = json!([{"kind": "TaskAction", "name": owner, "uid": owner}]);
        json!({"metadata": {"namespace": "ns", "name": name, "ownerReferences": owners}, "status": {"phase": "Running"}})
    }

    #[test]
    fn a_time_has_the_revision_that_had_been_delivered_by_then() {
        let mut changes = Changes::default();
        changes.add(second(10), Kind::Actions, Change::Created, 7, action("a"));
        changes.progressed(second(12), 9);
        // The follower of another kind is late.
        changes.add(second(13), Kind::Pods, Change::Created, 8, pod("a-0", "a"));
        assert_eq!([9, 10, 11, 12, 20].map(|at| changes.revision_at(second(at))), [0, 7, 7, 9, 9]);
        changes.forget_before(second(12));
        assert_eq!(changes.revision_at(second(12)), 9);
    }

    #[test]
    fn changes_are_taken_with_the_action_that_they_belong_to() {
        let mut changes = Changes::default();
        changes.add(second(1), Kind::Actions, Change::Created, 1, action("a"));
        changes.add(second(2), Kind::Actions, Change::Created, 2, action("b"));
        changes.add(second(3), Kind::Pods, Change::Created, 3, pod("a-0", "a"));
        changes.add(second(4), Kind::Pods, Change::Deleted, 4, pod("a-0", "a"));
        let of_a = |_: &str, name: &str| name == "a";
        assert_eq!((changes.end(&of_a).actions.len(), changes.end(&of_a).work.len()), (1, 0));
        let taken = changes.take(second(0), &of_a);
        assert_eq!(taken.iter().map(|entry| entry.revision).collect::<Vec<_>>(), [1, 3, 4]);
        assert!(changes.take(second(0), &of_a).is_empty());
        let What::Changed { object, .. } = &changes.take(second(0), &|_, _| true)[0].what else { unreachable!() };
        assert_eq!(object["spec"], json!({"runName": "ns", "actionName": null}), "what no rule reads is dropped");
    }
}
