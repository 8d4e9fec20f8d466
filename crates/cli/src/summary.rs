//! An action in a few words: what lists, live tables and other programs show of it.

mod phase;
mod plain;

use std::time::Duration;

use aileron_action::conditions::{condition, reason};
use aileron_action::pending::PendingReason;
use aileron_action::{ACTION_TYPE_CONDITION, TaskAction, TaskActionStatus};
use aileron_idl::flyteidl2::core::TaskTemplate;
use jiff::Timestamp;
use kube::ResourceExt;
use prost::Message;
use serde_json::{Value, json};

use crate::span;

pub use phase::{Outcome, Phase, spelled};
pub use plain::plain;

/// What the executor says of an attempt that follows another.
const RESTARTING: &str = "restarting task";

/// What an action waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// One code out of a few, see `docs/running.md`.
    pub code: String,
    /// A sentence about it.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
}

/// An action in a few words.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub namespace: String,
    pub name: String,
    pub run: String,
    pub action: String,
    pub task_type: String,
    pub phase: Phase,
    /// The current attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// How many attempts there may be.
    pub max_attempts: u32,
    /// Failures charged to the platform since the attempt began.
    pub system_failures: u32,
    /// Code of the error that ended it, else of what it waits for.
    pub reason: String,
    /// What a person should know about that.
    pub message: String,
    /// What it waits for, if it does; also when nothing is in its way.
    pub pending: Option<Waits>,
    pub created: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

impl Waits {
    /// The code, and the sentence without what the code says already.
    fn short(&self) -> String {
        let word = format!("{} ", self.code.to_lowercase());
        let text = self.message.strip_prefix("waiting for ").unwrap_or(&self.message);
        let text = text.strip_prefix(&word).unwrap_or(text);
        if text.is_empty() { self.code.clone() } else { format!("{}: {text}", self.code) }
    }

    /// Something is in its way.
    fn is_held_up(&self) -> bool {
        ![PendingReason::Starting, PendingReason::Cache].iter().any(|harmless| harmless.as_str() == self.code)
    }

    fn of(status: &TaskActionStatus) -> Option<Self> {
        let pending = status.pending().filter(|_| !status.is_terminal())?;
        Some(Self {
            code: pending.reason.clone(),
            message: pending.message.clone(),
            since: pending.last_transition_time.0,
        })
    }
}

