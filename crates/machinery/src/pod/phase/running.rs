//! Running pods, and pods without a known phase.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use super::primary::{PRIMARY_CONTAINER_NOT_FOUND, primary_container_phase};
use super::succeeded::succeeded_phase;
use crate::{Phase, PhaseInfo, TaskInfo};

/// The phase of a task whose pod runs. If the pod has a primary container, the task ends with it; else the task ends
/// when all containers have ended.
pub(super) fn running_phase(pod: &Pod, status: &PodStatus, primary: Option<&str>, info: TaskInfo) -> PhaseInfo {
    // The first report of a running task may have had no logs. One with logs is news in the same phase.
    let has_logs = !info.logs.is_empty() || info.log_context.as_ref().is_some_and(|context| !context.pods.is_empty());
    let with_news = |phase: PhaseInfo| if has_logs { phase.with_news() } else { phase };

    let Some(primary) = primary else {
        if all_succeeded(status) {
            // The phase of the pod changes a moment later.
            return succeeded_phase(status, info);
        }
        return with_news(PhaseInfo::running(info));
    };
    let statuses = status.container_statuses.as_deref().unwrap_or_default();
    let phase = primary_container_phase(primary, statuses, info);
    if phase.phase() == Phase::Running {
        return with_news(phase);
    }
    let unknown = phase.error().is_some_and(|error| error.code == PRIMARY_CONTAINER_NOT_FOUND);
    let specified = pod.spec.as_ref().is_some_and(|spec| spec.containers.iter().any(|c| c.name == primary));
    if unknown && phase.phase() == Phase::PermanentFailure && specified {
        // The pod has this container; only its status has not been written yet.
        return match phase.into_info() {
            Some(info) => PhaseInfo::running(info),
            None => PhaseInfo::undefined(),
        };
    }
    phase
}

/// All containers in the status have ended without an error. Init containers count too, because a side-car is an init
/// container that keeps running.
fn all_succeeded(status: &PodStatus) -> bool {
    let unfinished = |container: &ContainerStatus| {
        container.state.as_ref().is_some_and(|state| {
            state.waiting.is_some()
                || state.running.is_some()
                || state.terminated.as_ref().is_some_and(|terminated| terminated.exit_code != 0)
        })
    };
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let init_containers = status.init_container_statuses.as_deref().unwrap_or_default();
    !containers.is_empty() && !containers.iter().chain(init_containers).any(unfinished)
}
