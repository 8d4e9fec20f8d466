//! The phase of a task, computed from the status of its pod, the configuration and the time.
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
///
/// ```
/// use aileron_machinery::pod::{build_pod, phase::PRIMARY_CONTAINER_ANNOTATION};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// let mut draft = build_pod(&task("batch", &Value::Null), Default::default())?;
/// draft.annotate(PRIMARY_CONTAINER_ANNOTATION, "run-a0-0");
/// assert_eq!(draft.metadata.annotations.unwrap()["primary_container_name"], "run-a0-0");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub const PRIMARY_CONTAINER_ANNOTATION: &str = "primary_container_name";

/// Code of a container that exceeded its memory limit, as the container runtime reports it.
///
/// ```
/// use aileron_machinery::ExecutionError;
/// use aileron_machinery::pod::phase::OOM_KILLED;
///
/// let error = ExecutionError::user(OOM_KILLED, "worker-1 exceeded its memory limit");
/// assert_eq!(error.code, "OOMKilled");
/// ```
pub const OOM_KILLED: &str = "OOMKilled";

/// Code of a pod that did not end by itself: its node was lost, or a container was killed.
///
/// ```
/// use aileron_machinery::ExecutionError;
/// use aileron_machinery::pod::phase::INTERRUPTED;
///
/// let error = ExecutionError::system(INTERRUPTED, "the node of worker-1 was lost");
/// assert_eq!(error.code, "Interrupted");
/// ```
pub const INTERRUPTED: &str = "Interrupted";

/// Type of the condition that says whether a pod is ready.
pub(super) const POD_READY: &str = "Ready";

/// The phase of a task that consists of this pod. A plugin that reports more information uses [`pod_phase`].
///
/// ```
/// use aileron_machinery::pod::{build_pod, phase::task_phase};
/// use aileron_machinery::testing::{exited, task};
/// use aileron_machinery::{ObservedPhase, Phase, PhaseContext};
/// # use aileron_machinery::serde_json::Value;
///
/// let task = task("batch", &Value::Null);
/// let pod = build_pod(&task, Default::default())?.into_pod();
/// let prior = ObservedPhase::default();
/// assert_eq!(task_phase(&PhaseContext::new(&task, &prior), &exited(&pod, 0)).phase(), Phase::Success);
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn task_phase(cx: &PhaseContext<'_>, pod: &Pod) -> PhaseInfo {
    pod_phase(pod, &cx.task.platform.k8s, cx.task.now, TaskInfo::at(cx.task.now))
}

/// The phase of a task that consists of this pod. `info` is reported with it.
///
/// Mirrors `pod.DemystifyPodStatus`.
///
/// ```
/// use aileron_machinery::pod::phase::pod_phase;
/// use aileron_machinery::testing::{pod, task};
/// use aileron_machinery::{Phase, TaskInfo};
/// # use aileron_machinery::serde_json::{Value, json};
///
/// let task = task("batch", &Value::Null);
/// let failed = pod("p-1", "main", &json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}));
/// let phase = pod_phase(&failed, &task.platform.k8s, task.now, TaskInfo::at(task.now));
/// assert_eq!((phase.phase(), phase.error().unwrap().code.as_str()), (Phase::RetryableFailure, "Evicted"));
/// ```
pub fn pod_phase(pod: &Pod, config: &K8sConfig, now: Timestamp, info: TaskInfo) -> PhaseInfo {
    pod_phase_of_task(pod, None, config, now, info)
}

