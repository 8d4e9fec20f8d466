//! The lower, asynchronous level: a plugin that does its own driving.
//!
//! The plugin manager implements it once for all Kubernetes plugins; plugins without an object of their own (a timer, a
//! remote service) implement it directly.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::PluginEntry;
use super::services::{CoreSetup, NoServices, TaskServices};
use crate::{PhaseInfo, PluginError, TaskContext};

/// State that a plugin stored in an earlier round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredState {
    /// The bytes, empty if nothing was stored.
    pub bytes: Vec<u8>,
    /// The version they were stored under.
    pub version: u8,
}

/// State that a plugin wants stored with the outcome of this round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateWrite {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their version.
    pub version: u8,
}

/// One call of a core plugin.
#[derive(Clone)]
#[non_exhaustive]
pub struct CoreRequest<'a> {
    /// The attempt.
    pub task: &'a TaskContext,
    /// What the plugin stored before.
    pub state: &'a StoredState,
    /// When the stored status first said `Running` in this attempt, for plugins that measure time from there.
    pub running_since: Option<Timestamp>,
    /// What the executor does for the plugin.
    pub services: &'a dyn TaskServices,
}

impl<'a> CoreRequest<'a> {
    /// A call without services.
    pub fn new(task: &'a TaskContext, state: &'a StoredState) -> Self {
        Self { task, state, running_since: None, services: &NoServices }
    }

    /// The same call for an attempt that runs since this time.
    #[must_use]
    pub fn with_running_since(self, running_since: Option<Timestamp>) -> Self {
        Self { running_since, ..self }
    }

    /// The same call with these services.
    #[must_use]
    pub fn with_services(self, services: &'a dyn TaskServices) -> Self {
        Self { services, ..self }
    }
}

/// What one round brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

    /// Called once when the executor starts, before the first task.
    ///
    /// # Errors
    /// The plugin cannot work; the executor does not start.
    async fn setup(&self, _setup: CoreSetup) -> Result<(), PluginError> {
        Ok(())
    }

    /// One round: look, act, say where the attempt stands. Called again after any change, so it must be idempotent.
    async fn handle(&self, request: &CoreRequest<'_>) -> Result<CoreStep, PluginError>;

    /// Stops the attempt. May be called more than once, also for an attempt that never started.
    async fn abort(&self, request: &CoreRequest<'_>) -> Result<(), PluginError>;

    /// Removes what the attempt has started, because the same attempt is started again after a failure of the platform. May
    /// be called more than once.
    async fn discard(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        self.abort(request).await
    }

    /// Frees what the attempt holds, after its end. May be called more than once.
    async fn finalize(&self, request: &CoreRequest<'_>) -> Result<(), PluginError>;
}
