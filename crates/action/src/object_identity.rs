//! The name and metadata of the object of an attempt, and the check whether an existing object with that name belongs
//! to the attempt.

use aileron_kubekit::names;
use aileron_machinery::{AnyResource, ObjectRef, PluginProperties, ResourceKind, TaskContext, TaskMetadata};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::metadata::ATTEMPT_LABEL;

/// The executor's finalizer on objects (`plugins.k8s.inject-finalizer`). It keeps a deleted object until the executor
/// has seen its final state.
pub const OBJECT_FINALIZER: &str = "flyte/flytek8s";

/// The attempt's object, whether it exists or not.
pub fn object_ref(task: &TaskContext, kind: ResourceKind, properties: &PluginProperties) -> ObjectRef {
    ObjectRef::new(kind, task.metadata.namespace.as_str(), object_name(task, properties))
}

/// The name of the attempt's object.
pub fn object_name(task: &TaskContext, properties: &PluginProperties) -> String {
    let id = &task.metadata.id;
    let bounded = properties.generated_name_max_length.and_then(|max| id.generated_name_within(max).ok());
    let name = bounded.unwrap_or_else(|| id.generated_name.clone());
    if names::is_subdomain(&name) { name } else { names::to_subdomain(&name) }
}

/// Adds name, namespace, labels, annotations, owner and finalizer to the object that a plugin built. Mirrors
/// `PluginManager.addObjectMetadata`.
pub fn complete(task: &TaskContext, properties: &PluginProperties, object: &mut dyn AnyResource) {
    let name = object_name(task, properties);
    let config = &task.platform.k8s;
    let metadata = &task.metadata;
    let target = object.metadata_mut();
    target.name = Some(name);
    target.namespace = Some(metadata.namespace.clone());
    // Values of the plugin win over the configured defaults, and values of the attempt win over both.
    let layered = |defaults: &std::collections::BTreeMap<String, String>, built: &mut Option<_>, own: &_| {
        let mut merged = defaults.clone();
        merged.extend(built.take().unwrap_or_default());
        merged.extend(Clone::clone(own));
        (!merged.is_empty()).then_some(merged)
    };
    target.labels = layered(&config.default_labels, &mut target.labels, &metadata.labels);
    target.annotations = layered(&config.default_annotations, &mut target.annotations, &metadata.annotations);
    if !properties.disable_owner_references && !config.disable_inject_owner_references {
        target.owner_references = Some(vec![metadata.owner.clone()]);
    }
    if config.inject_finalizer && !properties.disable_finalizer {
        target.finalizers.get_or_insert_default().push(OBJECT_FINALIZER.into());
    }
}

/// The relation of an existing object with the name of the attempt to the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The object of this very attempt.
    Ours,
    /// The object is being deleted. The name will be free afterwards.
    Terminating,
    /// The object existed before, but it is deleted now and the name is free.
    Gone,
    /// The object belongs to another owner or to another attempt.
    Foreign,
}

/// Compares an object with the attempt.
///
/// # Differs from upstream
///
/// Upstream treats any object of the right name as its own, even one that is being deleted.
pub fn examine(task: &TaskContext, properties: &PluginProperties, found: &ObjectMeta) -> Found {
    if found.deletion_timestamp.is_some() {
        return Found::Terminating;
    }
    if is_of(task, properties, found) { Found::Ours } else { Found::Foreign }
}

/// True if the object was created for this attempt.
pub fn is_of(task: &TaskContext, properties: &PluginProperties, found: &ObjectMeta) -> bool {
    Ownership::of(task, properties, false).covers(found)
}

/// Decides which objects with the name of an attempt the executor may read, stop and release for the attempt.
#[derive(Clone, Copy)]
pub struct Ownership<'a> {
    task: &'a TaskContext,
    unowned: bool,
}

