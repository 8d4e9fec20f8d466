//! The result of a submitted task: its outputs or its error.

use aileron_executor::storage::outputs::{OutputsError, read_error};
use aileron_idl::flyteidl2::core::{ExecutionError, LiteralMap};
use aileron_preview::literals::{declared_outputs, map_to_json};
use anyhow::Context;
use kube::Client;
use prost::Message;
use serde_json::{Value, json};

use super::{Storage, Submitted, traceback};
use crate::action::{Outcome, plain_message, split_words, with_code};
use crate::follow::Followed;

/// What a task has written at its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Written {
    /// The outputs of a task that succeeded.
    Outputs(LiteralMap),
    /// The error document of a task that failed.
    Error(Box<ExecutionError>),
}

/// A submitted task and its result.
#[derive(Clone, Debug)]
pub struct FinishedTask {
    /// The submitted task.
    pub(crate) submitted: Submitted,
    /// The observed states of the action.
    pub(crate) followed: Followed,
    /// The outputs or the error document, if the task has written one.
    pub(crate) written: Option<Written>,
    /// The traceback of a failed Python task.
    pub(crate) traceback: Option<String>,
}

impl FinishedTask {
    /// The name of the TaskAction.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.submitted.name
    }

    /// Adds the traceback of a failed Python task, if its log has one.
    pub(crate) async fn with_traceback(mut self, client: &Client) -> Self {
        if self.followed.outcome.is_some_and(Outcome::is_failure) {
            self.traceback = traceback::find(client, &self.submitted, self.followed.attempts.max(1)).await;
        }
        self
    }

    /// True if the task succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.followed.outcome == Some(Outcome::Succeeded)
    }

    /// The outputs of a task that succeeded.
    #[must_use]
    pub fn outputs(&self) -> Option<&LiteralMap> {
        match &self.written {
            Some(Written::Outputs(outputs)) => Some(outputs),
            Some(Written::Error(_)) | None => None,
        }
    }

    /// The value of one output of a task that succeeded, as JSON.
    #[must_use]
    pub fn output(&self, name: &str) -> Option<Value> {
        map_to_json(self.outputs()?).get(name).cloned()
    }

    /// The number of attempts.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.followed.attempts
    }

    /// Why the task did not succeed: its own error document, else the error in the status of the action.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        match (&self.written, self.followed.outcome) {
            (_, Some(Outcome::Succeeded) | None) => None,
            (Some(Written::Error(error)), _) => Some(with_code(&error.code, &error.message)),
            _ => Some(with_code(&self.followed.reason, &self.followed.message)).filter(|text| !text.is_empty()),
        }
    }

    /// The outputs as `name = value`, one per line, or the error.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if let Some(outputs) = self.outputs()
            && let Value::Object(values) = map_to_json(outputs)
        {
            for (name, value) in &values {
                text.push_str(&format!("{name} = {value}\n"));
            }
        }
        if let Some(error) = self.error() {
            let attempts = match self.followed.attempts {
                0 | 1 => String::new(),
                attempts => format!(" after {attempts} attempts"),
            };
            let phase = split_words(&self.followed.phase, ' ');
            text.push_str(&format!(
                "{} {phase}{attempts}: {}\n",
                self.submitted.name,
                plain_message(&error).trim_end()
            ));
            text.extend(self.traceback.iter().map(|traceback| format!("{traceback}\n")));
        }
        text
    }

    /// The result for other programs.
    pub(crate) fn as_json(&self) -> Value {
        json!({
            "namespace": self.submitted.namespace,
            "name": self.submitted.name,
            "run": self.submitted.run,
            "phase": self.followed.phase,
            "outcome": self.followed.outcome.map(Outcome::as_str),
            "attempts": self.followed.attempts,
            "seconds": self.followed.duration.as_secs_f64(),
            "outputs": self.outputs().map(map_to_json),
            "error": self.error(),
            "traceback": self.traceback,
        })
    }
}

/// Reads what the last attempt has written.
pub(crate) async fn read_result(
    storage: &Storage,
    submitted: Submitted,
    followed: Followed,
) -> anyhow::Result<FinishedTask> {
    let has_outputs = !declared_outputs(submitted.template.interface.as_ref()).is_empty();
    let prefix = submitted.output_prefix(followed.attempts)?;
    let written = match followed.outcome {
        Some(Outcome::Succeeded) => {
            Some(Written::Outputs(read_outputs(storage, format!("{prefix}/outputs.pb"), has_outputs).await?))
        }
        // A failed task may have written nothing.
        Some(Outcome::Failed) => {
            let reported = read_error(storage.store(), &format!("{prefix}/error.pb")).await?;
            reported.map(|reported| Written::Error(reported.error))
        }
        // The executor has stopped the task. An error document would describe the stop and not its cause.
        Some(Outcome::TimedOut | Outcome::Aborted) | None => None,
    };
    Ok(FinishedTask { submitted, followed, written, traceback: None })
}

/// Reads the outputs. With `must_exist`, missing outputs are an error.
async fn read_outputs(storage: &Storage, uri: String, must_exist: bool) -> anyhow::Result<LiteralMap> {
    let found = storage.store().get(&uri).await.context("cannot read the outputs")?;
    match found {
        Some(bytes) => LiteralMap::decode(bytes).with_context(|| format!("{uri} does not contain outputs")),
        None if must_exist => Err(OutputsError::MissingOutputs { uri }.into()),
        None => Ok(LiteralMap::default()),
    }
}
