//! The key `expect`: the expected result of a task, and how it differs from the observed one.

use std::collections::BTreeMap;
use std::fmt;

use aileron_action::TaskActionStatus;
use aileron_action::conditions::{condition, reason};
use aileron_config::nearest;
use aileron_idl::flyteidl2::core::LiteralMap;
use aileron_machinery::PendingReason;
use serde_json::Value;

use super::fields::{Field, Report};
use crate::literals::{Declared, from_json, map_to_json, to_json};

/// The state of an action, as one of the words that `expect.phase` of a task file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhaseWord {
    /// No object has been created.
    Queued,
    /// The action waits, for example for quota. As an expectation it means: the task does not run yet.
    Waiting,
    /// Kubernetes or the operator prepares the task.
    Initializing,
    /// The task runs.
    Running,
    /// The task succeeded.
    Succeeded,
    /// The task failed.
    Failed,
    /// The task exceeded a time limit.
    TimedOut,
    /// A user aborted the task.
    Aborted,
}

/// The expected result of a task. Fields without a value are not compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The phase. A phase in which the action has not ended counts as reached when the action stays in it.
    pub phase: PhaseWord,
    /// What the action waits for.
    pub pending: Option<PendingReason>,
    /// The number of attempts.
    pub attempts: Option<u32>,
    /// A part of the reason or message in the status of the action.
    pub reason: Option<String>,
    /// A part of the error message.
    pub error: Option<String>,
    /// Values of outputs, as plain JSON.
    pub outputs: BTreeMap<String, Value>,
}

/// The observed result of a task.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The phase.
    pub phase: PhaseWord,
    /// Code of the reason why the action waits. Empty if it does not wait or the reason is unknown.
    pub pending: &'a str,
    /// The number of attempts.
    pub attempts: u32,
    /// Reason and message of the action.
    pub reason: &'a str,
    /// The error, if any.
    pub error: &'a str,
    /// The outputs, if there are any.
    pub outputs: Option<&'a LiteralMap>,
}

const PHASES: [(&str, PhaseWord); 8] = [
    ("queued", PhaseWord::Queued),
    ("waiting", PhaseWord::Waiting),
    ("initializing", PhaseWord::Initializing),
    ("running", PhaseWord::Running),
    ("succeeded", PhaseWord::Succeeded),
    ("failed", PhaseWord::Failed),
    ("timed-out", PhaseWord::TimedOut),
    ("aborted", PhaseWord::Aborted),
];

/// The plugin phase of a task that waits, for example for quota.
const WAITING_PHASE: &str = "WaitingForResources";

pub(super) fn expectation(field: &Field<'_>, outputs: &[Declared<'_>], report: &Report) -> Option<Expectation> {
    let group = field.group(&["phase", "pending", "attempts", "reason", "error", "outputs"], report)?;
    let text = |key| group.get(key).and_then(|field| field.text(report));
    let attempts = group.get("attempts").and_then(|field| field.whole(1..=i64::from(u32::MAX), report));
    let waits = group.get("pending");
    let pending = waits.as_ref().and_then(|field| pending(field, report));
    let phase = match (group.get("phase"), &waits) {
        // `pending` alone implies the phase `waiting`.
        (None, Some(_)) => Some(PhaseWord::Waiting),
        _ => group.require("phase", "say for example `phase: succeeded`", report).and_then(|f| phase(&f, report)),
    };
    if let (Some(phase), Some(field)) = (phase.filter(|phase| !PhaseWord::Waiting.admits(*phase)), &waits) {
        field.complain(format!("a task that is {phase} waits for nothing; leave out one of the two"), report);
    }
    let values = group.get("outputs").map(|field| field.entries(report)).unwrap_or_default();
    let mut expected = BTreeMap::new();
    for (name, field) in values {
        match outputs.iter().find(|(declared, _)| *declared == name) {
            None => field.complain("the task declares no such output", report),
            Some((_, kind)) => match from_json(kind, &field.json()) {
                // Converted to a literal and back, so that equal values have the same JSON.
                Ok(literal) => _ = expected.insert(name, to_json(&literal)),
                Err(error) => field.complain(error.to_string(), report),
            },
        }
    }
    Some(Expectation {
        phase: phase?,
        pending,
        attempts: attempts.and_then(|attempts| u32::try_from(attempts).ok()),
        reason: text("reason"),
        error: text("error"),
        outputs: expected,
    })
}

