//! What the executor does for a core plugin: files of the task, secrets, tokens, and waking the task.

use std::sync::Arc;

use aileron_idl::flyteidl2::core::{ErrorDocument, LiteralMap};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::Pending;
use crate::error::{PluginError, code};

/// A service could not do what a plugin asked for.
///
/// A plugin that cannot go on returns [`Self::into_plugin_error`]. If the object store does
/// not work at the moment, the executor recognises that ([`StorageOutage`](crate::StorageOutage)), and waits without
/// counting a failure.
///
/// ```
/// use aileron_machinery::ServiceError;
///
/// let error = ServiceError::caused_by("secret query-password", std::io::Error::other("permission denied"));
/// let error = error.into_plugin_error("the query cannot be sent: secret query-password is missing");
/// assert_eq!(error.to_string(), "the query cannot be sent: secret query-password is missing");
/// assert_eq!(ServiceError::unavailable("inputs").to_string(), "inputs: not available here");
/// # assert_eq!(ServiceError::new("pool x").to_string(), "pool x");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ServiceError {
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ServiceError {
    /// A text that names the file, secret or pool.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// A text, and the error that led to it.
    pub fn caused_by(message: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { message: message.into(), source: Some(source.into()) }
    }

    /// The error of a plugin that cannot go on. The text contains what the service said. An outage of the object store stays
    /// recognisable as one.
    pub fn into_plugin_error(self, message: impl Into<String>) -> PluginError {
        let message = message.into();
        let wrapped = PluginError::caused_by(code::DOWNSTREAM_SYSTEM_ERROR, message.clone(), self);
        if wrapped.storage_outage().is_some() { wrapped } else { PluginError::uncoded(message) }
    }

    /// There is no such service here, for example in a test.
    pub fn unavailable(service: &str) -> Self {
        Self::new(format!("{service}: not available here"))
    }
}

/// The answer to a request for a token.
///
/// ```
/// use aileron_machinery::{CoreStep, Pending, PendingReason, PhaseInfo, TaskInfo, TokenAnswer};
/// # use aileron_machinery::{testing::task, serde_json::Value};
/// # let task = task("query", &Value::Null);
/// # let pending = Pending::new(PendingReason::Pool, "0 of 5 tokens are free");
/// # let answer = TokenAnswer::Wait { pending, until: None };
///
/// let info = TaskInfo::at(task.now);
/// let step = match answer {
///     TokenAnswer::Held => CoreStep::of(PhaseInfo::running(info)),
///     TokenAnswer::Wait { pending, until } => {
///         let phase = PhaseInfo::waiting_for_resources("waits for a token", info).with_pending(pending);
///         CoreStep { wake_at: until, ..CoreStep::of(phase) }
///     }
/// };
/// assert_eq!(step.phase.pending().unwrap().reason, PendingReason::Pool);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenAnswer {
    /// The action holds the token until it has ended.
    Held,
    /// No token is free. The action is woken when it may get one.
    Wait {
        /// What the action waits for, for [`PhaseInfo::with_pending`](crate::PhaseInfo::with_pending).
        pending: Pending,
        /// When to ask again although nothing changed.
        until: Option<Timestamp>,
    },
}

/// Wakes the action that it was made for: the plugin's `handle` is called soon. Calls that come before the next round
/// count once. It can be kept and called from another task, for example when a remote service has answered.
///
/// ```
/// use std::sync::Arc;
/// use aileron_machinery::{NoServices, TaskServices, TaskWaker};
///
/// let waker: Arc<dyn TaskWaker> = NoServices.waker();
/// // A thread that waits for the answer of a remote service.
/// std::thread::spawn(move || waker.wake()).join().unwrap();
/// ```
pub trait TaskWaker: Send + Sync {
    /// Wakes the action.
    fn wake(&self);
}

