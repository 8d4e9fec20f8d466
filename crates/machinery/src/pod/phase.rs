//! Where a task stands, read from the status of its pod: a function of the pod, the configuration and the clock.
//!
//! One file per phase that a pod itself reports; [`pod_phase`] chooses among them.

mod failed;
mod pending;
mod primary;
mod running;
mod succeeded;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodStatus};

use super::log_context::primary_container_name;
use super::times::last_transition;
use crate::config::K8sConfig;
use crate::{PhaseContext, PhaseInfo, TaskInfo};

pub use failed::failed_phase;
pub use pending::{pending_deadline, pending_phase};
pub use primary::{PRIMARY_CONTAINER_NOT_FOUND, primary_container_phase};
pub use succeeded::succeeded_phase;

/// The annotation that names the container whose end is the end of the task.
pub const PRIMARY_CONTAINER_ANNOTATION: &str = "primary_container_name";

/// Code of a container that took more memory than it may, in words of the container runtime.
pub const OOM_KILLED: &str = "OOMKilled";

/// Code of an end that came from outside: the node went away, or somebody killed the container.
pub const INTERRUPTED: &str = "Interrupted";

/// Type of the condition that says whether a pod can serve.
pub(super) const POD_READY: &str = "Ready";

/// Where the task of this call stands, if it is this one pod. A plugin that has more to tell uses [`pod_phase`].
pub fn task_phase(cx: &PhaseContext<'_>, pod: &Pod) -> PhaseInfo {
    pod_phase(pod, &cx.task.platform.k8s, cx.task.now, TaskInfo::at(cx.task.now))
}

/// Where a task stands that is this one pod. `info` is what to tell along with it.
///
/// Mirrors `pod.DemystifyPodStatus`.
pub fn pod_phase(pod: &Pod, config: &K8sConfig, now: Timestamp, info: TaskInfo) -> PhaseInfo {
    pod_phase_of_task(pod, None, config, now, info)
}

/// Like [`pod_phase`], for a task of which it is known which container is its own.
///
/// # Differs from upstream
///
/// A pod of several containers ends the task with the task's own container, also where no annotation names it. Upstream
/// marks only sidecar tasks and pods of one container, so a log shipper that a pod template adds keeps every task
/// running for ever.
pub fn pod_phase_of_task(
    pod: &Pod,
    own_container: Option<&str>,
    config: &K8sConfig,
    now: Timestamp,
    info: TaskInfo,
) -> PhaseInfo {
    let absent = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&absent);
    let primary = annotated_primary_container(pod);
    match status.phase.as_deref().unwrap_or_default() {
        "Succeeded" => succeeded_phase(status, info),
        "Failed" => failed_phase(status, primary.unwrap_or_default(), info),
        "Pending" => pending_phase(status, config, now, info),
        "Unschedulable" => {
            let info = TaskInfo { occurred_at: last_transition(pod, now), ..info };
            PhaseInfo::queued("pod unschedulable", info)
        }
        // The node does not answer. It may come back, so nothing is decided.
        "Unknown" => PhaseInfo::undefined(),
        _ => {
            let is_known = |name: &&str| container_statuses(pod).iter().any(|status| status.name == **name);
            running::running_phase(pod, status, primary.or_else(|| own_container.filter(is_known)), info)
        }
    }
}

/// Where a task stands as far as a pod of it has failed or cannot start; undefined in all other cases, also without
/// the pod.
///
/// Mirrors `flytek8s.DemystifyFailedOrPendingPod`.
pub fn failed_or_pending_phase(
    pod: Option<&Pod>,
    primary_container: &str,
    config: &K8sConfig,
    now: Timestamp,
    info: TaskInfo,
) -> PhaseInfo {
    let Some(status) = pod.and_then(|pod| pod.status.as_ref()) else { return PhaseInfo::undefined() };
    match status.phase.as_deref() {
        Some("Failed") => failed_phase(status, primary_container, info),
        Some("Pending") => pending_phase(status, config, now, info),
        _ => PhaseInfo::undefined(),
    }
}

/// The primary container is ready to serve; of a pod without containers, the pod.
///
/// Mirrors `pod.IsPodReady`.
pub fn is_ready(pod: &Pod) -> bool {
    let primary = primary_container_name(pod);
    if primary.is_empty() {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        return conditions.iter().any(|condition| condition.type_ == POD_READY && condition.status == "True");
    }
    container_statuses(pod).iter().any(|status| status.name == primary && status.ready)
}

/// The pod will not change its outcome any more.
pub fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The container that the pod's annotation names.
fn annotated_primary_container(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(PRIMARY_CONTAINER_ANNOTATION).map(String::as_str)
}

pub(super) fn container_statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

pub(super) fn init_container_statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default()
}

/// Every container the status speaks of: those that prepare, those that work, those added for debugging.
fn all_containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses]
        .into_iter()
        .flat_map(|statuses| statuses.as_deref().unwrap_or_default())
}

/// The container runtime killed the container for its use of memory.
fn is_oom_killed(terminated: &ContainerStateTerminated) -> bool {
    terminated.reason.as_deref().is_some_and(|reason| reason.contains(OOM_KILLED))
}

/// Somebody killed the container: 128 + 9 as shells count, or -9 as an unsigned byte.
fn is_sigkilled(terminated: &ContainerStateTerminated) -> bool {
    [137, 247].contains(&terminated.exit_code)
}

/// The sentence about a container that ended badly. It begins a line of its own, because it follows others.
fn termination_message(container: &str, terminated: &ContainerStateTerminated) -> String {
    format!(
        "\r\n[{container}] terminated with exit code ({}). Reason [{}]. Message: \n{}.",
        terminated.exit_code,
        terminated.reason.as_deref().unwrap_or_default(),
        terminated.message.as_deref().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests;
