//! Condition actions: they wait for a signal, and have no plugin, no object, no finalizer and no event.

use aileron_action::conditions::{condition, reason};
use aileron_action::{Action, ErrorState, TaskActionStatus};
use aileron_idl::flyteidl2::workflow::ConditionAction;
use aileron_kubekit::duration::GoDuration;
use jiff::{SignedDuration, Timestamp};
use prost::Message;

use super::limits::positive;
use super::{ReconcileError, Reconciler, Wake};

/// Code of a condition that waited too long. Clients know it.
const TIMED_OUT_CODE: &str = "ConditionTimedOut";

/// What a round does with a condition action.
#[derive(Clone, Debug, PartialEq)]
struct ConditionDecision {
    /// The status to be recorded, if it changed.
    status: TaskActionStatus,
    /// When the next round is due.
    wake: Wake,
}

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
    /// One round of a condition action.
    pub(super) async fn reconcile_condition(&self, action: &Action) -> Result<Wake, ReconcileError> {
        let ConditionDecision { status, wake } = decide_condition(action, self.clock.now());
        self.statuses.record_without_event(action, &status).await?;
        Ok(wake)
    }
}

/// A signal ends the condition, even if it arrived after the timeout; else the timeout ends it.
fn decide_condition(action: &Action, now: Timestamp) -> ConditionDecision {
    let mut status = action.status();
    let wake = wait_for_signal(action, &mut status, now);
    ConditionDecision { status, wake }
}

fn wait_for_signal(action: &Action, status: &mut TaskActionStatus, now: Timestamp) -> Wake {
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
            show_failure(status, reason::INVALID_SPEC, reason::INVALID_SPEC, &message, now);
            return Wake::Never;
        }
    };
    if deadline.is_some_and(|deadline| now >= deadline) {
        let waited = rounded_to_seconds(now.duration_since(created));
        let message = format!("condition timed out after {waited} without a signal");
        show_failure(status, reason::TIMED_OUT, TIMED_OUT_CODE, &message, now);
        status.append_history(reason::TIMED_OUT, &message, now);
        return Wake::Never;
    }
    let message = "waiting for signal";
    status.set_condition(condition::PROGRESSING, true, reason::PAUSED, message, now);
    status.append_history(reason::PAUSED, message, now);
    deadline.map_or(Wake::Never, Wake::At)
}

fn show_failure(status: &mut TaskActionStatus, reason: &str, code: &str, message: &str, now: Timestamp) {
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
fn rounded_to_seconds(duration: SignedDuration) -> GoDuration {
    let half = SignedDuration::from_millis(500);
    GoDuration::from_secs((duration + half).as_secs())
}

#[cfg(test)]
mod tests {
    use aileron_action::TaskAction;
    use k8s_openapi::ByteString;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    /// A condition that was created at second 100 and times out after so many seconds, 0 for never.
    fn action(timeout: i64, status: TaskActionStatus) -> Action {
        let timeout = Some(prost_types::Duration { seconds: timeout, nanos: 0 });
        let spec = ConditionAction { name: "c".into(), timeout, ..ConditionAction::default() };
        let mut object = TaskAction::new("c", Default::default());
        object.spec.condition_spec = ByteString(spec.encode_to_vec());
        object.metadata.creation_timestamp = Some(Time(at(100)));
        object.status = Some(status);
        Action::new(object, None)
    }

    fn reasons(status: &TaskActionStatus) -> Vec<(&str, &str, &str)> {
        let shown = status.conditions.iter();
        shown.map(|it| (it.type_.as_str(), it.status.as_str(), it.reason.as_str())).collect()
    }

    #[test]
    fn a_condition_waits_until_its_timeout_or_without_one_for_the_signal() {
        let decision = decide_condition(&action(60, TaskActionStatus::default()), at(159));
        assert_eq!(decision.wake, Wake::At(at(160)));
        assert_eq!(reasons(&decision.status), [("Progressing", "True", "Paused")]);
        assert_eq!(decide_condition(&action(0, TaskActionStatus::default()), at(9999)).wake, Wake::Never);
        let again = decide_condition(&action(60, decision.status.clone()), at(159));
        assert_eq!(again, decision, "a second round changes nothing");
    }

    #[test]
    fn a_signal_ends_it_well_even_after_the_timeout() {
        let signal = ByteString(b"yes".to_vec());
        let status = TaskActionStatus { signal_value: signal, signalled_by: "ada".into(), ..Default::default() };
        let ConditionDecision { status, wake } = decide_condition(&action(60, status), at(9999));
        assert_eq!(wake, Wake::Never);
        assert_eq!(reasons(&status), [("Progressing", "False", "Signaled"), ("Succeeded", "True", "Signaled")]);
        assert!(status.is_terminal() && status.conditions[0].message.contains("\"ada\""));
    }

    #[test]
    fn the_timeout_fails_it() {
        let ConditionDecision { status, wake } = decide_condition(&action(60, TaskActionStatus::default()), at(160));
        assert_eq!((wake, status.is_terminal()), (Wake::Never, true));
        assert_eq!(reasons(&status)[1], ("Failed", "True", "TimedOut"));
        let error = status.error_state.unwrap_or_default();
        assert_eq!(error.code, "ConditionTimedOut");
        assert_eq!(error.message, "condition timed out after 1m0s without a signal");
    }

    #[test]
    fn a_specification_that_cannot_be_read_fails_it() {
        for (spec, words) in [(&b""[..], "empty conditionSpec"), (&b"\xff"[..], "failed to unmarshal conditionSpec")] {
            let mut broken = action(60, TaskActionStatus::default());
            broken.object.spec.condition_spec = ByteString(spec.to_vec());
            let ConditionDecision { status, wake } = decide_condition(&broken, at(101));
            assert_eq!((wake, status.is_terminal()), (Wake::Never, true));
            let error = status.error_state.unwrap_or_default();
            assert_eq!(error.code, "InvalidSpec");
            assert!(error.message.contains(words), "{}", error.message);
        }
    }
}
