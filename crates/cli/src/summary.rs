//! An action in a few words: what lists, live tables and other programs show of it.

use std::time::Duration;

use aileron_executor::action::conditions::condition;
use aileron_executor::action::{ACTION_TYPE_CONDITION, TaskAction, TaskActionStatus};
use aileron_idl::flyteidl2::core::TaskTemplate;
use clap::builder::styling::AnsiColor;
use jiff::Timestamp;
use kube::ResourceExt;
use prost::Message;
use serde_json::{Value, json};

use crate::span;

/// Where an action stands, in the words of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No executor has taken it up yet.
    Pending,
    /// Waits for its turn.
    Queued,
    /// Waits for quota or other resources.
    Waiting,
    /// Waits for another action that computes the same.
    WaitingForCache,
    /// Waits for a signal.
    Paused,
    /// Being prepared.
    Initializing,
    /// Runs.
    Running,
    /// The attempt failed; another follows.
    Retrying,
    /// Being deleted before its end.
    Aborting,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Deleted before its end.
    Aborted,
}

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Succeeded,
    /// Badly.
    Failed,
    /// Stopped on request.
    Aborted,
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
    /// Code of the error that ended it, else the name of what it waits for.
    pub reason: String,
    /// What a person should know about that.
    pub message: String,
    pub created: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

impl Phase {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Queued => "Queued",
            Self::Waiting => "Waiting",
            Self::WaitingForCache => "WaitingForCache",
            Self::Paused => "Paused",
            Self::Initializing => "Initializing",
            Self::Running => "Running",
            Self::Retrying => "Retrying",
            Self::Aborting => "Aborting",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Aborted => "Aborted",
        }
    }

    /// The colour that says the same at a glance.
    pub fn colour(self) -> Option<AnsiColor> {
        match self {
            Self::Succeeded => Some(AnsiColor::Green),
            Self::Failed => Some(AnsiColor::Red),
            Self::Running | Self::Initializing => Some(AnsiColor::Cyan),
            Self::Waiting | Self::Retrying | Self::Aborting | Self::Aborted => Some(AnsiColor::Yellow),
            Self::Pending | Self::Queued | Self::WaitingForCache | Self::Paused => None,
        }
    }

    /// How it ended, if it did.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Succeeded => Some(Outcome::Succeeded),
            Self::Failed => Some(Outcome::Failed),
            Self::Aborted => Some(Outcome::Aborted),
            _ => None,
        }
    }
}

impl Outcome {
    /// Its name, which is that of the last phase.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Aborted => "Aborted",
        }
    }
}

