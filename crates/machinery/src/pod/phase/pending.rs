//! Pods that do not run yet: why, and since when.

use aileron_kubekit::duration::GoDuration;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStateWaiting, PodCondition, PodStatus};

use super::POD_READY;
use crate::config::K8sConfig;
use crate::{ExecutionError, PhaseInfo, TaskInfo};

/// Code of a pod that was pending longer than the configuration allows.
const PENDING_TIMEOUT: &str = "PodPendingTimeout";

/// What registries answer to a client that asks too often. The client is the node, not the task.
const RATE_LIMITED: &str = "429 Too Many Requests";

/// Where a task stands whose pod is pending: waiting for a node, being prepared, or stuck.
///
/// The phase asks for a check at the next end of a grace period. A pod that is pending for longer than
/// `pod-pending-timeout` fails, and the failure is charged to the platform. The time counts from the last change of the
/// condition that explains why the pod is pending.
///
/// Mirrors `flytek8s.DemystifyPending`.
///
/// ```
/// use aileron_machinery::pod::phase::pending_phase;
/// use aileron_machinery::testing::{pod, task};
/// use aileron_machinery::{Phase, TaskInfo};
/// # use aileron_machinery::serde_json::{Value, json};
///
/// let task = task("batch", &Value::Null);
/// let waits = pod("p-1", "main", &json!({"phase": "Pending", "conditions": [
///     {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"},
/// ]}));
/// let phase = pending_phase(waits.status.as_ref().unwrap(), &task.platform.k8s, task.now, TaskInfo::at(task.now));
/// assert_eq!((phase.phase(), phase.reason()), (Phase::Queued, "Unschedulable:0/3 nodes"));
/// ```
pub fn pending_phase(status: &PodStatus, config: &K8sConfig, now: Timestamp, info: TaskInfo) -> PhaseInfo {
    let (phase, since) = explain(status, config, now, info);
    let timeout = config.pod_pending_timeout;
    if phase.phase().is_terminal() {
        return phase;
    }
    if timeout <= GoDuration::default() || !elapsed(since, now, timeout) {
        return phase.with_check_at(pending_deadline(status, config, now));
    }
    let error = ExecutionError::system(PENDING_TIMEOUT, phase.reason());
    PhaseInfo::retryable_failure(error, TaskInfo::at(since)).with_cleanup()
}

/// The next time at which the phase of a pending pod may change although the pod does not: the end of a grace period.
///
/// Which period applies depends on why the pod is pending. The ends of all periods count, because an unnecessary check
/// costs nothing.
///
/// ```
/// use aileron_machinery::pod::phase::pending_deadline;
/// use aileron_machinery::testing::{NOW, pod, task};
/// # use aileron_machinery::serde_json::{Value, json};
///
/// let task = task("batch", &Value::Null);
/// let waits = pod("p-1", "main", &json!({"phase": "Pending", "conditions": [
///     {"type": "Ready", "status": "False", "lastTransitionTime": NOW},
/// ]}));
/// let deadline = pending_deadline(waits.status.as_ref().unwrap(), &task.platform.k8s, task.now).unwrap();
/// assert_eq!(deadline.duration_since(task.now).as_secs(), 180, "the grace period for a missing image");
/// ```
pub fn pending_deadline(status: &PodStatus, config: &K8sConfig, now: Timestamp) -> Option<Timestamp> {
    if status.phase.as_deref() != Some("Pending") {
        return None;
    }
    let periods = [
        config.create_container_error_grace_period,
        config.create_container_config_error_grace_period,
        config.image_pull_backoff_grace_period,
        config.pod_pending_timeout,
    ];
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let starts = conditions.iter().filter_map(|condition| Some(condition.last_transition_time.as_ref()?.0));
    let ends = starts.flat_map(|start| {
        // The period must be exceeded; at its exact end the pod is still within it.
        periods.iter().filter(|period| !period.is_zero()).filter_map(move |period| {
            start.checked_add(SignedDuration::from_nanos(period.as_nanos()) + SignedDuration::from_millis(1)).ok()
        })
    });
    ends.filter(|end| *end > now).min()
}

