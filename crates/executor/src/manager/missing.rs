//! Tasks whose kind of object the cluster does not serve: they wait for it, at nobody's expense.

use aileron_action::plugin_choice::MissingKind;
use aileron_kubekit::KIND_NOT_SERVED;
use aileron_machinery::{Pending, PendingReason, Phase, PhaseInfo, PluginError, TaskContext};

use super::launch::Launched;
use super::waiting::waiting;
use super::{PluginManager, action_key};
use crate::manager::gob::PluginState;

impl PluginManager {
    /// Launches, unless the kind is known to be missing or the launch finds out.
    ///
    /// # Differs from upstream
    ///
    /// Upstream charges a missing kind to the platform, and fails the task after some tens of seconds.
    pub(super) async fn launch_if_served(
        &self,
        task: &TaskContext,
        before: &PluginState,
    ) -> Result<Launched, PluginError> {
        if self.objects.lacks(&self.plugin.kind()) {
            // Nobody behind it in line should wait for a task that cannot start.
            self.gate.leave(&action_key(task), task.now);
            return Ok((self.wait_for_kind(task, before), None));
        }
        if let Some(launched) = self.hold_tokens(task, before).await? {
            return Ok(launched);
        }
        match self.launch(task, before).await {
            Err(error) if error.code() == KIND_NOT_SERVED => Ok((self.wait_for_kind(task, before), None)),
            // The gate names what it lets a task wait for; the only other thing is an object that has to go first.
            Ok((phase, at)) if phase.phase() == Phase::WaitingForResources && phase.pending().is_none() => {
                Ok((phase.because(PendingReason::Terminating), at))
            }
            launched => launched,
        }
    }

    /// The phase of a task whose kind is missing. How long it may last is the reconciler's to say.
    pub(super) fn wait_for_kind(&self, task: &TaskContext, before: &PluginState) -> PhaseInfo {
        let reason = MissingKind(self.plugin.kind()).to_string();
        waiting(task, before, Pending::new(PendingReason::MissingKind, reason))
    }
}