impl Summary {
    /// What the object says.
    pub fn new(object: &TaskAction) -> Self {
        let status = object.status.clone().unwrap_or_default();
        let phase = phase(object);
        let ended = status.is_terminal();
        let pending = Waits::of(&status);
        let progressing = status.conditions.iter().find(|one| one.type_ == condition::PROGRESSING);
        let (reason, message) = match (&status.error_state, progressing) {
            (_, Some(now)) if phase == Phase::Aborting => {
                let standing = standing(&status);
                let why = pending.as_ref().filter(|pending| pending.is_held_up()).map(Waits::short);
                (String::new(), was(standing, &why.unwrap_or_else(|| now.message.clone())))
            }
            (Some(error), _) if ended && phase != Phase::Succeeded => (error.code.clone(), error.message.clone()),
            (_, _) if phase == Phase::Succeeded => Default::default(),
            (_, _) if phase == Phase::Waiting && pending.is_some() => {
                pending.as_ref().map(|pending| (pending.code.clone(), pending.message.clone())).unwrap_or_default()
            }
            // A new attempt has nothing to tell at first; why there is one is worth knowing.
            (error, Some(now)) if !ended && ["", RESTARTING].contains(&now.message.as_str()) => {
                let failure = match error {
                    Some(error) => Some(with_code(&error.code, &error.message)),
                    None => last_failure(&status).map(str::to_owned),
                };
                let before = status.attempts.saturating_sub(1);
                let told = match failure {
                    Some(failure) => format!("attempt {before}: {failure}"),
                    None if now.message == RESTARTING => format!("attempt {before} failed"),
                    None => String::new(),
                };
                (String::new(), told)
            }
            (_, Some(now)) => {
                // These say no more than the phase does.
                let known = [reason::QUEUED, reason::EXECUTING, phase.as_str()];
                let reason = if known.contains(&now.reason.as_str()) { String::new() } else { now.reason.clone() };
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

    /// The same action, after it went away before its end.
    #[must_use]
    pub fn aborted(self, at: Timestamp) -> Self {
        if self.phase.outcome().is_some() {
            return self;
        }
        let ended = self.ended.or(Some(at));
        let message = if self.phase == Phase::Aborting { self.message.clone() } else { was(self.phase, &self.why()) };
        Self { phase: Phase::Aborted, reason: String::new(), message, pending: None, ended, ..self }
    }

    /// `2/3`: the current attempt of those there may be.
    pub fn attempts(&self) -> String {
        format!("{}/{}", self.attempt.max(u32::from(self.phase != Phase::Pending)), self.max_attempts)
    }

    /// Reason and message on one line, in plain words.
    pub fn why(&self) -> String {
        match &self.pending {
            Some(pending) if self.phase == Phase::Waiting => one_line(&pending.short()),
            _ => one_line(&plain(&with_code(&self.reason, &self.message))),
        }
    }

    /// From its creation to its end, or until now.
    pub fn duration(&self, now: Timestamp) -> Duration {
        self.created.map(|created| span::between(created, self.ended.unwrap_or(now))).unwrap_or_default()
    }

    /// For other programs. Names and meanings of fields stay as they are.
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

/// Everything on one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What it was doing when it was aborted.
fn was(phase: Phase, why: &str) -> String {
    let colon = if why.is_empty() { "" } else { ": " };
    format!("was {}{colon}{why}", phase.as_str())
}

/// What the history says about the failure of an attempt that was followed by another.
fn last_failure(status: &TaskActionStatus) -> Option<&str> {
    let failed = status.phase_history.iter().rev().find(|line| line.phase == reason::RETRYABLE_FAILURE)?;
    Some(failed.message.as_str()).filter(|message| status.attempts > 1 && !message.is_empty())
}

fn phase(object: &TaskAction) -> Phase {
    let status = object.status.clone().unwrap_or_default();
    let is = |kind: &str| status.conditions.iter().any(|one| one.type_ == kind && one.status == "True");
    if is(condition::SUCCEEDED) {
        return Phase::Succeeded;
    }
    if let Some(failed) = status.conditions.iter().find(|one| one.type_ == condition::FAILED && one.status == "True") {
        return match failed.reason.as_str() {
            reason::TIMED_OUT => Phase::TimedOut,
            reason::ABORTED => Phase::Aborted,
            _ => Phase::Failed,
        };
    }
    if object.metadata.deletion_timestamp.is_some() {
        return Phase::Aborting;
    }
    standing(&status)
}

/// Where one stands that has not ended.
fn standing(status: &TaskActionStatus) -> Phase {
    match status.plugin_phase.trim_start_matches("Phase") {
        "WaitingForResources" => return Phase::Waiting,
        "WaitingForCache" => return Phase::WaitingForCache,
        _ => {}
    }
    if Waits::of(status).is_some_and(|pending| pending.is_held_up()) {
        return Phase::Waiting;
    }
    let progressing = status.conditions.iter().find(|one| one.type_ == condition::PROGRESSING);
    match progressing.map(|one| one.reason.as_str()) {
        Some(reason::INITIALIZING) => Phase::Initializing,
        Some(reason::EXECUTING) => Phase::Running,
        Some(reason::RETRYABLE_FAILURE) => Phase::Retrying,
        Some(reason::PAUSED) => Phase::Paused,
        Some(_) => Phase::Queued,
        None => Phase::Pending,
    }
}

fn max_attempts(object: &TaskAction) -> u32 {
    let template = TaskTemplate::decode(object.spec.task_template.0.as_slice()).unwrap_or_default();
    let retries = template.metadata.and_then(|metadata| metadata.retries);
    retries.map_or(1, |retries| retries.retries.saturating_add(1))
}

#[cfg(test)]
mod tests;
