//! Tasks that end when one container of their pod ends.

use k8s_openapi::api::core::v1::ContainerStatus;

use super::{is_oom_killed, is_sigkilled, termination_message};
use crate::{ExecutionError, PhaseInfo, TaskInfo};

/// Code of a pod whose status does not know the container that matters.
pub const PRIMARY_CONTAINER_NOT_FOUND: &str = "PrimaryContainerNotFound";

/// Where a task stands whose end is the end of the container `name`.
///
/// A container that was killed counts against the platform, since that is what a vanishing node looks like; one that
/// was killed for lack of memory or ended badly by itself counts against the task.
///
/// Mirrors `flytek8s.DeterminePrimaryContainerPhase`.
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
