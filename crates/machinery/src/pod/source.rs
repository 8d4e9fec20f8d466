//! The first layer of a pod: what the task itself defines, before the platform adds anything.

use std::collections::BTreeMap;

use aileron_idl::flyteidl2::core::task_template::Target;
use aileron_idl::flyteidl2::core::{K8sObjectMetadata, K8sPod};
use k8s_openapi::api::core::v1::PodSpec;
use prost_types::Struct;
use serde::Deserialize;

use super::container::{container_name, raw_container};
use super::fields::extend;
use super::layers::LayerContext;
use super::{PRIMARY_CONTAINER_KEY, PodDraft, copilot, decode};
use crate::{PluginError, TaskContext};

/// The task type whose first versions have their pod in `custom`.
///
/// ```
/// use aileron_machinery::PluginEntry;
/// use aileron_machinery::pod::SIDECAR_TASK_TYPE;
///
/// assert_eq!(PluginEntry::new("pod", &["container", SIDECAR_TASK_TYPE]).task_types[1], "sidecar");
/// ```
pub const SIDECAR_TASK_TYPE: &str = "sidecar";

/// Version 0 of sidecar tasks: everything about the pod is in `custom`. Go reads the keys in any letter case, so they
/// are lower-cased before they are read here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SidecarJob {
    #[serde(rename = "podspec")]
    pod_spec: Option<PodSpec>,
    #[serde(rename = "primarycontainername")]
    primary_container_name: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
    labels: Option<BTreeMap<String, String>>,
}

/// The pod as the template's target describes it. Mirrors `flytek8s.BuildRawPod`.
pub(super) fn task_target(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    match &cx.task.template.target {
        Some(Target::Container(_)) => {
            let container = raw_container(cx)?;
            draft.primary_container.clone_from(&container.name);
            draft.spec.containers = vec![container];
        }
        Some(Target::K8sPod(pod)) => from_pod_target(draft, cx, pod)?,
        Some(Target::Sql(_)) | None => {
            return Err(PluginError::bad_task_specification(
                "invalid TaskSpecification, unable to determine Pod configuration",
            ));
        }
    }
    if let Some(template) = &cx.task.metadata.overrides.pod_template {
        override_pod(draft, template)?;
    }
    // Kubernetes would add variables for every service of the namespace. They delay the start and may replace variables
    // of the task.
    draft.spec.enable_service_links = Some(false);
    Ok(())
}

/// Like [`task_target`]. Also reads the pods of older sidecar tasks, which are in other fields.
pub(super) fn task_target_or_sidecar(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let template = &cx.task.template;
    match (template.r#type.as_str(), template.task_type_version) {
        (SIDECAR_TASK_TYPE, 0) => sidecar_v0(draft, cx),
        (SIDECAR_TASK_TYPE, 1) => sidecar_v1(draft, cx),
        _ => task_target(draft, cx),
    }
}

fn from_pod_target(draft: &mut PodDraft, cx: &LayerContext<'_>, pod: &K8sPod) -> Result<(), PluginError> {
    if pod.pod_spec.is_none() {
        return Err(PluginError::bad_task_specification(
            "Pod tasks with task type version > 1 should specify their target as a K8sPod with a defined pod spec",
        ));
    }
    draft.spec = decode::pod_spec(pod.pod_spec.as_ref()).map_err(|error| {
        PluginError::bad_task_specification(format!("Unable to unmarshal task k8s pod, Err: [{error}]"))
    })?;
    draft.primary_container = configured_primary_container(cx)?;
    add_metadata(draft, pod.metadata.as_ref());
    Ok(())
}

/// Replaces the pod of the task by the pod that this execution gives. Mirrors `flytek8s.ApplyPodTemplateOverride`.
fn override_pod(draft: &mut PodDraft, template: &K8sPod) -> Result<(), PluginError> {
    if template.pod_spec.is_none() {
        return Ok(());
    }
    add_metadata(draft, template.metadata.as_ref());
    draft.spec = decode::pod_spec(template.pod_spec.as_ref())
        .map_err(|error| PluginError::uncoded(format!("the pod template override is not a pod spec: {error}")))?;
    draft.primary_container.clone_from(&template.primary_container_name);
    Ok(())
}

fn sidecar_v0(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let custom = cx.task.template.custom.as_ref().map(|custom| Struct {
        fields: custom.fields.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect(),
    });
    let job: SidecarJob = decode::object(custom.as_ref())
        .map_err(|error| PluginError::bad_task_specification(format!("invalid TaskSpecification, Err: [{error}]")))?;
    let Some(spec) = job.pod_spec else {
        return Err(PluginError::bad_task_specification("invalid TaskSpecification, nil PodSpec in custom"));
    };
    draft.spec = spec;
    draft.primary_container = job.primary_container_name.unwrap_or_default();
    extend(&mut draft.metadata.annotations, job.annotations.unwrap_or_default());
    extend(&mut draft.metadata.labels, job.labels.unwrap_or_default());
    Ok(())
}

fn sidecar_v1(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let template = &cx.task.template;
    draft.spec = decode::pod_spec(template.custom.as_ref()).map_err(|error| {
        PluginError::bad_task_specification(format!("Unable to unmarshal task custom, Err: [{error}]"))
    })?;
    if template.config.is_empty() {
        return Err(PluginError::bad_task_specification(format!(
            "invalid TaskSpecification, config needs to be non-empty and include missing [{PRIMARY_CONTAINER_KEY}] key"
        )));
    }
    draft.primary_container = configured_primary_container(cx)?;
    if let Some(Target::K8sPod(pod)) = &template.target {
        add_metadata(draft, pod.metadata.as_ref());
    }
    Ok(())
}

/// The name of the container that runs the task's own code. `None` if the definition of the task does not name one, and
/// for tasks whose outputs another container stores after their own container has ended.
///
/// ```
/// use aileron_machinery::pod::own_container;
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// assert_eq!(own_container(&task("batch", &Value::Null)).as_deref(), Some("run-a0-0"));
/// ```
pub fn own_container(task: &TaskContext) -> Option<String> {
    let template = &task.template;
    if copilot::data_loading(template).is_some() {
        return None;
    }
    let overridden = task.metadata.overrides.pod_template.as_ref().filter(|pod| pod.pod_spec.is_some());
    match (&template.target, overridden) {
        (_, Some(pod)) => Some(pod.primary_container_name.clone()),
        (Some(Target::Container(_)), None) => Some(container_name(&task.metadata.id)),
        (Some(Target::K8sPod(_)), None) => template.config.get(PRIMARY_CONTAINER_KEY).cloned(),
        (Some(Target::Sql(_)) | None, None) => None,
    }
}

fn configured_primary_container(cx: &LayerContext<'_>) -> Result<String, PluginError> {
    let config = &cx.task.template.config;
    config.get(PRIMARY_CONTAINER_KEY).cloned().ok_or_else(|| {
        let keys: Vec<_> = config.keys().collect();
        PluginError::bad_task_specification(format!(
            "invalid TaskSpecification, config missing [{PRIMARY_CONTAINER_KEY}] key in {keys:?}"
        ))
    })
}

fn add_metadata(draft: &mut PodDraft, metadata: Option<&K8sObjectMetadata>) {
    if let Some(K8sObjectMetadata { labels, annotations }) = metadata {
        extend(&mut draft.metadata.annotations, annotations.clone());
        extend(&mut draft.metadata.labels, labels.clone());
    }
}
