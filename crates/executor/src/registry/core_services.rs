//! The services of the executor for core plugins: files of the task, secrets, tokens, and waking the task.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use aileron_admission::pools::TokenClaim;
use aileron_admission::waker::ActionWaker;
use aileron_config::sections::secrets::SecretsConfig;
use aileron_idl::flyteidl2::core::{ErrorDocument, LiteralMap};
use aileron_machinery::ActionKey;
use aileron_machinery::error_text::chain;
use aileron_machinery::{
    CorePlugin, CoreRequest, CoreSetup, CoreStep, PluginEntry, PluginError, Secrets, ServiceError, StorageOutage,
    TaskContext, TaskServices, TaskWaker, TokenAnswer,
};
use async_trait::async_trait;
use bytes::Bytes;
use prost::Message;

use super::Backends;
use crate::manager::action_key;
use crate::storage::outputs::read_inputs;

/// A core plugin that gets the services of the executor with each call.
pub(super) struct ServicedPlugin {
    plugin: Arc<dyn CorePlugin>,
    backends: Backends,
}

impl ServicedPlugin {
    pub(super) fn new(plugin: Arc<dyn CorePlugin>, backends: Backends) -> Self {
        Self { plugin, backends }
    }
}

impl ServicedPlugin {
    /// The action does not wait for a token any more.
    fn stop_waiting(&self, request: &CoreRequest<'_>) {
        if let Some(tokens) = &self.backends.manager.tokens {
            tokens.pools.stop_waiting(&action_key(request.task));
        }
    }
}

#[async_trait]
impl CorePlugin for ServicedPlugin {
    fn entry(&self) -> PluginEntry {
        self.plugin.entry()
    }

    async fn setup(&self, setup: CoreSetup) -> Result<(), PluginError> {
        self.plugin.setup(setup).await
    }

    async fn handle(&self, request: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
        let services = ExecutorServices { task: request.task, backends: &self.backends };
        self.plugin.handle(&request.clone().with_services(&services)).await
    }

    async fn abort(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        self.stop_waiting(request);
        let services = ExecutorServices { task: request.task, backends: &self.backends };
        self.plugin.abort(&request.clone().with_services(&services)).await
    }

    async fn discard(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        self.stop_waiting(request);
        let services = ExecutorServices { task: request.task, backends: &self.backends };
        self.plugin.discard(&request.clone().with_services(&services)).await
    }

    async fn finalize(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        let services = ExecutorServices { task: request.task, backends: &self.backends };
        self.plugin.finalize(&request.clone().with_services(&services)).await
    }
}

/// The services of the executor for one call.
struct ExecutorServices<'a> {
    task: &'a TaskContext,
    backends: &'a Backends,
}

impl ExecutorServices<'_> {
    async fn write(&self, uri: &str, content: Vec<u8>) -> Result<(), ServiceError> {
        let store = &self.backends.manager.store;
        let written = store.put(uri, Bytes::from(content)).await;
        written.map_err(|error| {
            let (message, is_outage) = (format!("failed to write {uri}: {error}"), error.is_outage());
            storage_error(message, error, is_outage)
        })
    }
}

#[async_trait]
impl TaskServices for ExecutorServices<'_> {
    async fn inputs(&self) -> Result<LiteralMap, ServiceError> {
        let inputs = read_inputs(self.backends.manager.store.as_ref(), &self.task.paths.input_path()).await;
        inputs.map_err(|error| {
            let (message, is_outage) = (error.to_string(), error.is_outage());
            storage_error(message, error, is_outage)
        })
    }

    async fn write_outputs(&self, outputs: &LiteralMap) -> Result<(), ServiceError> {
        self.write(&self.task.paths.output_path(), outputs.encode_to_vec()).await
    }

    async fn write_error(&self, error: &ErrorDocument) -> Result<(), ServiceError> {
        self.write(&self.task.paths.error_path(), error.encode_to_vec()).await
    }

    async fn read(&self, uri: &str) -> Result<Option<Vec<u8>>, ServiceError> {
        let content = self.backends.manager.store.get(uri).await;
        let content = content.map_err(|error| {
            let (message, is_outage) = (format!("failed to read {uri}: {error}"), error.is_outage());
            storage_error(message, error, is_outage)
        })?;
        Ok(content.map(|bytes| bytes.to_vec()))
    }

    async fn secret(&self, name: &str) -> Result<String, ServiceError> {
        self.backends.secrets.get(name).await
    }

    async fn take_token(&self, name: &str) -> Result<TokenAnswer, ServiceError> {
        let missing = || ServiceError::new(format!("pool {name:?}: tasks.pools does not have it"));
        let broker = self.backends.manager.tokens.as_ref().ok_or_else(missing)?;
        let pool = broker.pools.pool(name).ok_or_else(missing)?;
        let created = self.backends.waker.created_at(&action_key(self.task)).unwrap_or(self.task.now);
        let taken = broker.take(name, pool, &TokenClaim::of(self.task, created)).await;
        let wait =
            taken.map_err(|error| ServiceError::caused_by(format!("failed to take a token of pool {name}"), error))?;
        Ok(wait.map_or(TokenAnswer::Held, |wait| TokenAnswer::Wait { pending: wait.pending, until: wait.retry_at }))
    }

    fn waker(&self) -> Arc<dyn TaskWaker> {
        Arc::new(ActionHandle { key: action_key(self.task), waker: Arc::clone(&self.backends.waker) })
    }
}

/// An error of the storage, in a form in which the reconciler recognises an outage.
fn storage_error(
    message: String,
    error: impl std::error::Error + Send + Sync + 'static,
    is_outage: bool,
) -> ServiceError {
    if is_outage {
        let outage = StorageOutage::new(chain(&error));
        ServiceError::caused_by(message, outage)
    } else {
        ServiceError::caused_by(message, error)
    }
}

/// Wakes one action.
struct ActionHandle {
    key: ActionKey,
    waker: Arc<dyn ActionWaker>,
}

impl TaskWaker for ActionHandle {
    fn wake(&self) {
        self.waker.wake(&self.key);
    }
}

/// Secrets in variables and files, as section `secrets` says: the variable `<env-prefix><NAME>`, else the file
/// `<secrets-prefix>/<name>`.
///
/// Mirrors `secretmanager.FileEnvSecretManager`.
#[derive(Clone, Debug)]
pub struct LocalSecrets {
    folder: PathBuf,
    variable_prefix: String,
    environment: Arc<BTreeMap<String, String>>,
}

impl LocalSecrets {
    /// The secrets of a configuration. `environment` has the environment variables.
    pub fn new(config: &SecretsConfig, environment: BTreeMap<String, String>) -> Self {
        Self {
            folder: config.secrets_prefix.clone().into(),
            variable_prefix: config.env_prefix.clone(),
            environment: Arc::new(environment),
        }
    }
}

#[async_trait]
impl Secrets for LocalSecrets {
    async fn get(&self, name: &str) -> Result<String, ServiceError> {
        let variable = format!("{}{}", self.variable_prefix, name.to_uppercase());
        if let Some(secret) = self.environment.get(&variable) {
            return Ok(secret.clone());
        }
        // A name with a separator would lead out of the folder.
        if name.is_empty() || name.contains(['/', '\\']) || name == ".." {
            return Err(ServiceError::new(format!("{name:?} is not the name of a secret")));
        }
        let file = self.folder.join(name);
        tokio::fs::read_to_string(&file).await.map_err(|error| {
            let message = format!("secret {name:?}: neither {variable} nor {} can be read: {error}", file.display());
            ServiceError::caused_by(message, error)
        })
    }
}

#[cfg(test)]
mod tests;
