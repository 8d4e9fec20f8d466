//! Conditions and history: how the phase of an action is shown to the control plane and to users.

use aileron_machinery::{ErrorKind, ExecutionError, Phase, PhaseInfo};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{ErrorState, PhaseTransition, TaskActionStatus};
use crate::pending::{self, Pending};
use crate::shorten::{CONDITION_MESSAGE, ERROR_CODE, ERROR_MESSAGE, HISTORY_MESSAGE, append, shortened};

/// Condition types. The control plane reads the phase of an action from these and from nothing else.
pub mod condition {
    /// The action has not ended.
    pub const PROGRESSING: &str = "Progressing";
    /// The action succeeded.
    pub const SUCCEEDED: &str = "Succeeded";
    /// The action failed.
    pub const FAILED: &str = "Failed";
}

/// Condition reasons, which are also the names of phases in the history.
pub mod reason {
    /// The action waits to start.
    pub const QUEUED: &str = "Queued";
    /// The object of the attempt is being prepared.
    pub const INITIALIZING: &str = "Initializing";
    /// The task runs.
    pub const EXECUTING: &str = "Executing";
    /// The task succeeded.
    pub const COMPLETED: &str = "Completed";
    /// The attempt failed. Another attempt may follow.
    pub const RETRYABLE_FAILURE: &str = "RetryableFailure";
    /// The task failed. No other attempt follows.
    pub const PERMANENT_FAILURE: &str = "PermanentFailure";
    /// The task was stopped on request.
    pub const ABORTED: &str = "Aborted";
    /// No plugin serves the task type.
    pub const PLUGIN_NOT_FOUND: &str = "PluginNotFound";
    /// The specification of the action is invalid.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// A condition action waits for its signal.
    pub const PAUSED: &str = "Paused";
    /// A condition action got its signal.
    pub const SIGNALED: &str = "Signaled";
    /// A condition action got no signal in time, or a task exceeded a time limit.
    pub const TIMED_OUT: &str = "TimedOut";
}

/// A time without the fraction of the second. Kubernetes stores no fractions, so a finer time would come back different
/// from what was written.
pub fn object_time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

impl TaskActionStatus {
    /// Adds or replaces the condition of this type. Its transition time changes only with its status.
    pub fn set_condition(&mut self, kind: &str, status: bool, reason: &str, message: &str, now: Timestamp) {
        let status = if status { "True" } else { "False" };
        let message = shortened(message, CONDITION_MESSAGE);
        match self.conditions.iter_mut().find(|condition| condition.type_ == kind) {
            Some(condition) => {
                if condition.status != status {
                    condition.status = status.into();
                    condition.last_transition_time = object_time(now);
                }
                condition.reason = reason.into();
                condition.message = message.into_owned();
            }
            None => self.conditions.push(Condition {
                type_: kind.into(),
                status: status.into(),
                reason: reason.into(),
                message: message.into_owned(),
                last_transition_time: object_time(now),
                observed_generation: None,
            }),
        }
    }

    /// Adds, replaces or removes the condition that tells what the action waits for. The transition time of this condition
    /// changes with its reason: it says since when the action waits for that.
    pub fn show_pending(&mut self, pending: Option<&Pending>, now: Timestamp) {
        let Some(pending) = pending else {
            self.conditions.retain(|condition| condition.type_ != pending::CONDITION);
            return;
        };
        if self.pending().is_some_and(|condition| condition.reason != pending.reason.as_str()) {
            self.conditions.retain(|condition| condition.type_ != pending::CONDITION);
        }
        self.set_condition(pending::CONDITION, true, pending.reason.as_str(), &pending.message, now);
    }

