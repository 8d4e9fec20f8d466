//! Tokens that a task must hold before its object is created.

use aileron_admission::pools::TokenClaim;
use aileron_machinery::{PluginError, TaskContext};

use super::launch::LaunchOutcome;
use super::{PluginManager, action_key};

impl PluginManager {
    /// Takes every token that the task needs. An outcome means that the task does not have all of them.
    pub(super) async fn hold_tokens(&self, task: &TaskContext) -> Result<Option<LaunchOutcome>, PluginError> {
        let requested = self.plugin.token(task).await?;
        let Some(desk) = &self.tokens else {
            return Ok(requested.map(|request| LaunchOutcome::UnknownPool(request.pool)));
        };
        let claim = TokenClaim::of(task, desk.waker.created_at(&action_key(task)).unwrap_or(task.now));
        for request in desk.pools.needed(requested, task) {
            let name = request.pool.as_str();
            let Some(pool) = desk.pools.pool(name) else {
                return Ok(Some(LaunchOutcome::UnknownPool(request.pool)));
            };
            let wait = desk.take(name, pool, &claim).await.map_err(|error| {
                PluginError::caused_by(error.reason.clone(), format!("failed to take a token of pool {name}"), error)
            })?;
            if let Some(wait) = wait {
                return Ok(Some(LaunchOutcome::Wait { pending: wait.pending, until: wait.retry_at }));
            }
        }
        Ok(None)
    }
}