/// Like [`pod_phase`], for a task whose own container is known.
///
/// ```
/// use aileron_machinery::pod::phase::pod_phase_of_task;
/// use aileron_machinery::pod::{build_pod, own_container};
/// use aileron_machinery::testing::{exited, task};
/// use aileron_machinery::{Phase, TaskInfo};
/// # use aileron_machinery::serde_json::Value;
///
/// let task = task("batch", &Value::Null);
/// let pod = exited(&build_pod(&task, Default::default())?.into_pod(), 1);
/// let own = own_container(&task);
/// let phase = pod_phase_of_task(&pod, own.as_deref(), &task.platform.k8s, task.now, TaskInfo::at(task.now));
/// assert_eq!(phase.phase(), Phase::RetryableFailure);
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
///
/// # Differs from upstream
///
/// A task whose pod has several containers ends with its own container, even if no annotation names that container.
/// Upstream sets the annotation only for sidecar tasks and pods of one container, so a log shipper that a pod template
/// adds keeps every task running for ever.
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
        // The node does not answer. It may answer again later, so the phase does not change.
        "Unknown" => PhaseInfo::undefined(),
        _ => {
            let is_known = |name: &&str| container_statuses(pod).iter().any(|status| status.name == **name);
            running::running_phase(pod, status, primary.or_else(|| own_container.filter(is_known)), info)
        }
    }
}

/// The phase of a task, one of whose pods has failed or is pending. Undefined if the pod is in another state or does
/// not exist.
///
/// Mirrors `flytek8s.DemystifyFailedOrPendingPod`.
///
/// ```
/// use aileron_machinery::pod::phase::failed_or_pending_phase;
/// use aileron_machinery::testing::{pod, task};
/// use aileron_machinery::{Phase, PhaseInfo, TaskInfo};
/// # use aileron_machinery::serde_json::{Value, json};
///
/// // The operator says that the job runs, but its driver may be stuck.
/// let task = task("batch", &Value::Null);
/// let driver = pod("driver", "main", &json!({"phase": "Pending"}));
/// let info = TaskInfo::at(task.now);
/// let of_driver = failed_or_pending_phase(Some(&driver), "main", &task.platform.k8s, task.now, info.clone());
/// let phase = if of_driver.phase() == Phase::Undefined { PhaseInfo::running(info) } else { of_driver };
/// assert_eq!(phase.phase(), Phase::Queued);
/// ```
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

/// Whether the primary container is ready. If the pod has no containers, whether the pod is ready.
///
/// Mirrors `pod.IsPodReady`.
///
/// ```
/// use aileron_machinery::pod::phase::is_ready;
/// use aileron_machinery::testing::{pod, running};
/// # use aileron_machinery::serde_json::Value;
///
/// let head = pod("head", "main", &Value::Null);
/// assert!(!is_ready(&head));
/// assert!(is_ready(&running(&head)));
/// ```
pub fn is_ready(pod: &Pod) -> bool {
    let primary = primary_container_name(pod);
    if primary.is_empty() {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        return conditions.iter().any(|condition| condition.type_ == POD_READY && condition.status == "True");
    }
    container_statuses(pod).iter().any(|status| status.name == primary && status.ready)
}

/// The pod has ended, and its result will not change.
///
/// ```
/// use aileron_machinery::pod::phase::is_terminal;
/// use aileron_machinery::testing::pod;
/// # use aileron_machinery::serde_json::json;
///
/// assert!(is_terminal(&pod("p-1", "main", &json!({"phase": "Failed"}))));
/// assert!(!is_terminal(&pod("p-1", "main", &json!({"phase": "Unknown"}))));
/// ```
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

/// All containers in the status: init containers, ordinary containers and ephemeral containers.
fn all_containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses]
        .into_iter()
        .flat_map(|statuses| statuses.as_deref().unwrap_or_default())
}

/// The container runtime killed the container for its use of memory.
fn is_oom_killed(terminated: &ContainerStateTerminated) -> bool {
    terminated.reason.as_deref().is_some_and(|reason| reason.contains(OOM_KILLED))
}

/// The container was killed by SIGKILL: its exit code is 128 + 9, or -9 as an unsigned byte.
fn is_sigkilled(terminated: &ContainerStateTerminated) -> bool {
    [137, 247].contains(&terminated.exit_code)
}

/// The text about a container that failed. It begins with a line break, because other texts stand before it.
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
