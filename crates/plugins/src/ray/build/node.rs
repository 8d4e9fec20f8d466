//! The pods of a Ray cluster's nodes.

use aileron_idl::flyteidl2::core::{ExtendedResources, GpuAccelerator, K8sPod};
use aileron_idl::flyteidl2::plugins::{HeadGroupSpec, WorkerGroupSpec};
use aileron_machinery::pod::accelerator::apply_node_selectors;
use aileron_machinery::pod::affinity::apply_platform_scheduling_constraints;
use aileron_machinery::pod::container::find_container_mut;
use aileron_machinery::pod::merge::merge_overlay;
use aileron_machinery::pod::tolerations::add_tolerations_for_extended_resources;
use aileron_machinery::pod::{LayerContext, PodDraft, PodOptions, build_pod, decode, extended_resources};
use aileron_machinery::pod::{env_var, pod_template};
use aileron_machinery::{PluginError, TaskContext};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, ExecAction, Lifecycle, LifecycleHandler, PodTemplateSpec,
};

use super::sidecar::add_logs_sidecar;
use crate::ray::HEAD_CONTAINER;
use crate::ray::config::RayConfig;

/// The container of a worker's pod.
const WORKER_CONTAINER: &str = "ray-worker";

/// Ports that Ray uses by default: its store, its clients, its dashboard.
const PORTS: [(&str, i32); 3] = [("redis", 6379), ("head", 10001), ("dashboard", 8265)];

/// The mark of pods that belong to the platform; a custom pod cannot take it off.
const MANAGED_LABEL: (&str, &str) = ("flyte.org/managed", "true");

/// A pod of the task with the extended resources of one group laid over those of task and execution.
pub(super) fn task_pod(task: &TaskContext, group: Option<&ExtendedResources>) -> Result<PodDraft, PluginError> {
    build_pod(task, options(task, group))
        .map_err(|error| PluginError::bad_task_specification(format!("Unable to create pod spec: [{error}]")))
}

/// The pod of the head node.
pub(super) fn head_template(
    config: &RayConfig,
    task: &TaskContext,
    base: &PodDraft,
    group: Option<&HeadGroupSpec>,
) -> Result<PodTemplateSpec, PluginError> {
    let extended = group.and_then(|group| group.extended_resources.as_ref());
    let mut pod = group_pod(task, base, extended)?;
    let head = as_node(&mut pod, HEAD_CONTAINER, head_environment())?;
    if let Some(sidecar) = config.logs_sidecar.as_deref() {
        let added = add_logs_sidecar(head, sidecar);
        pod.spec.volumes.get_or_insert_default().extend(added.volume);
        pod.spec.containers.push(added.container);
    }
    finish(task, pod, group.and_then(|group| group.k8s_pod.as_ref()), extended)
}

/// The pod of the workers of a group.
pub(super) fn worker_template(
    task: &TaskContext,
    base: &PodDraft,
    group: &WorkerGroupSpec,
) -> Result<PodTemplateSpec, PluginError> {
    let extended = group.extended_resources.as_ref();
    let mut pod = group_pod(task, base, extended)?;
    let worker = as_node(&mut pod, WORKER_CONTAINER, worker_environment())?;
    // Tasks of others move elsewhere before the node goes.
    let stop = ["/bin/sh", "-c", "ray stop"].map(str::to_owned);
    worker.lifecycle = Some(Lifecycle {
        pre_stop: Some(LifecycleHandler {
            exec: Some(ExecAction { command: Some(stop.into()) }),
            ..LifecycleHandler::default()
        }),
        ..Lifecycle::default()
    });
    finish(task, pod, group.k8s_pod.as_ref(), extended)
}

fn options(task: &TaskContext, group: Option<&ExtendedResources>) -> PodOptions {
    let of_execution = task.metadata.overrides.extended_resources.as_ref();
    let extended_resources = group.map(|group| extended_resources::apply_overrides(of_execution, Some(group)));
    PodOptions { extended_resources, ..PodOptions::default() }
}

