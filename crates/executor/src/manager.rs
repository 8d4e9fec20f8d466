//! The plugin manager: drives any Kubernetes plugin from task to object to phase.
//!
//! A plugin only computes; everything that reads or writes on its behalf happens here, one file per step:
//! [`launch`] makes the object, [`observe`] reads it, [`stop`] ends it, [`state`] remembers.

pub(crate) mod identity;
mod launch;
mod observe;
pub mod state;
mod stop;

use std::sync::Arc;

use aileron_machinery::{
    AnyK8sPlugin, CorePlugin, CoreRequest, CoreStep, ExecutionError, PhaseInfo, PluginEntry, PluginError, ResourceKind,
    TaskInfo, code,
};
use async_trait::async_trait;
use jiff::SignedDuration;

use crate::cluster::Objects;
use crate::gob::ManagerPhase;
use crate::storage::BlobStore;

/// When to look again for an object that was created but is not to be seen, should its appearance be missed.
const VISIBLE_WITHIN: SignedDuration = SignedDuration::from_secs(31);

/// Drives one Kubernetes plugin.
pub struct PluginManager {
    plugin: Arc<dyn AnyK8sPlugin>,
    objects: Arc<dyn Objects>,
    store: Arc<dyn BlobStore>,
}

impl PluginManager {
    /// A manager for this plugin on this cluster.
    pub fn new(plugin: Arc<dyn AnyK8sPlugin>, objects: Arc<dyn Objects>, store: Arc<dyn BlobStore>) -> Self {
        Self { plugin, objects, store }
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
                let phase = self.launch(request.task, &before).await?;
                let mut after = state::with_phase(&before, &phase);
                if phase.phase() == aileron_machinery::Phase::Queued {
                    after.phase = ManagerPhase::Started;
                }
                (phase, after, None)
            }
            ManagerPhase::Started => match self.observe(request.task, &before).await? {
                Some(seen) => (seen.phase, seen.state, seen.due),
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
        self.stop(request.task).await
    }

    async fn finalize(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        self.release(request.task).await
    }
}
