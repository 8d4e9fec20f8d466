//! What a plugin gets from the status of its action.

use aileron_action::TaskActionStatus;
use aileron_action::conditions::reason;
use aileron_machinery::StoredState;
use jiff::Timestamp;

/// The state that the plugin stored in an earlier round.
pub(super) fn stored_state(status: &TaskActionStatus) -> StoredState {
    StoredState { bytes: status.plugin_state.0.clone(), version: status.plugin_state_version }
}

/// When the action began to run, if it still runs.
pub(super) fn running_since(status: &TaskActionStatus) -> Option<Timestamp> {
    let last = status.phase_history.last()?;
    (last.phase == reason::EXECUTING).then_some(last.occurred_at.0)
}

#[cfg(test)]
mod tests {
    use aileron_machinery::{PhaseInfo, TaskInfo};

    use super::*;

    #[test]
    fn an_action_runs_since_its_last_history_entry_and_only_if_that_says_so() {
        let at = |second| Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(second);
        let mut status = TaskActionStatus::default();
        assert_eq!(running_since(&status), None);
        status.show_phase(&PhaseInfo::running(TaskInfo::at(at(5))), at(5));
        status.show_phase(&PhaseInfo::running(TaskInfo::at(at(9))).with_version(1), at(9));
        assert_eq!(running_since(&status), Some(at(5)));
        status.show_phase(&PhaseInfo::queued("", TaskInfo::at(at(10))), at(10));
        assert_eq!(running_since(&status), None);
    }
}
