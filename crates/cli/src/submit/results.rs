//! What a task left behind, for people and programs.

use aileron_executor::storage::outputs::{OutputsError, read_error};
use aileron_idl::flyteidl2::core::{ExecutionError, LiteralMap};
use aileron_preview::literals::{declared_outputs, map_to_json};
use anyhow::Context;
use kube::Client;
use prost::Message;
use serde_json::{Value, json};

use super::{Storage, Submitted, traceback};
use crate::follow::{Followed, Outcome};
use crate::summary::{plain, spelled, with_code};

/// What a task wrote at its end.
#[derive(Clone, Debug, PartialEq)]
pub enum Left {
    /// Outputs of a success.
    Outputs(LiteralMap),
    /// The error of a failure.
    Error(Box<ExecutionError>),
}

/// How a task came out.
#[derive(Clone, Debug)]
pub struct Finished {
    /// What was submitted.
    pub submitted: Submitted,
    /// What was seen of it.
    pub followed: Followed,
    /// What it left, if it left anything that counts.
    pub left: Option<Left>,
    /// Where in a Python program it failed.
    pub traceback: Option<String>,
}

impl Finished {
    /// The same, with the traceback of a failed Python task, if its log has one.
    pub async fn with_traceback(mut self, client: &Client) -> Self {
        if self.followed.outcome.is_some_and(Outcome::is_failure) {
            self.traceback = traceback::find(client, &self.submitted, self.followed.attempts.max(1)).await;
        }
        self
    }

    /// True if it ended well.
    pub fn is_success(&self) -> bool {
        self.followed.outcome == Some(Outcome::Succeeded)
    }

    /// Its outputs, if it has any.
    pub fn outputs(&self) -> Option<&LiteralMap> {
        match &self.left {
            Some(Left::Outputs(outputs)) => Some(outputs),
            Some(Left::Error(_)) | None => None,
        }
    }

    /// Why it failed: what the task itself said, else what the platform knows.
    pub fn error(&self) -> Option<String> {
        match (&self.left, self.followed.outcome) {
            (_, Some(Outcome::Succeeded) | None) => None,
            (Some(Left::Error(error)), _) => Some(with_code(&error.code, &error.message)),
            _ => Some(with_code(&self.followed.reason, &self.followed.message)).filter(|text| !text.is_empty()),
        }
    }

    /// Outputs as `name = value`, one on a line, or the error.
    pub fn text(&self) -> String {
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
            let phase = spelled(&self.followed.phase, ' ');
            text.push_str(&format!("{} {phase}{attempts}: {}\n", self.submitted.name, plain(&error).trim_end()));
            text.extend(self.traceback.iter().map(|traceback| format!("{traceback}\n")));
        }
        text
    }

    /// For other programs.
    pub fn as_json(&self) -> Value {
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

/// Reads what the last attempt left.
pub async fn finished(storage: &Storage, submitted: Submitted, followed: Followed) -> anyhow::Result<Finished> {
    let declares = !declared_outputs(submitted.template.interface.as_ref()).is_empty();
    let prefix = submitted.output_prefix(followed.attempts)?;
    let left = match followed.outcome {
        Some(Outcome::Succeeded) => {
            Some(Left::Outputs(outputs(storage, format!("{prefix}/outputs.pb"), declares).await?))
        }
        // A failure need not leave anything.
        Some(Outcome::Failed) => {
            let reported = read_error(storage.store(), &format!("{prefix}/error.pb")).await?;
            reported.map(|reported| Left::Error(reported.error))
        }
        // It was stopped; what it wrote about that is not why it ended.
        Some(Outcome::TimedOut | Outcome::Aborted) | None => None,
    };
    Ok(Finished { submitted, followed, left, traceback: None })
}

/// The outputs; those of a task that declares some must be there.
async fn outputs(storage: &Storage, uri: String, declares: bool) -> anyhow::Result<LiteralMap> {
    let found = storage.store().get(&uri).await.context("cannot read the outputs")?;
    match found {
        Some(bytes) => LiteralMap::decode(bytes).with_context(|| format!("{uri} does not hold outputs")),
        None if declares => Err(OutputsError::MissingOutputs { uri }.into()),
        None => Ok(LiteralMap::default()),
    }
}
