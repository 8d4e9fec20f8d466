//! Actions that wait for a signal: no plugin, no object, no finalizer, no event.

use aileron_action::conditions::{condition, reason};
use aileron_action::{Action, ErrorState, TaskActionStatus};
use aileron_idl::flyteidl2::workflow::ConditionAction;
use jiff::{SignedDuration, Timestamp};
use prost::Message;

use super::limits::positive;
use super::{ReconcileError, Reconciler, Wake};
use crate::cluster::Urgency;

/// Code of a condition that waited too long; clients know it.
const TIMED_OUT_CODE: &str = "ConditionTimedOut";

/// The specification of a condition cannot be read.
#[derive(Debug, thiserror::Error)]
enum ConditionError {
    #[error("condition action {0:?} has empty conditionSpec")]
    Empty(String),
    /// Readers of statuses know these words, so the decoder's own are kept as the source only.
    #[error("failed to unmarshal conditionSpec: proto: cannot parse invalid wire-format data")]
    Unreadable(#[from] prost::DecodeError),
}

impl Reconciler {
    /// Signalled, too late, or still waiting.
    pub(super) async fn condition(&self, action: &Action) -> Result<Wake, ReconcileError> {
        let now = self.clock.now();
        let before = action.status();
        let mut status = before.clone();
        let wake = decide(action, &mut status, now);
        if super::status_changed(&before, &status) {
            self.actions.write_status(action, &status, Urgency::Immediate).await?;
        }
        if status.is_terminal() {
            self.label_terminal(action, &status).await?;
        }
        Ok(wake)
    }
}

fn decide(action: &Action, status: &mut TaskActionStatus, now: Timestamp) -> Wake {
    if !status.signal_value.0.is_empty() {
        let message = format!("condition signalled by {:?}", status.signalled_by);
        status.set_condition(condition::PROGRESSING, false, reason::SIGNALED, &message, now);
        status.set_condition(condition::SUCCEEDED, true, reason::SIGNALED, &message, now);
        status.append_history(reason::SIGNALED, &message, now);
        return Wake::Never;
    }
    let created = action.object.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let deadline = match timeout(action) {
        Ok(timeout) => timeout.and_then(|timeout| created.checked_add(timeout).ok()),
        Err(error) => {
            let message = error.to_string();
            fail(status, reason::INVALID_SPEC, reason::INVALID_SPEC, &message, now);
            return Wake::Never;
        }
    };
    if deadline.is_some_and(|deadline| now >= deadline) {
        let waited = rounded_seconds(now.duration_since(created));
        let message = format!("condition timed out after {waited} without a signal");
        fail(status, reason::TIMED_OUT, TIMED_OUT_CODE, &message, now);
        status.append_history(reason::TIMED_OUT, &message, now);
        return Wake::Never;
    }
    let message = "waiting for signal";
    status.set_condition(condition::PROGRESSING, true, reason::PAUSED, message, now);
    status.append_history(reason::PAUSED, message, now);
    deadline.map_or(Wake::Never, Wake::At)
}

fn fail(status: &mut TaskActionStatus, reason: &str, code: &str, message: &str, now: Timestamp) {
    status.set_condition(condition::PROGRESSING, false, reason, message, now);
    status.set_condition(condition::FAILED, true, reason, message, now);
    status.error_state = Some(ErrorState::user(code, message));
}

fn timeout(action: &Action) -> Result<Option<SignedDuration>, ConditionError> {
    let bytes = &action.object.spec.condition_spec.0;
    if bytes.is_empty() {
        return Err(ConditionError::Empty(action.name().into()));
    }
    let spec = ConditionAction::decode(bytes.as_slice())?;
    Ok(positive(spec.timeout.as_ref()))
}

/// As Go prints a duration rounded to seconds.
fn rounded_seconds(duration: SignedDuration) -> aileron_kubekit::duration::GoDuration {
    let half = SignedDuration::from_millis(500);
    let seconds = (duration + half).as_secs();
    aileron_kubekit::duration::GoDuration::from_nanos(seconds.saturating_mul(1_000_000_000))
}
