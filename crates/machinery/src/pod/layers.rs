//! The order in which a pod is built.
//!
//! A pod is built from an empty [`PodDraft`] by a list of named layers. Each layer is a function that changes the draft
//! and may read the task. `aileron explain` finds out which layer set a field: it applies the same list and compares
//! the drafts before and after each layer ([`apply_observed`]).

use std::iter;

use aileron_idl::flyteidl2::core::ExtendedResources;
use aileron_idl::flyteidl2::core::gpu_accelerator::PartitionSizeValue;
use k8s_openapi::api::core::v1::ResourceRequirements;

use super::accelerator::{PARTITION_SLICES_LABEL, apply_node_selectors, partition_slices};
use super::container::settle_resources;
use super::platform_defaults as defaults;
use super::resources::ResourceMode;
use super::shared_memory::apply_shared_memory;
use super::tolerations::add_tolerations_for_extended_resources;
use super::{PodDraft, arguments, base_template, copilot, environment, extended_resources, source};
use crate::config::K8sConfig;
use crate::{PluginError, TaskContext};

/// Settings of one pod of a task whose object contains several pods. Where a setting is absent, that of the task is
/// used.
///
/// Mirrors `flytek8s.NewPluginTaskExecutionContext` and its options.
///
/// ```
/// use aileron_machinery::pod::{PodOptions, build_pod};
/// # use aileron_machinery::k8s_openapi::api::core::v1::ResourceRequirements;
/// # use aileron_machinery::{testing::task, serde_json::{self, Value, json}};
///
/// let task = task("batch", &Value::Null);
/// let small: ResourceRequirements = serde_json::from_value(json!({"requests": {"cpu": "200m"}}))?;
/// // The coordinator of the job is small, and must not be interrupted.
/// let coordinator = PodOptions { resources: Some(small), interruptible: Some(false), ..PodOptions::default() };
/// let draft = build_pod(&task, coordinator)?;
/// # let requests = draft.spec.containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap();
/// assert_eq!(requests["cpu"].0, "200m");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodOptions {
    /// Resources of the primary container.
    pub resources: Option<ResourceRequirements>,
    /// Accelerators and shared memory.
    pub extended_resources: Option<ExtendedResources>,
    /// The pod may run on interruptible nodes.
    pub interruptible: Option<bool>,
}

/// The data that a layer may read.
///
/// ```
/// use aileron_machinery::pod::{LayerContext, PodOptions};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// let task = task("batch", &Value::Null);
/// let cx = LayerContext::new(&task, PodOptions { interruptible: Some(true), ..PodOptions::default() });
/// assert!(cx.interruptible && cx.resources().is_some());
/// assert_eq!(cx.config().gpu_resource_name, "nvidia.com/gpu");
/// ```
#[derive(Clone, Debug)]
pub struct LayerContext<'a> {
    /// The task.
    pub task: &'a TaskContext,
    /// The pod may run on interruptible nodes.
    pub interruptible: bool,
    /// Accelerators and shared memory, overrides applied.
    pub extended_resources: ExtendedResources,
    resources: Option<ResourceRequirements>,
}

/// One step of building a pod.
///
/// ```
/// use aileron_machinery::pod::layers::{self, PodLayer, task_pod_layers};
/// use aileron_machinery::pod::{LayerContext, PodOptions};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// const ROOM: PodLayer = PodLayer {
///     name: "room",
///     apply: |draft, _| {
///         draft.label("kitchen.example.com/room", "2");
///         Ok(())
///     },
/// };
/// let task = task("kettle", &Value::Null);
/// let draft = layers::apply(task_pod_layers().chain([ROOM]), &LayerContext::new(&task, PodOptions::default()))?;
/// assert_eq!(draft.metadata.labels.unwrap()["kitchen.example.com/room"], "2");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PodLayer {
    /// The name of the layer, as `aileron explain` shows it.
    pub name: &'static str,
    /// Changes the draft.
    pub apply: fn(&mut PodDraft, &LayerContext<'_>) -> Result<(), PluginError>,
}

impl<'a> LayerContext<'a> {
    /// The data of a task, with the options in place of the task's own settings.
    pub fn new(task: &'a TaskContext, options: PodOptions) -> Self {
        let overrides = &task.metadata.overrides;
        let extended = options.extended_resources.as_ref().or(overrides.extended_resources.as_ref());
        Self {
            task,
            interruptible: options.interruptible.unwrap_or(task.metadata.interruptible),
            extended_resources: extended_resources::apply_overrides(
                task.template.extended_resources.as_ref(),
                extended,
            ),
            resources: options.resources,
        }
    }

