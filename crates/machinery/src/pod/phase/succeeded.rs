//! Pods with the phase `Succeeded`.

use k8s_openapi::api::core::v1::PodStatus;

use super::{OOM_KILLED, all_containers, is_oom_killed};
use crate::{ExecutionError, PhaseInfo, TaskInfo};

/// Success, unless a container was killed for its use of memory. A pod can have both if the killed process was not the
/// first process of its container.
///
/// Mirrors `flytek8s.DemystifySuccess`.
///
/// ```
/// use aileron_machinery::k8s_openapi::api::core::v1::PodStatus;
/// use aileron_machinery::pod::phase::succeeded_phase;
/// use aileron_machinery::{Phase, TaskInfo};
///
/// let status = PodStatus { phase: Some("Succeeded".into()), ..PodStatus::default() };
/// assert_eq!(succeeded_phase(&status, TaskInfo::at(Default::default())).phase(), Phase::Success);
/// ```
pub fn succeeded_phase(status: &PodStatus, info: TaskInfo) -> PhaseInfo {
    let oom_killed =
        all_containers(status).filter_map(|container| container.state.as_ref()?.terminated.as_ref()).any(is_oom_killed);
    if oom_killed {
        let error = ExecutionError::user(OOM_KILLED, "Pod reported success despite being OOMKilled");
        return PhaseInfo::retryable_failure(error, info);
    }
    PhaseInfo::success(info)
}
