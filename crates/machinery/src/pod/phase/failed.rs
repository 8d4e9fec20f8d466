//! Pods that failed: whose fault it was, and in which words.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, PodStatus};

use super::{INTERRUPTED, OOM_KILLED, all_containers, is_oom_killed, is_sigkilled, termination_message};
use crate::{ExecutionError, PhaseInfo, TaskInfo};

/// Code of a failure about which the pod says nothing.
const UNKNOWN_ERROR: &str = "UnknownError";

/// Reasons of pods that nodes took down with them (`Shutdown`, `Terminated`, `NodeShutdown`) or refused because they
/// did not have their labels yet (`NodeAffinity`). Another attempt lands elsewhere.
const NODE_REASONS: [&str; 4] = ["Shutdown", "Terminated", "NodeShutdown", "NodeAffinity"];

/// The failure of a pod. Retryable always; what differs is whose retries it uses.
///
/// The platform's: the node went away, the primary container was killed, or nobody knows what happened. The task's: all
/// the rest.
///
/// Mirrors `flytek8s.DemystifyFailure`.
///
/// # Differs from upstream
/// Upstream takes a container that ended with an ordinary exit code for an interruption when the pod gives no reason,
/// and the pod hardly ever gives one. A crash of user code was thus retried for ever at the platform's expense. Here it
/// is the task's failure, under the container's own reason.
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

/// The reason of the container that ended badly by itself: of the primary one if it did, then of those that work, then
/// of those that prepare.
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

/// How the container ended before it was started again, else how it ended.
fn last_termination(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    [&container.last_state, &container.state].into_iter().find_map(|state| state.as_ref()?.terminated.as_ref())
}
