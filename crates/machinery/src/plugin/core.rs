//! The lower, asynchronous level: a plugin that does its own driving.
//!
//! The plugin manager implements it once for all Kubernetes plugins; plugins without an object of their own (a timer, a
//! remote service) implement it directly.

use aileron_idl::flyteidl2::core::LiteralMap;
use async_trait::async_trait;
use jiff::Timestamp;

use super::PluginEntry;
use crate::{PhaseInfo, PluginError, TaskContext};

/// State that a plugin stored in an earlier round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredState {
    /// The bytes, empty if nothing was stored.
    pub bytes: Vec<u8>,
    /// The version they were stored under.
    pub version: u8,
}

/// State that a plugin wants stored with the outcome of this round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateWrite {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their version.
    pub version: u8,
}

/// Reading what belongs to the attempt.
#[async_trait]
pub trait TaskData: Send + Sync {
    /// The input literals.
    async fn inputs(&self) -> Result<LiteralMap, TaskDataError>;
}

/// The attempt's data could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TaskDataError {
    /// What happened, naming the file.
    pub message: String,
    /// What led to it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// One call of a core plugin.
pub struct CoreRequest<'a> {
    /// The attempt.
    pub task: &'a TaskContext,
    /// What the plugin stored before.
    pub state: &'a StoredState,
    /// When the stored status first said `Running` in this attempt, for plugins that measure time from there.
    pub running_since: Option<Timestamp>,
    /// The attempt's data.
    pub data: &'a dyn TaskData,
}

/// What one round brought.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreStep {
    /// Where the attempt stands now.
    pub phase: PhaseInfo,
    /// State to be stored with it; `None` keeps what is stored.
    pub state: Option<StateWrite>,
    /// When to be called again although nothing changed; `None` if only a change matters.
    pub wake_at: Option<Timestamp>,
}

impl CoreStep {
    /// A phase, nothing to store, no timer.
    pub fn of(phase: PhaseInfo) -> Self {
        Self { phase, state: None, wake_at: None }
    }
}

/// A plugin that does its own driving.
#[async_trait]
pub trait CorePlugin: Send + Sync {
    /// Its name and task types.
    fn entry(&self) -> PluginEntry;

    /// One round: look, act, say where the attempt stands. Called again after any change, so it must be idempotent.
    async fn handle(&self, request: &CoreRequest<'_>) -> Result<CoreStep, PluginError>;

    /// Stops the attempt. May be called more than once, also for an attempt that never started.
    async fn abort(&self, request: &CoreRequest<'_>) -> Result<(), PluginError>;

    /// Frees what the attempt holds, after its end. May be called more than once.
    async fn finalize(&self, request: &CoreRequest<'_>) -> Result<(), PluginError>;
}
