//! Services that a task needs do not work for a while: no task fails because of it, no attempt is used, and tasks go on
//! afterwards.

mod api_server;
mod cache_service;
mod events_service;
mod object_store;

use aileron_action::TaskAction;
use aileron_parity::suite::StatusView;

/// Checks that the outage cost the task nothing.
fn check_unharmed(action: &TaskAction) {
    let (status, outcome) = (action.status_or_default(), action.outcome().map(|outcome| outcome.0));
    assert_eq!(
        (outcome.as_deref(), status.attempts, status.system_failures, action.pending()),
        (Some("Succeeded"), 1, 0, None),
        "{}: {}",
        action.metadata.name.as_deref().unwrap_or_default(),
        action.summary()
    );
}

fn is_executing(action: &TaskAction) -> bool {
    action.reason() == "Executing"
}
