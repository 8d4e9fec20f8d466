//! Which plugin took an action, where that does not go without saying.

use aileron_action::{Action, TaskActionStatus};
use aileron_machinery::PhaseInfo;
use jiff::Timestamp;

use super::Reconciler;
use crate::registry::Why;

/// Type of the condition. The control plane reads other types only.
pub const PLUGIN_CHOSEN: &str = "PluginChosen";

impl Reconciler {
    /// Shows a phase; with the first one also who took the action.
    pub(super) fn show_phase(&self, action: &Action, status: &mut TaskActionStatus, phase: &PhaseInfo, now: Timestamp) {
        let is_first = status.phase_history.is_empty();
        status.show_phase(phase, now);
        if is_first {
            self.show_choice(action, status, now);
        }
    }

    /// Says why this plugin took the action, unless it declares the task type. The condition rides on the first write of
    /// the status, so it costs no request.
    ///
    /// # Differs from upstream
    ///
    /// Upstream hands an unknown task type to the default plugin without a word.
    fn show_choice(&self, action: &Action, status: &mut TaskActionStatus, now: Timestamp) {
        let spec = &action.object.spec;
        let Ok((plugin, why)) = self.registry.resolve(spec) else { return };
        let reason = match why {
            Why::Declared => return,
            Why::ForType => "DefaultForTaskType",
            Why::Override(_) => "Override",
            Why::Default => "UnknownTaskType",
        };
        let message = format!("plugin {:?} takes task type {:?}: {why}", plugin.entry().id, spec.task_type);
        status.set_condition(PLUGIN_CHOSEN, true, reason, &message, now);
    }
}