/// The pod that a group starts from. A group with extended resources of its own has its pod built anew, because
/// applying them to a pod that already has the task's would leave both.
fn group_pod(
    task: &TaskContext,
    base: &PodDraft,
    extended: Option<&ExtendedResources>,
) -> Result<PodDraft, PluginError> {
    if extended.is_some() { task_pod(task, extended) } else { Ok(base.clone()) }
}

/// Makes the primary container that of a node. The operator fills in the command; the task's arguments are the job's.
fn as_node<'d>(pod: &'d mut PodDraft, name: &str, env: Vec<EnvVar>) -> Result<&'d mut Container, PluginError> {
    let container = find_container_mut(&mut pod.spec, &pod.primary_container)?;
    container.name = name.to_owned();
    container.args = None;
    container.env.get_or_insert_default().extend(env);
    let ports = PORTS.map(|(name, port)| ContainerPort {
        name: Some(name.to_owned()),
        container_port: port,
        ..ContainerPort::default()
    });
    container.ports.get_or_insert_default().extend(ports);
    Ok(container)
}

/// Lays the group's own pod over the pod, and puts back what that may have loosened.
fn finish(
    task: &TaskContext,
    mut pod: PodDraft,
    custom: Option<&K8sPod>,
    extended: Option<&ExtendedResources>,
) -> Result<PodTemplateSpec, PluginError> {
    if let Some(spec) = custom.and_then(|custom| custom.pod_spec.as_ref()) {
        let custom = decode::pod_spec(Some(spec)).map_err(|error| {
            PluginError::bad_task_specification(format!("Unable to unmarshal pod spec, Err: [{error}]"))
        })?;
        pod.spec = merge_overlay(&pod.spec, &custom)?;
    }
    let config = &task.platform.k8s;
    if let Some(accelerator) = accelerator(task, extended) {
        apply_node_selectors(&mut pod.spec, &accelerator, config);
    }
    add_tolerations_for_extended_resources(&mut pod.spec, config);
    apply_platform_scheduling_constraints(&mut pod.spec, task.metadata.interruptible, config);

    let mut metadata = pod_template::metadata(task, pod.metadata);
    let labels = metadata.labels.get_or_insert_default();
    if let Some(own) = custom.and_then(|custom| custom.metadata.as_ref()) {
        labels.extend(own.labels.clone());
        metadata.annotations.get_or_insert_default().extend(own.annotations.clone());
    }
    labels.insert(MANAGED_LABEL.0.to_owned(), MANAGED_LABEL.1.to_owned());
    Ok(PodTemplateSpec { metadata: Some(metadata), spec: Some(pod.spec) })
}

/// The accelerator that holds for a group.
fn accelerator(task: &TaskContext, group: Option<&ExtendedResources>) -> Option<GpuAccelerator> {
    LayerContext::new(task, options(task, group)).extended_resources.gpu_accelerator
}

fn head_environment() -> Vec<EnvVar> {
    let mut env = vec![env_var::pod_field("MY_POD_IP", "status.podIP")];
    env.extend(quiet_logs());
    env
}

/// # Differs from upstream
/// `MEMORY_REQUESTS` and `MEMORY_LIMITS` show memory. Upstream shows CPUs there.
fn worker_environment() -> Vec<EnvVar> {
    let resource = |name, resource| env_var::container_resource(name, WORKER_CONTAINER, resource);
    let mut env = vec![
        env_var::text("RAY_DISABLE_DOCKER_CPU_WARNING", "1"),
        env_var::text("TYPE", "worker"),
        resource("CPU_REQUEST", "requests.cpu"),
        resource("CPU_LIMITS", "limits.cpu"),
        resource("MEMORY_REQUESTS", "requests.memory"),
        resource("MEMORY_LIMITS", "limits.memory"),
        env_var::pod_field("MY_POD_NAME", "metadata.name"),
        env_var::pod_field("MY_POD_IP", "status.podIP"),
    ];
    env.extend(quiet_logs());
    env
}

/// Nobody watches these logs on a terminal, so they carry neither colours nor progress bars.
fn quiet_logs() -> [EnvVar; 2] {
    [env_var::text("RAY_COLOR_PREFIX", "0"), env_var::text("RAY_DATA_DISABLE_PROGRESS_BARS", "1")]
}
