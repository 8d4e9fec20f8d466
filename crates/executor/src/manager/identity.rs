//! The name and metadata of the object of an attempt, and whether an object found under that name is that one.

use aileron_kubekit::names;
use aileron_machinery::{AnyResource, PluginProperties, TaskContext};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::action::metadata::ATTEMPT_LABEL;

/// Our finalizer on objects, where configured: it keeps a deleted object until we have seen its end.
pub(crate) const FINALIZER: &str = "flyte/flytek8s";

/// The name of the attempt's object.
pub(super) fn object_name(task: &TaskContext, properties: &PluginProperties) -> String {
    let id = &task.metadata.id;
    let bounded = properties.generated_name_max_length.and_then(|max| id.generated_name_within(max).ok());
    let name = bounded.unwrap_or_else(|| id.generated_name.clone());
    if names::is_subdomain(&name) { name } else { names::to_subdomain(&name) }
}

/// Completes what a plugin built. Mirrors `PluginManager.addObjectMetadata`.
pub(crate) fn complete(task: &TaskContext, properties: &PluginProperties, object: &mut dyn AnyResource) {
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
pub(super) enum Found {
    /// The object of this very attempt.
    Ours,
    /// On its way out; the name will be free.
    Terminating,
    /// Somebody else's, or of another attempt.
    Foreign,
}

/// Compares an object with the attempt.
///
/// # Differs from upstream
///
/// Upstream takes any object of the right name for its own, also one that is being deleted.
pub(super) fn examine(task: &TaskContext, properties: &PluginProperties, found: &ObjectMeta) -> Found {
    if found.deletion_timestamp.is_some() {
        return Found::Terminating;
    }
    if is_of(task, properties, found) { Found::Ours } else { Found::Foreign }
}

/// The object was made for this attempt.
pub(super) fn is_of(task: &TaskContext, properties: &PluginProperties, found: &ObjectMeta) -> bool {
    let metadata = &task.metadata;
    let label = |meta: Option<&std::collections::BTreeMap<String, String>>| {
        meta.and_then(|labels| labels.get(ATTEMPT_LABEL)).cloned()
    };
    let same_attempt = label(found.labels.as_ref()) == label(Some(&metadata.labels));
    let owners = found.owner_references.as_deref().unwrap_or_default();
    let unowned = properties.disable_owner_references || task.platform.k8s.disable_inject_owner_references;
    let owned = if owners.is_empty() && unowned {
        let own = |key: &str| found.labels.as_ref().and_then(|labels| labels.get(key)) == metadata.labels.get(key);
        own("run") && own("action")
    } else {
        owners.iter().any(|owner| owner.uid == metadata.owner.uid)
    };
    owned && same_attempt
}
