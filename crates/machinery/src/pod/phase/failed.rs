//! Failed pods: whether the task or the platform is charged, and the error.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, PodStatus};

use super::{INTERRUPTED, OOM_KILLED, all_containers, is_oom_killed, is_sigkilled, termination_message};
use crate::{ExecutionError, PhaseInfo, TaskInfo};

/// Code of a failure for which the pod gives no reason.
const UNKNOWN_ERROR: &str = "UnknownError";

/// Reasons of pods that ended because their node shut down (`Shutdown`, `Terminated`, `NodeShutdown`), or that a node
/// refused because it did not have its labels yet (`NodeAffinity`). Another attempt runs on another node.
const NODE_REASONS: [&str; 4] = ["Shutdown", "Terminated", "NodeShutdown", "NodeAffinity"];

/// The failure of a pod. It is always retryable, and charged to the task or to the platform.
///
/// It is charged to the platform if the node was lost, the primary container was killed, or the cause is unknown. Every
/// other failure is charged to the task.
///
/// Mirrors `flytek8s.DemystifyFailure`.
///
/// ```
/// use aileron_machinery::pod::phase::failed_phase;
/// use aileron_machinery::testing::pod;
/// use aileron_machinery::{ErrorKind, TaskInfo};
/// # use aileron_machinery::serde_json::json;
///
/// let pod = pod("p-1", "main", &json!({"phase": "Failed", "reason": "NodeShutdown"}));
/// let phase = failed_phase(pod.status.as_ref().unwrap(), "main", TaskInfo::at(Default::default()));
/// assert_eq!(phase.error().unwrap().kind, ErrorKind::System, "the platform is charged");
/// ```
///
/// # Differs from upstream
/// If a container ended with an ordinary exit code and the pod gives no reason, which is nearly always so, upstream
/// takes that for an interruption. So a crash of user code is retried for ever and charged to the platform. Here it is
/// charged to the task, with the container's own reason.
pub fn failed_phase(status: &PodStatus, primary_container: &str, info: TaskInfo) -> PhaseInfo {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let mut code = given(&status.reason);
    let mut message =
        given(&status.message).unwrap_or_else(|| "Pod failed. No message received from kubernetes.".to_owned());
    let mut interrupted = code.as_deref().is_some_and(|code| NODE_REASONS.contains(&code));

    for container in all_containers(status) {
        let Some(terminated) = last_termination(container) else { continue };
        if is_oom_killed(terminated) {
            code = Some(OOM_KILLED.to_owned());
        } else if is_sigkilled(terminated) {
            code = Some(INTERRUPTED.to_owned());
            interrupted |= container.name == primary_container;
        }
        if terminated.exit_code == 0 {
            message.push_str(&format!("\r\n[{}] terminated with ExitCode 0.", container.name));
        } else {
            message.push_str(&termination_message(&container.name, terminated));
        }
    }

    let error = match code.or_else(|| crash_code(status, primary_container)) {
        Some(code) if !interrupted => ExecutionError::user(code, message),
        _ => ExecutionError::system(INTERRUPTED, message),
    };
    PhaseInfo::retryable_failure(error, info)
}

/// The reason of a container that failed without being killed: of the primary container if it failed, else of an
/// ordinary container, else of an init container.
fn crash_code(status: &PodStatus, primary_container: &str) -> Option<String> {
    let working = status.container_statuses.as_deref().unwrap_or_default();
    let primary = working.iter().filter(|container| container.name == primary_container);
    let crash = primary
        .chain(working)
        .chain(all_containers(status))
        .filter_map(last_termination)
        .find(|terminated| terminated.exit_code != 0 && !is_sigkilled(terminated))?;
    let reason = crash.reason.clone().filter(|reason| !reason.is_empty());
    Some(reason.unwrap_or_else(|| UNKNOWN_ERROR.to_owned()))
}

/// How the container ended: before its last restart if it was restarted, else its current end.
fn last_termination(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    [&container.last_state, &container.state].into_iter().find_map(|state| state.as_ref()?.terminated.as_ref())
}
