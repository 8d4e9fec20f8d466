//! The name and metadata of the object of an attempt, and whether an object found under that name is that one.

use aileron_kubekit::names;
use aileron_machinery::{AnyResource, PluginProperties, TaskContext, TaskMetadata};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::metadata::ATTEMPT_LABEL;

/// Our finalizer on objects, where configured: it keeps a deleted object until we have seen its end.
pub const FINALIZER: &str = "flyte/flytek8s";

/// The name of the attempt's object.
pub fn object_name(task: &TaskContext, properties: &PluginProperties) -> String {
    let id = &task.metadata.id;
    let bounded = properties.generated_name_max_length.and_then(|max| id.generated_name_within(max).ok());
    let name = bounded.unwrap_or_else(|| id.generated_name.clone());
    if names::is_subdomain(&name) { name } else { names::to_subdomain(&name) }
}

/// Completes what a plugin built. Mirrors `PluginManager.addObjectMetadata`.
pub fn complete(task: &TaskContext, properties: &PluginProperties, object: &mut dyn AnyResource) {
    let name = object_name(task, properties);
    let config = &task.platform.k8s;
    let metadata = &task.metadata;
    let target = object.metadata_mut();
    target.name = Some(name);
    target.namespace = Some(metadata.namespace.clone());
    // What the plugin put there beats the platform's defaults, and what belongs to the attempt beats both.
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
        target.finalizers.get_or_insert_default().push(FINALIZER.into());
    }
}

/// What an object found under the attempt's name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The object of this very attempt.
    Ours,
    /// On its way out; the name will be free.
    Terminating,
    /// It was there a moment ago, and the name is free again.
    Gone,
    /// Somebody else's, or of another attempt.
    Foreign,
}

/// Compares an object with the attempt.
///
/// # Differs from upstream
///
/// Upstream takes any object of the right name for its own, also one that is being deleted.
pub fn examine(task: &TaskContext, properties: &PluginProperties, found: &ObjectMeta) -> Found {
    if found.deletion_timestamp.is_some() {
        return Found::Terminating;
    }
    if is_of(task, properties, found) { Found::Ours } else { Found::Foreign }
}

/// The object was made for this attempt.
pub fn is_of(task: &TaskContext, properties: &PluginProperties, found: &ObjectMeta) -> bool {
    Claim::of(task, properties, false).covers(found)
}

/// Which objects of its name an attempt may read, stop and let go of.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    task: &'a TaskContext,
    unowned: bool,
}

impl<'a> Claim<'a> {
    /// The claim of an attempt. One that was `started` has an object, and keeps it when the executor is configured anew
    /// to make objects with owners; one that was not must not take a stranger without owner for its own.
    pub fn of(task: &'a TaskContext, properties: &PluginProperties, started: bool) -> Self {
        let unowned = properties.disable_owner_references || task.platform.k8s.disable_inject_owner_references;
        Self { task, unowned: unowned || started }
    }

    /// The object is the attempt's.
    pub fn covers(&self, found: &ObjectMeta) -> bool {
        bears_identity(&self.task.metadata, self.unowned, found)
    }
}

/// The object bears the attempt's marks: its label, and its owner or, where objects may be `unowned`, the labels of its
/// action. Others may own such an object too: operators and queues enter themselves.
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