/// The phase by the first condition that explains why the pod is pending, and the time of that condition's last change.
fn explain(status: &PodStatus, config: &K8sConfig, now: Timestamp, info: TaskInfo) -> (PhaseInfo, Timestamp) {
    let mut since = now;
    for condition in status.conditions.as_deref().unwrap_or_default() {
        since = condition.last_transition_time.as_ref().map_or(now, |time| time.0);
        let unmet = condition.status == "False";
        match condition.type_.as_str() {
            // No node has room now. One may have room later, so the pod waits.
            "PodScheduled" if unmet => return (queued(condition, info), since),
            "Unschedulable" => return (queued(condition, info), since),
            POD_READY if unmet => {
                if let Some(waiting) = first_waiting(status) {
                    return (waiting_phase(waiting, condition, config, since, now), since);
                }
            }
            _ => {}
        }
    }
    (PhaseInfo::queued("Demistify Pending", info), since)
}

fn queued(condition: &PodCondition, info: TaskInfo) -> PhaseInfo {
    let (reason, message) = (text(&condition.reason), text(&condition.message));
    PhaseInfo::queued(format!("{reason}:{message}"), info)
}

/// The waiting state of the container because of which the pod is pending. Init containers come first: while one of
/// them cannot start, all other containers wait for it.
fn first_waiting(status: &PodStatus) -> Option<&ContainerStateWaiting> {
    let init = status.init_container_statuses.as_deref().unwrap_or_default().iter();
    let unready = status.container_statuses.as_deref().unwrap_or_default().iter().filter(|status| !status.ready);
    init.chain(unready).find_map(|status| status.state.as_ref()?.waiting.as_ref())
}

/// The phase by the reason for which a container waits. A container that is being prepared is `Initializing`. An error
/// that may pass, such as a failed pull of the image, has a grace period. A reason that is not known here is a failure.
///
/// The grace period counts from the last change of the pod's readiness, which has the time of the node's clock.
fn waiting_phase(
    waiting: &ContainerStateWaiting,
    condition: &PodCondition,
    config: &K8sConfig,
    since: Timestamp,
    now: Timestamp,
) -> PhaseInfo {
    let code = format!("{}|{}", text(&condition.reason), text(&waiting.reason));
    let message = format!("{}|{}", text(&condition.message), text(&waiting.message));
    let info = TaskInfo::at(since);
    let outlasts = |grace: GoDuration| elapsed(since, now, grace);
    let after = |grace: GoDuration, message: String| format!("Grace period [{grace}] exceeded|{message}");

    match text(&waiting.reason) {
        "CreateContainerError" if outlasts(config.create_container_error_grace_period) => {
            let message = after(config.create_container_error_grace_period, message);
            PhaseInfo::permanent_failure(ExecutionError::user(code, message), info).with_cleanup()
        }
        "CreateContainerConfigError" if outlasts(config.create_container_config_error_grace_period) => {
            let message = after(config.create_container_config_error_grace_period, message);
            PhaseInfo::permanent_failure(ExecutionError::user(code, message), info).with_cleanup()
        }
        "ImagePullBackOff" if outlasts(config.image_pull_backoff_grace_period) => {
            let message = after(config.image_pull_backoff_grace_period, message);
            let error = if text(&waiting.message).contains(RATE_LIMITED) {
                ExecutionError::system(code, message)
            } else {
                ExecutionError::user(code, message)
            };
            PhaseInfo::retryable_failure(error, info).with_cleanup()
        }
        "InvalidImageName" => PhaseInfo::permanent_failure(ExecutionError::user(code, message), info).with_cleanup(),
        // The image is being pulled, init containers run, or the kubelet tries again within the grace period.
        "ErrImagePull"
        | "ContainerCreating"
        | "PodInitializing"
        | "CreateContainerError"
        | "CreateContainerConfigError"
        | "ImagePullBackOff" => PhaseInfo::initializing(format!("[{code}]: {message}"), info),
        // Waiting for an unknown reason may never end, so the attempt fails. Another attempt may succeed.
        _ => PhaseInfo::retryable_failure(ExecutionError::system(code, message), info).with_cleanup(),
    }
}

fn elapsed(since: Timestamp, now: Timestamp, period: GoDuration) -> bool {
    now.duration_since(since) >= SignedDuration::from_nanos(period.as_nanos())
}

fn text(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or_default()
}
