//! Calling a plugin: what it gets, and what protects the executor from it.

use std::panic::AssertUnwindSafe;

use aileron_action::TaskActionStatus;
use aileron_action::conditions::reason;
use aileron_machinery::{PluginError, StoredState};
use futures::FutureExt;
use jiff::Timestamp;

/// Calls a plugin. A panic becomes an error of this one task.
pub(super) async fn guarded<T>(call: impl Future<Output = Result<T, PluginError>>) -> Result<T, PluginError> {
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            metrics::counter!("aileron_plugin_panics_total").increment(1);
            Err(PluginError::uncoded(format!("plugin panicked: {}", text.as_deref().unwrap_or("no message"))))
        }
    }
}

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
    #![allow(clippy::panic)]

    use aileron_machinery::{PhaseInfo, TaskInfo};

    use super::*;

    #[tokio::test]
    async fn a_plugin_that_panics_fails_its_own_task_only() {
        let result: Result<(), _> = guarded(async { panic!("index {} is out of range", 7) }).await;
        assert_eq!(result.map_err(|error| error.to_string()), Err("plugin panicked: index 7 is out of range".into()));
        assert!(guarded(async { Ok(1) }).await.is_ok_and(|answer| answer == 1));
    }

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