/// The secrets of the executor itself, such as the credentials of a remote service.
///
/// ```
/// use aileron_machinery::{Secrets, ServiceError, async_trait};
///
/// /// The secrets of a test.
/// struct OneSecret;
///
/// #[async_trait]
/// impl Secrets for OneSecret {
///     async fn get(&self, name: &str) -> Result<String, ServiceError> {
///         match name {
///             "query-password" => Ok("hush".into()),
///             _ => Err(ServiceError::new(format!("there is no secret {name}"))),
///         }
///     }
/// }
/// # futures::executor::block_on(async {
/// assert_eq!(OneSecret.get("query-password").await?, "hush");
/// # Ok::<(), ServiceError>(())
/// # })?;
/// # Ok::<(), ServiceError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no secrets for a core plugin (`Secrets`)",
    label = "secrets of the executor are expected here",
    note = "implement `Secrets` with `#[async_trait]` before the `impl`; `NoServices` has no secret at all"
)]
#[async_trait]
pub trait Secrets: Send + Sync {
    /// The secret of this name.
    async fn get(&self, name: &str) -> Result<String, ServiceError>;
}

/// Files of the attempt, secrets, tokens and waking, for one call of a core plugin.
///
/// Each method answers that the service is [not available](ServiceError::unavailable) unless it is overridden, so a test
/// implements only what the plugin uses.
///
/// ```
/// use aileron_machinery::testing::task;
/// use aileron_machinery::{CoreRequest, ServiceError, StoredState, TaskServices, TokenAnswer, async_trait};
/// # use aileron_machinery::serde_json::Value;
///
/// /// The services of a test: every token is free.
/// struct FreeTokens;
///
/// #[async_trait]
/// impl TaskServices for FreeTokens {
///     async fn take_token(&self, _pool: &str) -> Result<TokenAnswer, ServiceError> {
///         Ok(TokenAnswer::Held)
///     }
/// }
///
/// let (task, state) = (task("query", &Value::Null), StoredState::default());
/// let request = CoreRequest::new(&task, &state).with_services(&FreeTokens);
/// # futures::executor::block_on(async {
/// assert_eq!(request.services.take_token("licences").await?, TokenAnswer::Held);
/// assert!(request.services.inputs().await.is_err(), "the other services are not available");
/// # request.services.waker().wake();
/// # Ok::<(), ServiceError>(())
/// # })?;
/// # Ok::<(), ServiceError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no services for a core plugin (`TaskServices`)",
    label = "services of the executor are expected here",
    note = "write `impl TaskServices for ..` with `#[async_trait]` before it, and override what the plugin uses; \
            `NoServices` has no service at all"
)]
#[async_trait]
pub trait TaskServices: Send + Sync {
    /// The input literals of the attempt.
    async fn inputs(&self) -> Result<LiteralMap, ServiceError> {
        Err(ServiceError::unavailable("inputs"))
    }

    /// Writes the outputs of the attempt. Write them before reporting a success.
    ///
    /// ```
    /// use aileron_machinery::idl::flyteidl2::core::LiteralMap;
    /// use aileron_machinery::{CoreRequest, CoreStep, PhaseInfo, PluginError, TaskInfo};
    ///
    /// /// The end of a query that has succeeded.
    /// async fn finish(request: &CoreRequest<'_>, outputs: LiteralMap) -> Result<CoreStep, PluginError> {
    ///     let written = request.services.write_outputs(&outputs).await;
    ///     written.map_err(|error| error.into_plugin_error("the outputs cannot be stored"))?;
    ///     Ok(CoreStep::of(PhaseInfo::success(TaskInfo::at(request.task.now))))
    /// }
    /// # let task = aileron_machinery::testing::task("query", &aileron_machinery::serde_json::Value::Null);
    /// # let state = Default::default();
    /// # let ended = futures::executor::block_on(finish(&CoreRequest::new(&task, &state), LiteralMap::default()));
    /// # assert!(ended.is_err());
    /// ```
    async fn write_outputs(&self, _outputs: &LiteralMap) -> Result<(), ServiceError> {
        Err(ServiceError::unavailable("outputs"))
    }

    /// Writes the error document of the attempt.
    ///
    /// ```
    /// use aileron_machinery::idl::flyteidl2::core::{ContainerError, ErrorDocument};
    /// use aileron_machinery::{CoreRequest, ServiceError};
    ///
    /// async fn leave_error(request: &CoreRequest<'_>, message: &str) -> Result<(), ServiceError> {
    ///     let (code, message) = ("QueryFailed".into(), message.into());
    ///     let error = ContainerError { code, message, ..ContainerError::default() };
    ///     request.services.write_error(&ErrorDocument { error: Some(error) }).await
    /// }
    /// # let task = aileron_machinery::testing::task("query", &aileron_machinery::serde_json::Value::Null);
    /// # let state = Default::default();
    /// # assert!(futures::executor::block_on(leave_error(&CoreRequest::new(&task, &state), "syntax")).is_err());
    /// ```
    async fn write_error(&self, _error: &ErrorDocument) -> Result<(), ServiceError> {
        Err(ServiceError::unavailable("error document"))
    }

