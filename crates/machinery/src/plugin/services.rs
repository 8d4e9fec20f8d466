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
pub trait TaskWaker: Send + Sync {
    /// Wakes the action.
    fn wake(&self);
}

/// The secrets of the executor itself, such as the credentials of a remote service.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// The secret of this name.
    async fn get(&self, name: &str) -> Result<String, ServiceError>;
}

/// Files of the attempt, secrets, tokens and waking, for one call of a core plugin.
///
/// Each method answers that the service is [not available](ServiceError::unavailable) unless it is overridden, so a test
/// implements only what the plugin uses.
#[async_trait]
pub trait TaskServices: Send + Sync {
    /// The input literals of the attempt.
    async fn inputs(&self) -> Result<LiteralMap, ServiceError> {
        Err(ServiceError::unavailable("inputs"))
    }

    /// Writes the outputs of the attempt. Write them before reporting a success.
    async fn write_outputs(&self, _outputs: &LiteralMap) -> Result<(), ServiceError> {
        Err(ServiceError::unavailable("outputs"))
    }

    /// Writes the error document of the attempt.
    async fn write_error(&self, _error: &ErrorDocument) -> Result<(), ServiceError> {
        Err(ServiceError::unavailable("error document"))
    }

    /// Reads any file of the storage; nothing if it does not exist.
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
