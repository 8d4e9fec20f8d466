//! Telling others: the event first, durably, and then the status in one write.
//!
//! The order matters: the control plane takes the phase of a run from the status but its outputs and errors from
//! events, so a status that came first would show an end without its result.

use aileron_action::events::{action_event, cache_status};
use aileron_action::labels;
use aileron_action::{Action, TaskActionStatus};
use aileron_machinery::PhaseInfo;
use aileron_machinery::error_text::innermost;
use jiff::Timestamp;
use serde_json::json;

use super::{ReconcileError, Reconciler};
use crate::cluster::Urgency;
use crate::services::events::EventError;

/// Something changed that others should hear of. What an action waits for is shown in its status alone.
fn is_news(before: &TaskActionStatus, after: &TaskActionStatus) -> bool {
    let told = |status: &TaskActionStatus| {
        let mut status = status.clone();
        status.show_pending(None, Timestamp::UNIX_EPOCH);
        status
    };
    status_changed(&told(before), &told(after))
}

/// Something changed that is worth a write. What is only for people (`stateJson`) does not count.
pub fn status_changed(before: &TaskActionStatus, after: &TaskActionStatus) -> bool {
    before.plugin_state_version != after.plugin_state_version
        || before.plugin_phase != after.plugin_phase
        || before.plugin_phase_version != after.plugin_phase_version
        || before.attempts != after.attempts
        || before.system_failures != after.system_failures
        || before.cache_status != after.cache_status
        || before.plugin_state != after.plugin_state
        || before.phase_history.len() != after.phase_history.len()
        || before.conditions != after.conditions
}

impl Reconciler {
    /// Puts a phase into a status: conditions, history, summary, phase, attempt, cache.
    pub(super) fn show(&self, action: &Action, status: &mut TaskActionStatus, phase: &PhaseInfo, now: Timestamp) {
        self.show_phase(action, status, phase, now);
        status.state_json = state_json(action, phase, now);
        status.plugin_phase = phase.phase().as_str().into();
        status.plugin_phase_version = phase.version();
        status.attempts = status.observed_attempt();
        status.cache_status = cache_status(phase.info()).into();
    }

    /// Records an event; an action whose event cannot be recorded says so where people look.
    pub(super) async fn report(
        &self,
        action: &Action,
        status: &TaskActionStatus,
        phase: &PhaseInfo,
    ) -> Result<(), ReconcileError> {
        self.report_all(action, &[(status, phase)]).await
    }

    /// Records events that belong together.
    pub(super) async fn report_all(
        &self,
        action: &Action,
        steps: &[(&TaskActionStatus, &PhaseInfo)],
    ) -> Result<(), ReconcileError> {
        let now = self.clock.now();
        let event = |(status, phase): &(&_, &_)| action_event(action, status, phase, &self.settings.cluster, now);
        if let Err(error) = self.events.record_all(steps.iter().map(event).collect()).await {
            let name = &action.object.spec.action_name;
            let note = format!("Failed to persist action event {name:?}: {}", innermost(&error));
            self.actions.warn(&action.object, "ActionEventPublishFailed", "PublishingActionEvent", &note).await;
            return unless_refused(error);
        }
        Ok(())
    }

    /// Event, then status; nothing at all if nothing changed. Terminal actions get their labels too.
    pub(super) async fn record(
        &self,
        action: &Action,
        status: &TaskActionStatus,
        phase: &PhaseInfo,
    ) -> Result<(), ReconcileError> {
        let before = action.status();
        if status_changed(&before, status) {
            if is_news(&before, status) {
                self.report(action, status, phase).await?;
            }
            let urgency = if status.is_terminal() { Urgency::Immediate } else { Urgency::Intermediate };
            self.actions.write_status(action, status, urgency).await?;
        }
        if status.is_terminal() {
            self.label_terminal(action, status).await?;
        }
        Ok(())
    }

    /// Labels an action that has ended, so that the garbage collector finds it and caches can leave it out.
    pub(super) async fn label_terminal(
        &self,
        action: &Action,
        status: &TaskActionStatus,
    ) -> Result<(), ReconcileError> {
        if labels::are_terminal(action.object.metadata.labels.as_ref()) {
            return Ok(());
        }
        let ended = status.ended_at().unwrap_or_else(|| self.clock.now());
        let completed = labels::completed_time(ended);
        let labels = [(labels::TERMINATION_STATUS, labels::TERMINATED), (labels::COMPLETED_TIME, &completed)];
        Ok(self.actions.add_labels(action, &labels).await?)
    }
}

/// An event that the service refuses for what it is would be refused again; the action goes on without it rather than
/// never.
pub(super) fn unless_refused(error: EventError) -> Result<(), ReconcileError> {
    match error {
        EventError::Invalid(_) | EventError::Rejected(_) => {
            tracing::error!(error = innermost(&error), "the events service will never take this event; going on");
            Ok(())
        }
        EventError::GaveUp { .. } | EventError::Closed => Err(error.into()),
    }
}

/// A summary for people who read the object.
fn state_json(action: &Action, phase: &PhaseInfo, now: Timestamp) -> String {
    let spec = &action.object.spec;
    json!({
        "phase": phase.phase().as_str(),
        "actionId": format!("{}/{}", spec.run_name, spec.action_name),
        "timestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
    .to_string()
}