impl Summary {
    /// What the object says.
    pub fn new(object: &TaskAction) -> Self {
        let status = object.status.clone().unwrap_or_default();
        let phase = phase(object);
        let ended = status.is_terminal();
        let progressing = status.conditions.iter().find(|one| one.type_ == condition::PROGRESSING);
        let (reason, message) = match (&status.error_state, progressing) {
            (_, Some(now)) if phase == Phase::Aborting => (String::new(), was(standing(&status), &now.message)),
            (Some(error), _) if ended && phase == Phase::Failed => (error.code.clone(), error.message.clone()),
            (_, _) if phase == Phase::Succeeded => Default::default(),
            // A new attempt has nothing to tell at first; why there is one is worth knowing.
            (Some(error), Some(now)) if !ended && now.message.is_empty() => {
                let before = status.attempts.saturating_sub(1);
                (String::new(), format!("attempt {before}: {}", with_code(&error.code, &error.message)))
            }
            (_, Some(now)) => {
                let reason = if now.reason == phase.as_str() { String::new() } else { now.reason.clone() };
                // `Executing` says no more than `Running` does.
                let reason = if reason == "Executing" { String::new() } else { reason };
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
        Self { phase: Phase::Aborted, reason: String::new(), message, ended, ..self }
    }

    /// `2/3`: the current attempt of those there may be.
    pub fn attempts(&self) -> String {
        format!("{}/{}", self.attempt.max(u32::from(self.phase != Phase::Pending)), self.max_attempts)
    }

    /// Reason and message on one line.
    pub fn why(&self) -> String {
        one_line(&with_code(&self.reason, &self.message))
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

fn phase(object: &TaskAction) -> Phase {
    let status = object.status.clone().unwrap_or_default();
    let is = |kind: &str| status.conditions.iter().any(|one| one.type_ == kind && one.status == "True");
    if is(condition::SUCCEEDED) {
        return Phase::Succeeded;
    }
    if is(condition::FAILED) {
        return Phase::Failed;
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
    let progressing = status.conditions.iter().find(|one| one.type_ == condition::PROGRESSING);
    match progressing.map(|one| one.reason.as_str()) {
        Some("Initializing") => Phase::Initializing,
        Some("Executing") => Phase::Running,
        Some("RetryableFailure") => Phase::Retrying,
        Some("Paused") => Phase::Paused,
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
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

    use super::*;

    fn action(status: Value) -> TaskAction {
        serde_json::from_value(json!({
            "apiVersion": "flyte.org/v1",
            "kind": "TaskAction",
            "metadata": {"name": "a", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"runName": "r", "actionName": "a0", "project": "p", "domain": "d", "taskType": "container"},
            "status": status,
        }))
        .unwrap()
    }

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:01:30Z"})
    }

    #[test]
    fn every_stage_has_a_word() {
        let progressing = |reason: &str| json!({"conditions": [condition("Progressing", "True", reason, "m")]});
        for (status, expected) in [
            (json!({}), Phase::Pending),
            (progressing("Queued"), Phase::Queued),
            (progressing("Initializing"), Phase::Initializing),
            (progressing("Executing"), Phase::Running),
            (progressing("RetryableFailure"), Phase::Retrying),
            (json!({"conditions": [condition("Succeeded", "True", "Completed", "")]}), Phase::Succeeded),
            (json!({"conditions": [condition("Failed", "True", "InvalidSpec", "")]}), Phase::Failed),
        ] {
            assert_eq!(Summary::new(&action(status.clone())).phase, expected, "{status}");
        }
        let mut waiting = progressing("Queued");
        waiting["pluginPhase"] = "PhaseWaitingForResources".into();
        assert_eq!(Summary::new(&action(waiting)).phase, Phase::Waiting);
        let mut deleted = action(progressing("Executing"));
        deleted.metadata.deletion_timestamp = deleted.metadata.creation_timestamp.clone();
        assert_eq!(Summary::new(&deleted).phase, Phase::Aborting);
    }

    #[test]
    fn a_failure_shows_its_code_and_how_long_it_took() {
        let status = json!({
            "attempts": 3,
            "errorState": {"code": "OOMKilled", "kind": "USER", "message": "too\nmuch"},
            "conditions": [condition("Failed", "True", "PermanentFailure", "too\nmuch")],
        });
        let summary = Summary::new(&action(status));
        assert_eq!(summary.why(), "[OOMKilled] too much");
        assert_eq!(summary.duration(Timestamp::now()), Duration::from_secs(90));
        let json = summary.as_json(Timestamp::now());
        assert_eq!((&json["outcome"], &json["attempt"]), (&json!("Failed"), &json!(3)));
    }

    #[test]
    fn a_new_attempt_tells_why_there_is_one() {
        let status = json!({
            "attempts": 2,
            "errorState": {"code": "Error", "message": "exit code 3"},
            "conditions": [condition("Progressing", "True", "Executing", "")],
        });
        let summary = Summary::new(&action(status));
        assert_eq!((summary.phase, summary.why().as_str()), (Phase::Running, "attempt 1: [Error] exit code 3"));
    }

    #[test]
    fn what_has_ended_cannot_be_aborted() {
        let ended = Summary::new(&action(json!({"conditions": [condition("Succeeded", "True", "Completed", "")]})));
        assert_eq!(ended.clone().aborted(Timestamp::now()), ended);
        let running = Summary::new(&action(json!({}))).aborted(Timestamp::UNIX_EPOCH);
        assert_eq!((running.phase, running.ended), (Phase::Aborted, Some(Timestamp::UNIX_EPOCH)));
        assert_eq!(running.why(), "was Pending");
        let mut going = action(json!({"conditions": [condition("Progressing", "True", "Queued", "no node is free")]}));
        going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
        let going = Summary::new(&going);
        assert_eq!((going.phase, going.why().as_str()), (Phase::Aborting, "was Queued: no node is free"));
        assert_eq!(going.aborted(Timestamp::now()).why(), "was Queued: no node is free");
    }
}