    /// The condition that tells what the action waits for.
    pub fn pending(&self) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == pending::CONDITION)
    }

    /// Appends to the history, unless its last entry has the same phase.
    pub fn append_history(&mut self, phase: &str, message: &str, now: Timestamp) {
        if self.phase_history.last().is_none_or(|last| last.phase != phase) {
            self.begin_history(phase, message, now);
        }
    }

    /// Appends to the history, also if its last entry has the same phase.
    pub fn begin_history(&mut self, phase: &str, message: &str, now: Timestamp) {
        let message = shortened(message, HISTORY_MESSAGE).into_owned();
        append(
            &mut self.phase_history,
            PhaseTransition { phase: phase.into(), occurred_at: object_time(now), message },
        );
    }

    /// Shows a plugin's phase in conditions, history and error state.
    pub fn show_phase(&mut self, info: &PhaseInfo, now: Timestamp) {
        let error = info.error();
        let message = error.map_or_else(|| info.reason(), |error| error.message.as_str()).to_owned();
        if let Some(error) = error {
            self.error_state = Some(ErrorState::from(error));
        }
        let (phase, message) = match info.phase() {
            Phase::Undefined => return,
            Phase::NotReady | Phase::Queued | Phase::WaitingForResources | Phase::WaitingForCache => {
                self.set_condition(condition::PROGRESSING, true, reason::QUEUED, &message, now);
                (reason::QUEUED, message)
            }
            Phase::Initializing => {
                self.set_condition(condition::PROGRESSING, true, reason::INITIALIZING, &message, now);
                (reason::INITIALIZING, message)
            }
            Phase::Running => {
                self.set_condition(condition::PROGRESSING, true, reason::EXECUTING, &message, now);
                (reason::EXECUTING, message)
            }
            Phase::Success => {
                let message = "TaskAction completed successfully";
                self.set_condition(condition::PROGRESSING, false, reason::COMPLETED, "TaskAction has completed", now);
                self.set_condition(condition::SUCCEEDED, true, reason::COMPLETED, message, now);
                (reason::COMPLETED, message.to_owned())
            }
            Phase::PermanentFailure => {
                let why = if info.is_out_of_time() { reason::TIMED_OUT } else { reason::PERMANENT_FAILURE };
                self.set_condition(condition::PROGRESSING, false, why, &message, now);
                self.set_condition(condition::FAILED, true, why, &message, now);
                (why, message)
            }
            Phase::RetryableFailure => {
                self.set_condition(condition::PROGRESSING, true, reason::RETRYABLE_FAILURE, &message, now);
                (reason::RETRYABLE_FAILURE, message)
            }
            Phase::Aborted => {
                let message = "TaskAction was aborted";
                self.set_condition(condition::PROGRESSING, false, reason::ABORTED, message, now);
                self.set_condition(condition::FAILED, true, reason::ABORTED, message, now);
                (reason::ABORTED, message.to_owned())
            }
        };
        self.append_history(phase, &message, now);
        self.show_pending(pending::explain(info, &[], &[]).as_ref(), now);
    }

    /// The action has ended.
    pub fn is_terminal(&self) -> bool {
        self.terminal_condition().is_some()
    }

    /// When the action ended.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.terminal_condition().map(|condition| condition.last_transition_time.0)
    }

    fn terminal_condition(&self) -> Option<&Condition> {
        self.conditions.iter().find(|condition| {
            condition.status == "True" && [condition::SUCCEEDED, condition::FAILED].contains(&condition.type_.as_str())
        })
    }
}

impl From<&ExecutionError> for ErrorState {
    fn from(error: &ExecutionError) -> Self {
        Self::new(&error.code, error.kind, &error.message)
    }
}

impl ErrorState {
    /// An error of the task itself.
    pub fn user(code: &str, message: &str) -> Self {
        Self::new(code, ErrorKind::User, message)
    }

    fn new(code: &str, kind: ErrorKind, message: &str) -> Self {
        Self {
            code: shortened(code, ERROR_CODE).into_owned(),
            kind: kind.as_str().into(),
            message: shortened(message, ERROR_MESSAGE).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use aileron_machinery::TaskInfo;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(second)
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let mut status = TaskActionStatus::default();
        status.show_phase(&PhaseInfo::queued("q", TaskInfo::at(at(1))), at(1));
        status.show_phase(&PhaseInfo::running(TaskInfo::at(at(2))), at(2));
        assert_eq!(status.conditions.len(), 1, "it waits for nothing any more");
        assert_eq!(status.conditions[0].reason, "Executing");
        assert_eq!(status.conditions[0].last_transition_time.0, at(1));
        status.show_phase(&PhaseInfo::success(TaskInfo::at(at(3))), at(3));
        assert_eq!(status.conditions[0].last_transition_time.0, at(3));
        assert_eq!(status.ended_at(), Some(at(3)));
        let phases: Vec<_> = status.phase_history.iter().map(|entry| entry.phase.as_str()).collect();
        assert_eq!(phases, ["Queued", "Executing", "Completed"]);
    }

    #[test]
    fn the_pending_condition_has_a_time_for_each_reason_and_is_removed_at_the_end() {
        use crate::pending::PendingReason::{MissingKind, Quota};
        let mut status = TaskActionStatus::default();
        let waiting = |words: &str| PhaseInfo::waiting_for_resources(words, TaskInfo::at(at(1)));
        let shown = |status: &TaskActionStatus| {
            status.pending().map(|it| (it.reason.clone(), it.message.clone(), it.last_transition_time.0))
        };
        status.show_phase(&waiting("full").because(Quota), at(1));
        status.show_phase(&waiting("fuller").because(Quota), at(2));
        assert_eq!(shown(&status), Some(("Quota".into(), "fuller".into(), at(1))));
        status.show_phase(&waiting("no such kind").because(MissingKind), at(3));
        assert_eq!(shown(&status), Some(("MissingKind".into(), "no such kind".into(), at(3))));
        assert_eq!(status.conditions.len(), 2);
        assert_eq!(status.conditions[0].type_, condition::PROGRESSING, "the control plane's condition stays in front");
        status.show_phase(&PhaseInfo::success(TaskInfo::at(at(4))), at(4));
        assert_eq!(shown(&status), None);
    }

    #[test]
    fn a_repeated_phase_is_one_entry_of_the_history() {
        let mut status = TaskActionStatus::default();
        status.append_history("Queued", "a", at(1));
        status.append_history("Queued", "b", at(2));
        assert_eq!(status.phase_history.len(), 1);
        assert_eq!(status.phase_history[0].message, "a");
    }
}
