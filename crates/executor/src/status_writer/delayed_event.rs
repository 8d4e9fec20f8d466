//! Tells users why the status of an action does not change while the events service does not accept its event.
//!
//! No status is written before its event is accepted. Without this notice, an action whose pod has succeeded would show its
//! old phase and no reason for as long as the events service is away.

use std::time::Duration;

use aileron_action::{Action, TaskActionStatus};
use aileron_idl::flyteidl2::workflow::ActionEvent;
use aileron_machinery::{ActionKey, Pending, PendingReason};
use jiff::Timestamp;

use super::StatusWriter;
use crate::caches::held_status::Written;
use crate::caches::version;
use crate::services::connect::ConnectError;
use crate::services::events::EventError;

/// How long the events service may take before the status says that the action waits for it. A call takes milliseconds, and
/// a restart of the service a few seconds; a notice costs one write per action.
pub(super) const NOTICE_AFTER: Duration = Duration::from_secs(5);

/// The fixed beginning of the message.
const SENTENCE: &str = "waiting for the events service to accept the last event of this action";

impl StatusWriter {
    /// Records events. If that takes long, the status and the log say that the action waits for it. Returns the status as it was
    /// written then.
    pub(super) async fn record_and_tell(
        &self,
        action: &Action,
        events: Vec<ActionEvent>,
    ) -> (Result<(), EventError>, Option<Written>) {
        let mut recording = std::pin::pin!(self.events.record_all(events));
        tokio::select! {
            biased;
            recorded = &mut recording => return (recorded, None),
            () = tokio::time::sleep(NOTICE_AFTER) => {}
        }
        let shown = self.show_delay(action).await;
        (recording.await, shown)
    }

    /// Writes that the action waits for the events service. A failure is only logged: the events service is what matters.
    async fn show_delay(&self, action: &Action) -> Option<Written> {
        let error = self.events.last_error();
        let notice = with_notice(&action.status(), error.as_ref(), self.clock.now())?;
        let error = error.map(|error| error.to_string());
        tracing::warn!(
            error,
            "the events service has not accepted the event of this action; its status is not written yet"
        );
        let key = ActionKey::of(&action.object.metadata);
        let slot = self.actions.write_slot().await.ok()?;
        let seen = Written::new(self.written_status(&key, action), version(&action.object.metadata));
        match self.send(&key, &seen, &notice, &slot).await {
            Ok(metadata) => metadata.map(|metadata| Written::new(notice, version(&metadata))),
            Err(error) => {
                tracing::warn!(%error, "failed to write that the action waits for the events service");
                None
            }
        }
    }
}

/// The status with the reason of the delay; `None` if it has the reason already. Details differ from try to try, so the first
/// ones stay, and the status is written once per outage.
fn with_notice(before: &TaskActionStatus, error: Option<&ConnectError>, now: Timestamp) -> Option<TaskActionStatus> {
    if before.pending().is_some_and(|shown| shown.message.starts_with(SENTENCE)) {
        return None;
    }
    let message = match error {
        Some(error) => format!("{SENTENCE}: {error}"),
        None => format!("{SENTENCE}: no answer within {} s", NOTICE_AFTER.as_secs()),
    };
    let mut status = before.clone();
    status.show_pending(Some(&Pending::new(PendingReason::Events, message)), now);
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::connect::Code;

    #[test]
    fn the_reason_is_told_once_per_outage() {
        let refused = ConnectError::new(Code::Unavailable, "http://events:8090/: connection refused");
        let first =
            with_notice(&TaskActionStatus::default(), Some(&refused), Timestamp::UNIX_EPOCH).unwrap_or_default();
        let shown = first.pending().map(|shown| (shown.reason.as_str(), shown.message.as_str()));
        let message = "waiting for the events service to accept the last event of this action: unavailable: \
                       http://events:8090/: connection refused";
        assert_eq!(shown, Some(("Events", message)));
        assert_eq!(with_notice(&first, None, Timestamp::UNIX_EPOCH), None);
    }
}
