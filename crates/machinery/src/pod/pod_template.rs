//! Labels and annotations of pod templates inside other objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::TaskContext;

/// Labels and annotations of a pod template: the platform's defaults, those of the template, and those of the attempt.
/// Later ones win.
///
/// The plugin manager labels only the object itself, and operators do not copy its labels to the pods that they create.
///
/// ```
/// use aileron_machinery::k8s_openapi::api::core::v1::PodTemplateSpec;
/// use aileron_machinery::pod::{build_pod, pod_template};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// let task = task("batch", &Value::Null);
/// let pod = build_pod(&task, Default::default())?.into_pod();
/// let workers = PodTemplateSpec { metadata: Some(pod_template::metadata(&task, pod.metadata)), spec: pod.spec };
/// assert!(workers.metadata.unwrap().annotations.is_some(), "the default annotations of the platform");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn metadata(task: &TaskContext, own: ObjectMeta) -> ObjectMeta {
    let config = &task.platform.k8s;
    ObjectMeta {
        labels: union(&config.default_labels, own.labels, &task.metadata.labels),
        annotations: union(&config.default_annotations, own.annotations, &task.metadata.annotations),
        ..own
    }
}

type Entries = BTreeMap<String, String>;

fn union(defaults: &Entries, own: Option<Entries>, of_attempt: &Entries) -> Option<Entries> {
    let mut all = defaults.clone();
    all.extend(own.unwrap_or_default());
    all.extend(of_attempt.clone());
    Some(all).filter(|all| !all.is_empty())
}
