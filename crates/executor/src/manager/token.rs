//! Tokens that a task must hold before its object is made.

use std::sync::Arc;

use aileron_machinery::{ExecutionError, PendingReason, PhaseInfo, PluginError, TaskContext, TaskInfo};

use super::state::prior;
use super::{PluginManager, action_key};
use crate::gob::PluginState;
use crate::pools::limits::{Account, admitted};
use crate::pools::{Answer, Pools, TokenStore};

/// Code of a task that wants a token of a pool that is not configured.
const UNKNOWN_POOL: &str = "UnknownPool";

/// The pools, and how their tokens are made.
#[derive(Clone)]
pub struct TokenDesk {
    /// Who holds what.
    pub pools: Arc<Pools>,
    /// The tokens in the cluster.
    pub store: Arc<dyn TokenStore>,
}

impl PluginManager {
    /// Gets every token that the task needs; the phase is that of a task which has to wait, or never gets one.
    pub(super) async fn hold_tokens(
        &self,
        task: &TaskContext,
        before: &PluginState,
    ) -> Result<Option<PhaseInfo>, PluginError> {
        let Some(TokenDesk { pools, store }) = &self.tokens else { return Ok(None) };
        let key = action_key(task);
        let id = &task.metadata.id;
        let account = Account { project: id.project.clone(), domain: id.domain.clone() };
        for request in pools.needed(self.plugin.as_ref(), task) {
            let name = request.pool.as_str();
            let Some(pool) = pools.pool(name) else {
                let message = format!("the task needs a token of pool {name:?}, which tasks.pools does not have");
                let error = ExecutionError::user(UNKNOWN_POOL, message);
                return Ok(Some(PhaseInfo::permanent_failure(error, TaskInfo::at(task.now))));
            };
            let wait = |words: String| {
                PhaseInfo::waiting_for_resources(PhaseInfo::FIRST_VERSION, words, TaskInfo::at(task.now))
                    .because(PendingReason::Pool)
                    .newer_than(&prior(before))
            };
            match pools.ask(name, pool, &key, &account) {
                Answer::Held => continue,
                Answer::Wait(words) => return Ok(Some(wait(words))),
                Answer::Take => {}
            }
            let taken = match store.create(name, task).await {
                // Another executor may have taken one at the same moment; whoever is one too many gives it back.
                Ok(()) => store.list(name).await.map(|tokens| admitted(&pool.limits, tokens, &key)),
                Err(error) => Err(error),
            };
            match taken {
                Ok(true) => {}
                taken => {
                    pools.missed(name, &key, &account);
                    // If this fails too, the token is seen by the watch, and counts as this task's after all.
                    let returned = store.delete(name, &key).await;
                    taken.and(returned).map_err(|error| {
                        PluginError::caused_by(
                            error.reason.clone(),
                            format!("failed to take a token of pool {name}"),
                            error,
                        )
                    })?;
                    return Ok(Some(wait(format!("pool {name}: the last token was taken a moment before"))));
                }
            }
        }
        Ok(None)
    }

    /// Gives back what the action holds, when it goes. Should that fail, its tokens go with it a little later.
    pub(super) async fn give_tokens_back(&self, task: &TaskContext) {
        let Some(TokenDesk { pools, store }) = &self.tokens else { return };
        let key = action_key(task);
        for (pool, holder) in pools.holders().into_iter().filter(|(_, holder)| *holder == key) {
            if let Err(error) = store.delete(&pool, &holder).await {
                tracing::warn!(pool, %error, "a token could not be given back; it goes with the action");
            }
        }
    }
}
