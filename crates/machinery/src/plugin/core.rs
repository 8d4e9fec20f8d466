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
///
/// ```
/// use aileron_machinery::{CoreRequest, StoredState};
/// use aileron_machinery::testing::task;
/// # use aileron_machinery::serde_json::Value;
///
/// let task = task("query", &Value::Null);
/// let state = StoredState { bytes: b"job-7".to_vec(), version: 1 };
/// let request = CoreRequest::new(&task, &state);
/// assert!(!request.state.bytes.is_empty(), "the query was sent in an earlier round");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredState {
    /// The bytes, empty if nothing was stored.
    pub bytes: Vec<u8>,
    /// The version they were stored under.
    pub version: u8,
}

/// State that a plugin wants stored with the outcome of this round.
///
/// ```
/// use aileron_machinery::{CoreStep, PhaseInfo, StateWrite, TaskInfo};
/// # use aileron_machinery::{testing::task, serde_json::Value};
/// # let task = task("query", &Value::Null);
///
/// let phase = PhaseInfo::queued("the query was sent", TaskInfo::at(task.now));
/// let state = StateWrite { bytes: b"job-7".to_vec(), version: 1 };
/// let step = CoreStep { state: Some(state), ..CoreStep::of(phase) };
/// assert_eq!(step.state.unwrap().bytes, b"job-7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateWrite {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their version.
    pub version: u8,
}

/// One call of a core plugin.
///
/// ```
/// use aileron_machinery::testing::task;
/// use aileron_machinery::{CoreRequest, NoServices, StoredState};
/// # use aileron_machinery::serde_json::Value;
///
/// let task = task("query", &Value::Null);
/// let state = StoredState::default();
/// let request = CoreRequest::new(&task, &state).with_running_since(Some(task.now)).with_services(&NoServices);
/// assert_eq!(request.running_since, Some(task.now));
/// ```
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
///
/// ```
/// use aileron_machinery::jiff::SignedDuration;
/// use aileron_machinery::{CoreStep, PhaseInfo, TaskInfo};
/// # use aileron_machinery::{testing::task, serde_json::Value};
/// # let task = task("query", &Value::Null);
///
/// // Nothing on the cluster changes when the query ends, so the plugin asks to be called again.
/// let again = task.now + SignedDuration::from_secs(10);
/// let step = CoreStep { wake_at: Some(again), ..CoreStep::of(PhaseInfo::running(TaskInfo::at(task.now))) };
/// assert_eq!((step.state, step.wake_at), (None, Some(again)));
/// ```
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
///
/// Write `#[async_trait]` before the `impl`: without it the compiler says that the lifetimes of the methods do not match
/// (E0195).
///
/// ```
/// use aileron_machinery::{
///     CorePlugin, CoreRequest, CoreStep, PhaseInfo, PluginEntry, PluginError, TaskInfo, async_trait,
/// };
/// # use aileron_machinery::{StoredState, testing::task, serde_json::Value};
///
/// struct Noop;
///
/// #[async_trait]
/// impl CorePlugin for Noop {
///     fn entry(&self) -> PluginEntry {
///         PluginEntry::new("noop", &["noop"])
///     }
///
///     async fn handle(&self, request: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
///         Ok(CoreStep::of(PhaseInfo::success(TaskInfo::at(request.task.now))))
///     }
///
///     async fn abort(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
///         Ok(()) // nothing was started
///     }
///
///     async fn finalize(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
///         Ok(()) // nothing is held
///     }
/// }
/// # futures::executor::block_on(async {
///
/// let (task, state) = (task("noop", &Value::Null), StoredState::default());
/// let request = CoreRequest::new(&task, &state);
/// assert!(Noop.handle(&request).await?.phase.phase().is_success());
/// # Noop.abort(&request).await?;
/// # Noop.finalize(&request).await?;
/// # Ok::<(), PluginError>(())
/// # })?;
/// # Ok::<(), PluginError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plugin without an object (`CorePlugin`)",
    label = "this is not a `CorePlugin`",
    note = "pass the plugin itself, not a reference or a `Box` of it; `with_core_plugin` takes an `Arc<dyn CorePlugin>`",
    note = "a plugin that makes Kubernetes objects, a `K8sPlugin`, is added by `with(plugin)`"
)]
#[async_trait]
pub trait CorePlugin: Send + Sync {
    /// Its name and task types.
    fn entry(&self) -> PluginEntry;

    /// Called once when the executor starts, before the first task.
    ///
    /// ```
    /// use std::sync::{Arc, OnceLock};
    /// use aileron_machinery::{CorePlugin, CoreSetup, PluginError};
    /// # use aileron_machinery::{CoreRequest, CoreStep, NoServices, PhaseInfo, PluginEntry, async_trait};
    ///
    /// /// Sends queries to a service that wants a password.
    /// #[derive(Default)]
    /// struct Queries {
    ///     password: OnceLock<String>,
    /// }
    ///
    /// #[async_trait]
    /// impl CorePlugin for Queries {
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("query", &["query"]) }
    /// #     async fn handle(&self, _: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
    /// #         Ok(CoreStep::of(PhaseInfo::undefined()))
    /// #     }
    /// #     async fn abort(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> { Ok(()) }
    /// #     async fn finalize(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> { Ok(()) }
    ///     async fn setup(&self, setup: CoreSetup) -> Result<(), PluginError> {
    ///         let secret = setup.secrets.get("query-password").await;
    ///         let password = secret.map_err(|error| error.into_plugin_error("the query service needs a password"))?;
    ///         self.password.get_or_init(|| password);
    ///         Ok(())
    ///     }
    /// }
    /// # futures::executor::block_on(async {
    /// let without_secrets = CoreSetup::new(Arc::new(NoServices));
    /// assert!(Queries::default().setup(without_secrets).await.is_err(), "the executor does not start");
    /// # });
    /// ```
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
    ///
    /// ```
    /// # use aileron_machinery::{CorePlugin, CoreRequest, CoreStep, PhaseInfo, PluginEntry, PluginError, StoredState, async_trait};
    /// # use aileron_machinery::{testing::task, serde_json::Value};
    /// # struct Queries;
    /// # impl Queries {
    /// #     fn delete_result(&self, _job: &[u8]) -> Result<(), PluginError> { Ok(()) }
    /// # }
    /// #[async_trait]
    /// impl CorePlugin for Queries {
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("query", &["query"]) }
    /// #     async fn handle(&self, _: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
    /// #         Ok(CoreStep::of(PhaseInfo::undefined()))
    /// #     }
    /// #     async fn abort(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> { Ok(()) }
    /// #     async fn finalize(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> { Ok(()) }
    ///     async fn discard(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
    ///         // A query that was stopped keeps its result. The same query must not find it when it is sent again.
    ///         self.abort(request).await?;
    ///         self.delete_result(&request.state.bytes)
    ///     }
    /// }
    /// # let (task, state) = (task("query", &Value::Null), StoredState::default());
    /// # futures::executor::block_on(Queries.discard(&CoreRequest::new(&task, &state)))?;
    /// # Ok::<(), PluginError>(())
    /// ```
    async fn discard(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        self.abort(request).await
    }

    /// Frees what the attempt holds, after its end. May be called more than once.
    async fn finalize(&self, request: &CoreRequest<'_>) -> Result<(), PluginError>;
}
