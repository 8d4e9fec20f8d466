//! The phase of a task that has to wait before its object is made.

use aileron_machinery::{Pending, Phase, PhaseInfo, TaskContext, TaskInfo};

use super::state::prior;
use crate::manager::gob::PluginState;

/// Waiting for this; the same as before if that is what the task waited for.
pub(super) fn waiting(task: &TaskContext, before: &PluginState, pending: Pending) -> PhaseInfo {
    let prior = prior(before);
    // Within one phase a version never goes back.
    let version = if prior.phase == Phase::WaitingForResources { prior.version } else { PhaseInfo::FIRST_VERSION };
    let Pending { reason, message } = pending;
    let phase = PhaseInfo::waiting_for_resources(version, message, TaskInfo::at(task.now)).because(reason);
    phase.newer_than(&prior)
}