fn phase(field: &Field<'_>, report: &Report) -> Option<PhaseWord> {
    let word = field.text(report)?;
    let found = PHASES.iter().find(|(name, _)| *name == word);
    if found.is_none() {
        let names = PHASES.map(|(name, _)| name);
        let remedy = match nearest(&word, names.into_iter()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("use one of {}", names.join(", ")),
        };
        field.complain(format!("{word:?} is no phase; {remedy}"), report);
    }
    found.map(|(_, phase)| *phase)
}

fn pending(field: &Field<'_>, report: &Report) -> Option<PendingReason> {
    let word = field.text(report)?;
    let found = PendingReason::from_code(&word);
    if found.is_none() {
        let names = PendingReason::ALL.map(PendingReason::as_str);
        let remedy = match nearest(&word, names.into_iter()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("use one of {}", names.join(", ")),
        };
        field.complain(format!("{word:?} is nothing that a task waits for; {remedy}"), report);
    }
    found
}

impl PhaseWord {
    /// True if the action has ended.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::TimedOut | Self::Aborted)
    }

    /// Whether the observed phase meets an expectation of this phase.
    fn admits(self, found: Self) -> bool {
        // A waiting task is in one of these three phases, depending on what it waits for.
        let is_before_start = matches!(found, Self::Queued | Self::Waiting | Self::Initializing);
        self == found || (self == Self::Waiting && is_before_start)
    }

    /// The phase of a status. An action that is deleted before it has ended was aborted, but then there is no status.
    pub fn of(status: &TaskActionStatus) -> Self {
        let is = |kind: &str| {
            status.conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
        };
        if is(condition::SUCCEEDED).is_some() {
            return Self::Succeeded;
        }
        if let Some(failed) = is(condition::FAILED) {
            return match failed.reason.as_str() {
                reason::TIMED_OUT => Self::TimedOut,
                reason::ABORTED => Self::Aborted,
                _ => Self::Failed,
            };
        }
        if status.plugin_phase.trim_start_matches("Phase") == WAITING_PHASE {
            return Self::Waiting;
        }
        match is(condition::PROGRESSING).map(|progressing| progressing.reason.as_str()) {
            Some(reason::EXECUTING) => Self::Running,
            Some(reason::INITIALIZING) => Self::Initializing,
            _ => Self::Queued,
        }
    }
}

impl fmt::Display for PhaseWord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PHASES.iter().find(|(_, phase)| phase == self).map_or("unknown", |(name, _)| name);
        formatter.pad(name)
    }
}

impl Expectation {
    /// The differences between expectation and observation, one sentence each. Empty if there are none.
    pub fn differences(&self, observed: &Observed<'_>) -> Vec<String> {
        let mut differences = Vec::new();
        if !self.phase.admits(observed.phase) {
            differences.push(format!("expected phase {}, found {}", self.phase, observed.phase));
        }
        if let Some(pending) = self.pending.filter(|pending| pending.as_str() != observed.pending) {
            let found = if observed.pending.is_empty() { "nothing" } else { observed.pending };
            differences.push(format!("expected to wait for {pending}, found {found}"));
        }
        if let Some(attempts) = self.attempts.filter(|attempts| *attempts != observed.attempts) {
            differences.push(format!("expected attempts: {attempts}, found {}", observed.attempts));
        }
        let texts = [("reason", &self.reason, observed.reason), ("error", &self.error, observed.error)];
        for (what, expected, found) in texts {
            if let Some(expected) = expected.as_deref().filter(|expected| !found.contains(expected)) {
                differences.push(format!("expected {expected:?} in the {what}, found {found:?}"));
            }
        }
        let outputs = observed.outputs.map_or(Value::Null, map_to_json);
        for (name, expected) in &self.outputs {
            match outputs.get(name) {
                Some(found) if found == expected => {}
                Some(found) => differences.push(format!("expected output {name} = {expected}, found {found}")),
                None => differences.push(format!("expected output {name} = {expected}, found none")),
            }
        }
        differences
    }
}