    /// Section `plugins.k8s`.
    pub fn config(&self) -> &'a K8sConfig {
        &self.task.platform.k8s
    }

    /// Resources of the primary container that win over those of the template: those of the options, else those of the
    /// execution.
    pub fn resources(&self) -> Option<&ResourceRequirements> {
        self.resources.as_ref().or(self.task.metadata.overrides.resources.as_ref())
    }
}

/// The pod as the template's target describes it.
///
/// ```
/// use aileron_machinery::pod::layers::{LayerContext, TASK_TARGET, apply};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// // Nothing but what the task says: no environment, no defaults of the platform.
/// let task = task("batch", &Value::Null);
/// let draft = apply([TASK_TARGET], &LayerContext::new(&task, Default::default()))?;
/// assert_eq!(draft.spec.containers[0].env, None);
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub const TASK_TARGET: PodLayer = PodLayer { name: "task target", apply: source::task_target };

/// The pod as the template describes it, in its target or, for older sidecar tasks, elsewhere.
///
/// ```
/// use aileron_machinery::pod::layers::{LayerContext, PLATFORM_LAYERS, TASK_TARGET_OR_SIDECAR, apply};
/// # use aileron_machinery::{testing::task, serde_json::json};
///
/// // A sidecar task of version 0 has its pod in `custom`.
/// let task = task("sidecar", &json!({"podSpec": {"containers": [{"name": "app"}]}, "primaryContainerName": "app"}));
/// let layers = [TASK_TARGET_OR_SIDECAR].into_iter().chain(PLATFORM_LAYERS.iter().copied());
/// assert_eq!(apply(layers, &LayerContext::new(&task, Default::default()))?.primary_container, "app");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub const TASK_TARGET_OR_SIDECAR: PodLayer = PodLayer { name: "task target", apply: source::task_target_or_sidecar };

/// Tolerations named like the extended resources that the pod requests.
///
/// ```
/// use aileron_machinery::pod::layers::{EXTENDED_RESOURCE_TOLERATIONS, task_pod_layers};
///
/// // It is the last layer, because it looks at what the pod requests in the end.
/// assert_eq!(task_pod_layers().last().unwrap().name, EXTENDED_RESOURCE_TOLERATIONS.name);
/// ```
pub const EXTENDED_RESOURCE_TOLERATIONS: PodLayer =
    PodLayer { name: "extended resource tolerations", apply: extended_resource_tolerations };

/// The layers that apply to every pod of a task, in this order. Mirrors `flytek8s.ApplyFlytePodConfiguration`.
///
/// ```
/// use aileron_machinery::pod::layers::PLATFORM_LAYERS;
///
/// let position = |name| PLATFORM_LAYERS.iter().position(|layer| layer.name == name);
/// assert!(position("resources") < position("pod template"));
/// ```
pub const PLATFORM_LAYERS: &[PodLayer] = &[
    PodLayer { name: "arguments", apply: arguments },
    PodLayer { name: "environment", apply: environment },
    PodLayer { name: "resources", apply: resources },
    PodLayer { name: "co-pilot", apply: co_pilot },
    PodLayer { name: "restart policy", apply: defaults::restart_policy },
    PodLayer { name: "tolerations", apply: defaults::tolerations },
    PodLayer { name: "service account", apply: defaults::service_account },
    PodLayer { name: "scheduler", apply: defaults::scheduler },
    PodLayer { name: "node selector", apply: defaults::node_selector },
    PodLayer { name: "default affinity", apply: defaults::default_affinity },
    PodLayer { name: "pod security context", apply: defaults::pod_security_context },
    PodLayer { name: "host network", apply: defaults::host_network },
    PodLayer { name: "DNS", apply: defaults::dns_config },
    PodLayer { name: "interruptible affinity", apply: defaults::interruptible_affinity },
    PodLayer { name: "container security context", apply: defaults::container_security_context },
    PodLayer { name: "accelerator pod template", apply: base_template::accelerator_template },
    PodLayer { name: "pod template", apply: base_template::base_template },
    PodLayer { name: "accelerator placement", apply: accelerator_placement },
    PodLayer { name: "shared memory", apply: shared_memory },
    PodLayer { name: "image override", apply: image_override },
];

/// Builds a pod by a list of layers.
///
/// ```
/// use aileron_machinery::pod::layers::{LayerContext, PLATFORM_LAYERS, TASK_TARGET, apply};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// let task = task("batch", &Value::Null);
/// let layers = [TASK_TARGET].into_iter().chain(PLATFORM_LAYERS.iter().copied());
/// let draft = apply(layers, &LayerContext::new(&task, Default::default()))?;
/// assert_eq!(draft.spec.restart_policy.as_deref(), Some("Never"));
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn apply(layers: impl IntoIterator<Item = PodLayer>, cx: &LayerContext<'_>) -> Result<PodDraft, PluginError> {
    apply_observed(layers, cx, |_, _| {})
}