impl<'a> Ownership<'a> {
    /// The rule of an attempt. An attempt that was `started` has an object. If the object has no owner, the attempt
    /// keeps it, even if the configuration now demands owner references. An attempt that was not started must not use
    /// an object without an owner unless the configuration disables owner references.
    pub fn of(task: &'a TaskContext, properties: &PluginProperties, started: bool) -> Self {
        let unowned = properties.disable_owner_references || task.platform.k8s.disable_inject_owner_references;
        Self { task, unowned: unowned || started }
    }

    /// True if the object belongs to the attempt.
    pub fn covers(&self, found: &ObjectMeta) -> bool {
        bears_identity(&self.task.metadata, self.unowned, found)
    }
}

/// True if the object has the attempt label and the owner of the attempt. If objects may be `unowned`, the labels of
/// the action are accepted instead of the owner. The object may have other owners too: operators and queues add
/// themselves.
fn bears_identity(attempt: &TaskMetadata, unowned: bool, found: &ObjectMeta) -> bool {
    let same = |key: &str| found.labels.as_ref().and_then(|labels| labels.get(key)) == attempt.labels.get(key);
    let owners = found.owner_references.as_deref().unwrap_or_default();
    let is_action =
        |owner: &OwnerReference| (&owner.api_version, &owner.kind) == (&attempt.owner.api_version, &attempt.owner.kind);
    let owned = owners.iter().any(|owner| owner.uid == attempt.owner.uid)
        || (unowned && !owners.iter().any(is_action) && same("run") && same("action"));
    owned && same(ATTEMPT_LABEL)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn attempt() -> TaskMetadata {
        let labels = [("run", "r"), ("action", "a"), ("attempt", "2")].map(|(key, value)| (key.into(), value.into()));
        TaskMetadata { labels: labels.into(), owner: owner("TaskAction", "ours"), ..TaskMetadata::default() }
    }

    fn owner(kind: &str, uid: &str) -> OwnerReference {
        serde_json::from_value(json!({"apiVersion": "flyte.org/v1", "kind": kind, "name": "a", "uid": uid})).unwrap()
    }

    fn is_it(unowned: bool, owners: &[(&str, &str)], labels: Value) -> bool {
        let found = ObjectMeta {
            owner_references: Some(owners.iter().map(|(kind, uid)| owner(kind, uid)).collect()),
            labels: serde_json::from_value(labels).unwrap(),
            ..ObjectMeta::default()
        };
        bears_identity(&attempt(), unowned, &found)
    }

    #[test]
    fn an_object_is_of_the_attempt_whose_owner_and_label_it_bears() {
        let labels = || json!({"attempt": "2"});
        assert!(is_it(false, &[("TaskAction", "ours")], labels()));
        assert!(is_it(false, &[("Queue", "q"), ("TaskAction", "ours")], labels()));
        assert!(is_it(true, &[("TaskAction", "ours")], labels()), "from before owners were switched off");
        for unowned in [false, true] {
            assert!(!is_it(unowned, &[("TaskAction", "ours")], json!({"attempt": "1"})), "another attempt");
            assert!(!is_it(unowned, &[("TaskAction", "ours")], Value::Null), "no attempt");
            assert!(!is_it(unowned, &[("TaskAction", "other")], labels()), "another action");
            assert!(!is_it(unowned, &[], labels()), "nobody's");
        }
    }

    #[test]
    fn without_owners_the_labels_of_the_action_tell() {
        let labels = || json!({"run": "r", "action": "a", "attempt": "2"});
        assert!(is_it(true, &[], labels()));
        assert!(is_it(true, &[("Queue", "q")], labels()), "somebody entered itself");
        assert!(!is_it(false, &[], labels()), "an object of ours would have an owner");
        assert!(!is_it(true, &[("TaskAction", "other")], labels()), "an earlier action of the same name");
        assert!(!is_it(true, &[], json!({"run": "r", "action": "b", "attempt": "2"})));
    }
}
