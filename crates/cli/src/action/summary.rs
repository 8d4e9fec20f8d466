//! A short description of an action, as lists, live tables and JSON output show it.

use std::time::Duration;

use aileron_action::conditions::{condition, reason};
use aileron_action::pending::PendingReason;
use aileron_action::{ACTION_TYPE_CONDITION, TaskAction, TaskActionStatus};
use aileron_idl::flyteidl2::core::TaskTemplate;
use jiff::Timestamp;
use kube::ResourceExt;
use prost::Message;
use serde_json::{Value, json};

use super::phase::{DisplayPhase, Outcome};
use super::plain_message::plain_message;
use crate::display::duration;

/// The executor's message for an attempt that follows a failed one.
const RESTARTING: &str = "restarting task";

/// What an action waits for, from its condition `Pending`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The reason code; `docs/running.md` lists all codes.
    pub code: String,
    /// The message for people.
    pub message: String,
    /// Since when the action waits for this.
    pub since: Timestamp,
}

/// A short description of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub namespace: String,
    pub name: String,
    pub run: String,
    pub action: String,
    pub task_type: String,
    pub phase: DisplayPhase,
    /// The current attempt, counted from 1; 0 before the first attempt.
    pub attempt: u32,
    /// The number of attempts that the task may have.
    pub max_attempts: u32,
    /// System failures since the attempt began.
    pub system_failures: u32,
    /// The code of the final error, else the reason code of what the action waits for.
    pub reason: String,
    /// The message that belongs to `reason`.
    pub message: String,
    /// The condition `Pending`, if it is true. It is also true for an action that nothing blocks and that only starts.
    pub pending: Option<Pending>,
    pub created: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

impl Pending {
    /// The code and the message, without the words of the message that repeat the code.
    fn short_text(&self) -> String {
        let word = format!("{} ", self.code.to_lowercase());
        let text = self.message.strip_prefix("waiting for ").unwrap_or(&self.message);
        let text = text.strip_prefix(&word).unwrap_or(text);
        if text.is_empty() { self.code.clone() } else { format!("{}: {text}", self.code) }
    }

    /// True if something blocks the action; false if it only starts or waits for the cache.
    fn is_blocked(&self) -> bool {
        ![PendingReason::Starting, PendingReason::Cache].iter().any(|reason| reason.as_str() == self.code)
    }

    fn from_status(status: &TaskActionStatus) -> Option<Self> {
        let pending = status.pending().filter(|_| !status.is_terminal())?;
        Some(Self {
            code: pending.reason.clone(),
            message: pending.message.clone(),
            since: pending.last_transition_time.0,
        })
    }
}

impl Summary {
    /// Reads the object.
    pub fn new(object: &TaskAction) -> Self {
        let status = object.status.clone().unwrap_or_default();
        let phase = phase(object);
        let ended = status.is_terminal();
        let pending = Pending::from_status(&status);
        let progressing = status.conditions.iter().find(|one| one.type_ == condition::PROGRESSING);
        let (reason, message) = match (&status.error_state, progressing) {
            (_, Some(now)) if phase == DisplayPhase::Aborting => {
                let phase_before = unfinished_phase(&status);
                let why = pending.as_ref().filter(|pending| pending.is_blocked()).map(Pending::short_text);
                (String::new(), text_before_abort(phase_before, &why.unwrap_or_else(|| now.message.clone())))
            }
            (Some(error), _) if ended && phase != DisplayPhase::Succeeded => {
                (error.code.clone(), error.message.clone())
            }
            (_, _) if phase == DisplayPhase::Succeeded => Default::default(),
            (_, _) if phase == DisplayPhase::Waiting && pending.is_some() => {
                pending.as_ref().map(|pending| (pending.code.clone(), pending.message.clone())).unwrap_or_default()
            }
            // A new attempt has no message of its own at first. Show why the attempt before it failed.
            (error, Some(now)) if !ended && ["", RESTARTING].contains(&now.message.as_str()) => {
                let failure = match error {
                    Some(error) => Some(with_code(&error.code, &error.message)),
                    None => last_failure(&status).map(str::to_owned),
                };
                let before = status.attempts.saturating_sub(1);
                let message = match failure {
                    Some(failure) => format!("attempt {before}: {failure}"),
                    None if now.message == RESTARTING => format!("attempt {before} failed"),
                    None => String::new(),
                };
                (String::new(), message)
            }
            (_, Some(now)) => {
                // These reasons only repeat the phase.
                let redundant = [reason::QUEUED, reason::EXECUTING, phase.as_str()];
                let reason = if redundant.contains(&now.reason.as_str()) { String::new() } else { now.reason.clone() };
                (reason, now.message.clone())
            }
            (_, None) => Default::default(),
        };
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            run: object.spec.run_name.clone(),
            action: object.spec.action_name.clone(),
            task_type: if object.spec.action_type == ACTION_TYPE_CONDITION {
                ACTION_TYPE_CONDITION.to_owned()
            } else {
                object.spec.task_type.clone()
            },
            phase,
            attempt: status.attempts,
            max_attempts: max_attempts(object),
            system_failures: status.system_failures,
            reason,
            message,
            pending,
            created: object.metadata.creation_timestamp.as_ref().map(|time| time.0),
            ended: status.ended_at(),
        }
    }

    /// The summary of the action after it was deleted. An action that had ended keeps its outcome.
    #[must_use]
    pub fn aborted(self, at: Timestamp) -> Self {
        if self.phase.outcome().is_some() {
            return self;
        }
        let ended = self.ended.or(Some(at));
        let message = if self.phase == DisplayPhase::Aborting {
            self.message.clone()
        } else {
            text_before_abort(self.phase, &self.explanation())
        };
        Self { phase: DisplayPhase::Aborted, reason: String::new(), message, pending: None, ended, ..self }
    }

    /// The current attempt and the number of attempts: `2/3`.
    pub fn attempts(&self) -> String {
        format!("{}/{}", self.attempt.max(u32::from(self.phase != DisplayPhase::Pending)), self.max_attempts)
    }

    /// Reason and message on one line, in plain English.
    pub fn explanation(&self) -> String {
        match &self.pending {
            Some(pending) if self.phase == DisplayPhase::Waiting => one_line(&pending.short_text()),
            _ => one_line(&plain_message(&with_code(&self.reason, &self.message))),
        }
    }

    /// The time from the creation of the action to its end, or to `now`.
    pub fn duration(&self, now: Timestamp) -> Duration {
        self.created.map(|created| duration::between(created, self.ended.unwrap_or(now))).unwrap_or_default()
    }

    /// The summary for other programs. The names and meanings of its fields never change.
    pub fn as_json(&self, now: Timestamp) -> Value {
        let text = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
        json!({
            "namespace": self.namespace,
            "name": self.name,
            "run": self.run,
            "action": self.action,
            "type": self.task_type,
            "phase": self.phase.as_str(),
            "outcome": self.phase.outcome().map(Outcome::as_str),
            "attempt": self.attempt,
            "maxAttempts": self.max_attempts,
            "systemFailures": self.system_failures,
            "reason": text(&self.reason),
            "message": text(&self.message),
            "pending": self.pending.as_ref().map(|pending| json!({
                "reason": pending.code, "message": text(&pending.message), "since": pending.since.to_string(),
            })),
            "created": self.created.map(|time| time.to_string()),
            "ended": self.ended.map(|time| time.to_string()),
            "seconds": self.duration(now).as_secs(),
        })
    }
}

