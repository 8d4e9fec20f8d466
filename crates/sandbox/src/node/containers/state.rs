//! The state of a container, as the status of its pod shows it.

use jiff::Timestamp;

/// Whether a container waits, runs or has terminated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunState {
    Waiting(Waiting),
    Running { since: Timestamp, id: String },
    Terminated(Termination),
}

/// Why a container is not running yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub reason: String,
    pub message: String,
}

/// How a container terminated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Termination {
    pub code: i32,
    pub reason: String,
    pub message: String,
    pub started: Timestamp,
    pub finished: Timestamp,
    pub id: String,
}

impl Waiting {
    pub(crate) fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }
}
