//! The plugin manager: drives any Kubernetes plugin from task to object to phase.
//!
//! A plugin only computes; everything that reads or writes on its behalf happens here, one file per step:
//! [`launch`] makes the object, [`observe`] reads it, [`stop`] ends it, [`state`] remembers.

pub mod gob;
mod launch;
mod missing;
mod observe;
pub mod state;
mod stop;
mod token;
mod waiting;

use std::sync::Arc;

use aileron_admission::gate::Gate;
use aileron_admission::pools::broker::TokenBroker;
use aileron_machinery::ActionKey;
use aileron_machinery::{
    AnyK8sPlugin, CorePlugin, CoreRequest, CoreStep, ExecutionError, PhaseInfo, PluginEntry, PluginError, ResourceKind,
    TaskContext, TaskInfo, code,
};
use async_trait::async_trait;
use jiff::SignedDuration;

use crate::cluster::Objects;
use crate::manager::gob::ManagerPhase;
use crate::storage::BlobStore;

/// When to look again for an object that was created but is not to be seen, should its appearance be missed.
const VISIBLE_WITHIN: SignedDuration = SignedDuration::from_secs(31);

/// Drives one Kubernetes plugin.
pub struct PluginManager {
    plugin: Arc<dyn AnyK8sPlugin>,
    objects: Arc<dyn Objects>,
    store: Arc<dyn BlobStore>,
    gate: Arc<Gate>,
    tokens: Option<TokenBroker>,
}

impl PluginManager {
    /// A manager for this plugin on this cluster. All managers share a gate.
    pub fn new(
        plugin: Arc<dyn AnyK8sPlugin>,
        objects: Arc<dyn Objects>,
        store: Arc<dyn BlobStore>,
        gate: Arc<Gate>,
    ) -> Self {
        Self { plugin, objects, store, gate, tokens: None }
    }

    /// The same, giving out tokens.
    #[must_use]
    pub fn with_tokens(self, tokens: Option<TokenBroker>) -> Self {
        Self { tokens, ..self }
    }

    /// The kind of object its plugin makes.
    pub fn kind(&self) -> ResourceKind {
        self.plugin.kind()
    }
}

#[async_trait]
impl CorePlugin for PluginManager {
    fn entry(&self) -> PluginEntry {
        self.plugin.entry()
    }

    async fn handle(&self, request: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
        let now = request.task.now;
        let before = match state::read(request.state) {
            Ok(state) => state,
            // The bytes are the same in every round, so trying again is no use.
            Err(error) => {
                let error = ExecutionError::system(code::CORRUPTED_PLUGIN_STATE, error.to_string());
                let phase = PhaseInfo::permanent_failure(error, TaskInfo::at(now)).with_cleanup();
                return Ok(CoreStep::of(phase));
            }
        };
        let (phase, after, wake_at) = match before.phase {
            ManagerPhase::NotStarted => {
                let (phase, look_at) = self.launch_if_served(request.task, &before).await?;
                let mut after = state::with_phase(&before, &phase);
                if phase.phase() == aileron_machinery::Phase::Queued {
                    after.phase = ManagerPhase::Started;
                }
                (phase, after, look_at)
            }
            ManagerPhase::Started => match self.observe(request.task, &before).await? {
                Some(seen) => {
                    if seen.phase.phase().is_terminal() {
                        self.gate.freed(&action_key(request.task), &self.plugin.kind(), now);
                    }
                    (seen.phase, seen.state, seen.due)
                }
                None => {
                    let wake_at = now.checked_add(VISIBLE_WITHIN).ok();
                    return Ok(CoreStep { phase: PhaseInfo::undefined(), state: None, wake_at });
                }
            },
        };
        let write = (after != before).then(|| state::write(&after));
        Ok(CoreStep { phase, state: write, wake_at })
    }

    async fn abort(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        let key = action_key(request.task);
        self.gate.leave(&key, request.task.now);
        if let Some(tokens) = &self.tokens {
            tokens.pools.leave(&key);
        }
        self.stop(request.task, has_started(request)).await
    }

    async fn finalize(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        // Tokens stay: another attempt may follow. They are given back when the action is no longer at work.
        self.release(request.task, has_started(request)).await
    }
}

/// The attempt is known to have an object.
fn has_started(request: &CoreRequest<'_>) -> bool {
    state::read(request.state).is_ok_and(|state| state.phase == ManagerPhase::Started)
}

/// The action of a task.
fn action_key(task: &TaskContext) -> ActionKey {
    ActionKey::new(&task.metadata.namespace, &task.metadata.owner.name)
}