/// `[code] message`.
pub fn with_code(code: &str, message: &str) -> String {
    match (code, message) {
        ("", message) => message.to_owned(),
        (code, "") => code.to_owned(),
        (code, message) => format!("[{code}] {message}"),
    }
}

/// The words of a text on one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The phase and the explanation of an action at the time of its abort.
fn text_before_abort(phase: DisplayPhase, explanation: &str) -> String {
    let colon = if explanation.is_empty() { "" } else { ": " };
    format!("was {}{colon}{explanation}", phase.as_str())
}

/// The message of the last failed attempt in the phase history, if another attempt followed.
fn last_failure(status: &TaskActionStatus) -> Option<&str> {
    let failed = status.phase_history.iter().rev().find(|line| line.phase == reason::RETRYABLE_FAILURE)?;
    Some(failed.message.as_str()).filter(|message| status.attempts > 1 && !message.is_empty())
}

fn phase(object: &TaskAction) -> DisplayPhase {
    let status = object.status.clone().unwrap_or_default();
    let is = |kind: &str| status.conditions.iter().any(|one| one.type_ == kind && one.status == "True");
    if is(condition::SUCCEEDED) {
        return DisplayPhase::Succeeded;
    }
    if let Some(failed) = status.conditions.iter().find(|one| one.type_ == condition::FAILED && one.status == "True") {
        return match failed.reason.as_str() {
            reason::TIMED_OUT => DisplayPhase::TimedOut,
            reason::ABORTED => DisplayPhase::Aborted,
            _ => DisplayPhase::Failed,
        };
    }
    if object.metadata.deletion_timestamp.is_some() {
        return DisplayPhase::Aborting;
    }
    unfinished_phase(&status)
}

/// The phase of an action that has not ended.
fn unfinished_phase(status: &TaskActionStatus) -> DisplayPhase {
    match status.plugin_phase.trim_start_matches("Phase") {
        "WaitingForResources" => return DisplayPhase::Waiting,
        "WaitingForCache" => return DisplayPhase::WaitingForCache,
        _ => {}
    }
    if Pending::from_status(status).is_some_and(|pending| pending.is_blocked()) {
        return DisplayPhase::Waiting;
    }
    let progressing = status.conditions.iter().find(|one| one.type_ == condition::PROGRESSING);
    match progressing.map(|one| one.reason.as_str()) {
        Some(reason::INITIALIZING) => DisplayPhase::Initializing,
        Some(reason::EXECUTING) => DisplayPhase::Running,
        Some(reason::RETRYABLE_FAILURE) => DisplayPhase::Retrying,
        Some(reason::PAUSED) => DisplayPhase::Paused,
        Some(_) => DisplayPhase::Queued,
        None => DisplayPhase::Pending,
    }
}

fn max_attempts(object: &TaskAction) -> u32 {
    let template = TaskTemplate::decode(object.spec.task_template.0.as_slice()).unwrap_or_default();
    let retries = template.metadata.and_then(|metadata| metadata.retries);
    retries.map_or(1, |retries| retries.retries.saturating_add(1))
}

#[cfg(test)]
mod tests;