    /// Reads any file of the storage; nothing if it does not exist.
    ///
    /// ```
    /// use aileron_machinery::{CoreRequest, ServiceError};
    ///
    /// /// What the task wrote beside its outputs, and the password for the service that reads it.
    /// async fn report(request: &CoreRequest<'_>) -> Result<(Option<Vec<u8>>, String), ServiceError> {
    ///     let deck = request.services.read(&request.task.paths.deck_path()).await?;
    ///     Ok((deck, request.services.secret("report-password").await?))
    /// }
    /// # let task = aileron_machinery::testing::task("query", &aileron_machinery::serde_json::Value::Null);
    /// # let state = Default::default();
    /// # let error = futures::executor::block_on(report(&CoreRequest::new(&task, &state))).unwrap_err();
    /// # assert_eq!(error.to_string(), "storage: not available here");
    /// ```
    async fn read(&self, _uri: &str) -> Result<Option<Vec<u8>>, ServiceError> {
        Err(ServiceError::unavailable("storage"))
    }

    /// A secret of the executor.
    async fn secret(&self, _name: &str) -> Result<String, ServiceError> {
        Err(ServiceError::unavailable("secrets"))
    }

    /// Takes a token of a pool of `tasks.pools`. Asking again for a token that the action holds is answered with
    /// [`TokenAnswer::Held`].
    async fn take_token(&self, _pool: &str) -> Result<TokenAnswer, ServiceError> {
        Err(ServiceError::unavailable("tokens"))
    }

    /// The waker of this action.
    fn waker(&self) -> Arc<dyn TaskWaker> {
        Arc::new(NoWaker)
    }
}

/// No service at all.
///
/// ```
/// use std::sync::Arc;
/// use aileron_machinery::{CoreSetup, NoServices, TaskServices};
///
/// let setup = CoreSetup::new(Arc::new(NoServices));
/// # futures::executor::block_on(async {
/// assert!(setup.secrets.get("query-password").await.is_err());
/// assert!(NoServices.inputs().await.is_err());
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoServices;

impl TaskServices for NoServices {}

struct NoWaker;

impl TaskWaker for NoWaker {
    fn wake(&self) {}
}

#[async_trait]
impl Secrets for NoServices {
    async fn get(&self, _name: &str) -> Result<String, ServiceError> {
        Err(ServiceError::unavailable("secrets"))
    }
}

/// What a core plugin gets once, before its first task.
///
/// ```
/// use std::sync::Arc;
/// use aileron_machinery::{CoreSetup, Secrets, ServiceError, async_trait};
///
/// struct SameSecret;
///
/// #[async_trait]
/// impl Secrets for SameSecret {
///     async fn get(&self, _name: &str) -> Result<String, ServiceError> {
///         Ok("hush".into())
///     }
/// }
/// // What a test gives to `CorePlugin::setup`.
/// let setup = CoreSetup::new(Arc::new(SameSecret));
/// # assert_eq!(futures::executor::block_on(setup.secrets.get("x")).unwrap(), "hush");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct CoreSetup {
    /// The secrets of the executor.
    pub secrets: Arc<dyn Secrets>,
}

impl CoreSetup {
    /// A setup with these secrets.
    pub fn new(secrets: Arc<dyn Secrets>) -> Self {
        Self { secrets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StorageOutage;

    #[test]
    fn an_outage_of_the_object_store_stays_recognisable() {
        let outage = ServiceError::caused_by("m", StorageOutage::new("503")).into_plugin_error("no inputs: m");
        assert!(outage.storage_outage().is_some());
        let other = ServiceError::new("m").into_plugin_error("no inputs: m");
        assert_eq!((other.to_string().as_str(), other.storage_outage().is_none()), ("no inputs: m", true));
    }
}
