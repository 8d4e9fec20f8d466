//! Tasks that end when one container of their pod ends.

use k8s_openapi::api::core::v1::ContainerStatus;

use super::{is_oom_killed, is_sigkilled, termination_message};
use crate::{ExecutionError, PhaseInfo, TaskInfo};

/// Code of a pod whose status does not have the primary container.
///
/// ```
/// use aileron_machinery::TaskInfo;
/// use aileron_machinery::pod::phase::{PRIMARY_CONTAINER_NOT_FOUND, primary_container_phase};
///
/// let phase = primary_container_phase("main", &[], TaskInfo::at(Default::default()));
/// assert_eq!(phase.error().unwrap().code, PRIMARY_CONTAINER_NOT_FOUND);
/// ```
pub const PRIMARY_CONTAINER_NOT_FOUND: &str = "PrimaryContainerNotFound";

/// The phase of a task that ends when the container `name` ends.
///
/// A killed container is charged to the platform, because a lost node looks the same. A container that was killed for
/// its use of memory, or that failed by itself, is charged to the task.
///
/// Mirrors `flytek8s.DeterminePrimaryContainerPhase`.
///
/// ```
/// use aileron_machinery::pod::phase::primary_container_phase;
/// use aileron_machinery::testing::{exited, pod};
/// use aileron_machinery::{Phase, TaskInfo};
/// # use aileron_machinery::serde_json::Value;
///
/// let pod = exited(&pod("p-1", "main", &Value::Null), 0);
/// let statuses = pod.status.unwrap().container_statuses.unwrap();
/// let phase = primary_container_phase("main", &statuses, TaskInfo::at(Default::default()));
/// assert_eq!(phase.phase(), Phase::Success);
/// ```
pub fn primary_container_phase(name: &str, statuses: &[ContainerStatus], info: TaskInfo) -> PhaseInfo {
    for status in statuses.iter().filter(|status| status.name == name) {
        let Some(state) = &status.state else { continue };
        if state.waiting.is_some() || state.running.is_some() {
            return PhaseInfo::running(info);
        }
        let Some(terminated) = &state.terminated else { continue };
        let killed = is_sigkilled(terminated) && !is_oom_killed(terminated);
        if terminated.exit_code == 0 && !is_oom_killed(terminated) {
            return PhaseInfo::success(info);
        }
        let message = termination_message(name, terminated);
        let reason = terminated.reason.clone().unwrap_or_default();
        let error =
            if killed { ExecutionError::system(reason, message) } else { ExecutionError::user(reason, message) };
        return PhaseInfo::retryable_failure(error, info);
    }
    let message = format!("Primary container [{name}] not found in pod's container statuses");
    PhaseInfo::permanent_failure(ExecutionError::user(PRIMARY_CONTAINER_NOT_FOUND, message), info)
}
