//! Tokens that a task must hold before its object is made.

use aileron_admission::pools::Claim;
use aileron_machinery::{ExecutionError, PhaseInfo, PluginError, TaskContext, TaskInfo};

use super::launch::Launched;
use super::waiting::waiting;
use super::{PluginManager, action_key};
use crate::manager::gob::PluginState;

/// Code of a task that wants a token of a pool that is not configured.
const UNKNOWN_POOL: &str = "UnknownPool";

impl PluginManager {
    /// Gets every token that the task needs; the phase is that of a task which has to wait, or never gets one.
    pub(super) async fn hold_tokens(
        &self,
        task: &TaskContext,
        before: &PluginState,
    ) -> Result<Option<Launched>, PluginError> {
        let Some(desk) = &self.tokens else {
            return Ok(self.plugin.token(task).map(|request| (unknown_pool(task, &request.pool), None)));
        };
        let claim = Claim::of(task, desk.waker.created(&action_key(task)).unwrap_or(task.now));
        for request in desk.pools.needed(self.plugin.as_ref(), task) {
            let name = request.pool.as_str();
            let Some(pool) = desk.pools.pool(name) else {
                return Ok(Some((unknown_pool(task, name), None)));
            };
            let wait = desk.take(name, pool, &claim).await.map_err(|error| {
                PluginError::caused_by(error.reason.clone(), format!("failed to take a token of pool {name}"), error)
            })?;
            if let Some(wait) = wait {
                return Ok(Some((waiting(task, before, wait.pending), wait.until)));
            }
        }
        Ok(None)
    }
}

/// The end of a task that wants a token which nobody will ever have.
fn unknown_pool(task: &TaskContext, name: &str) -> PhaseInfo {
    let message = format!("the task needs a token of pool {name:?}, which tasks.pools does not have");
    PhaseInfo::permanent_failure(ExecutionError::user(UNKNOWN_POOL, message), TaskInfo::at(task.now))
}