/// Builds a pod by a list of layers, and calls `observe` with the name of each layer and the draft after it.
///
/// ```
/// use aileron_machinery::pod::layers::{LayerContext, apply_observed, task_pod_layers};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// let task = task("batch", &Value::Null);
/// let mut first = None;
/// apply_observed(task_pod_layers(), &LayerContext::new(&task, Default::default()), |layer, draft| {
///     first = first.or(draft.spec.restart_policy.is_some().then_some(layer));
/// })?;
/// assert_eq!(first, Some("restart policy"), "the layer that set the field");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn apply_observed(
    layers: impl IntoIterator<Item = PodLayer>,
    cx: &LayerContext<'_>,
    mut observe: impl FnMut(&'static str, &PodDraft),
) -> Result<PodDraft, PluginError> {
    let mut draft = PodDraft::default();
    for layer in layers {
        (layer.apply)(&mut draft, cx)?;
        observe(layer.name, &draft);
    }
    Ok(draft)
}

/// The layers of [`build_pod`].
///
/// ```
/// use aileron_machinery::pod::layers::task_pod_layers;
///
/// let names: Vec<_> = task_pod_layers().map(|layer| layer.name).collect();
/// assert_eq!(names[..3], ["task target", "arguments", "environment"]);
/// ```
pub fn task_pod_layers() -> impl Iterator<Item = PodLayer> {
    iter::once(TASK_TARGET).chain(PLATFORM_LAYERS.iter().copied()).chain(iter::once(EXTENDED_RESOURCE_TOLERATIONS))
}

/// A pod of the task, for plugins whose objects contain pods. Mirrors `flytek8s.ToK8sPodSpec`.
///
/// ```
/// use aileron_machinery::pod::{PodOptions, build_pod};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// let draft = build_pod(&task("batch", &Value::Null), PodOptions::default())?;
/// assert_eq!(draft.primary_container, "run-a0-0");
/// assert_eq!(draft.spec.restart_policy.as_deref(), Some("Never"));
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn build_pod(task: &TaskContext, options: PodOptions) -> Result<PodDraft, PluginError> {
    apply(task_pod_layers(), &LayerContext::new(task, options))
}

fn arguments(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let spec = &mut draft.spec;
    spec.init_containers
        .iter_mut()
        .flatten()
        .chain(&mut spec.containers)
        .try_for_each(|container| arguments::render(container, cx.task))
}

fn environment(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let spec = &mut draft.spec;
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        environment::decorate(container, cx.task);
    }
    Ok(())
}

/// Sets requests and limits. The primary container gets what it requests, and the platform's defaults where it requests
/// nothing. Other containers get no defaults; what they request is only lowered to the platform's limits.
fn resources(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    for container in draft.spec.init_containers.iter_mut().flatten() {
        settle_resources(container, cx, ResourceMode::EnsureInRange)?;
    }
    for container in &mut draft.spec.containers {
        let is_primary = container.name == draft.primary_container;
        let mode = if is_primary { ResourceMode::Merge } else { ResourceMode::EnsureInRange };
        settle_resources(container, cx, mode)?;
    }
    draft.primary().map(drop)
}

fn co_pilot(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let Some(data) = copilot::data_loading(&cx.task.template) else { return Ok(()) };
    copilot::add_to_container(draft.primary()?, cx, data);
    copilot::add_to_pod(&mut draft.spec, cx, data)
}

fn accelerator_placement(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    let Some(accelerator) = &cx.extended_resources.gpu_accelerator else { return Ok(()) };
    apply_node_selectors(&mut draft.spec, accelerator, cx.config());
    if let Some(PartitionSizeValue::PartitionSize(size)) = &accelerator.partition_size_value
        && let Some(slices) = partition_slices(size)
    {
        draft.label(PARTITION_SLICES_LABEL, slices);
    }
    Ok(())
}

fn shared_memory(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    match &cx.extended_resources.shared_memory {
        Some(shared_memory) => apply_shared_memory(&mut draft.spec, &draft.primary_container, shared_memory),
        None => Ok(()),
    }
}

fn image_override(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    if let Some(image) = cx.task.metadata.overrides.container_image.as_ref().filter(|image| !image.is_empty()) {
        draft.primary()?.image = Some(image.clone());
    }
    Ok(())
}

fn extended_resource_tolerations(draft: &mut PodDraft, cx: &LayerContext<'_>) -> Result<(), PluginError> {
    add_tolerations_for_extended_resources(&mut draft.spec, cx.config());
    Ok(())
}

#[cfg(test)]
mod tests;
