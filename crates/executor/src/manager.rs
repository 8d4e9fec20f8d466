//! The plugin manager: drives any Kubernetes plugin from task to object to phase.
//!
//! A plugin only computes; everything that reads or writes on its behalf happens here, one file per step:
//! `launch` creates the object, `observe` reads it, `stop` ends it, [`state`] stores what the next round needs.
//! Each step gathers facts by I/O and hands them to pure functions in files of their own (below `launch/`,
//! `observe/decide.rs`, `stop/plan.rs`).

pub mod gob;
mod launch;
mod observe;
mod round;
pub mod state;
mod stop;
mod token;
pub mod version;

use std::borrow::Cow;
use std::sync::Arc;

use aileron_admission::gate::Gate;
use aileron_admission::pools::broker::TokenBroker;
use aileron_machinery::ActionKey;
use aileron_machinery::time::clock::Clock;
use aileron_machinery::{
    CorePlugin, CoreRequest, CoreStep, ExecutionError, ObjectPlugin, Phase, PhaseInfo, PluginEntry, PluginError,
    ResourceKind, StorageOutage, TaskContext, TaskInfo, code,
};
use async_trait::async_trait;
use jiff::SignedDuration;

use self::round::Round;
use crate::cluster::Objects;
use crate::manager::gob::ManagerPhase;
use crate::storage::BlobStore;
use crate::storage::outputs::OutputsError;
use aileron_action::object_identity::object_ref;

/// An object that was created but that the watch has not shown is checked again after this time, in case that the watch
/// missed it. It is a little longer than `caches::VISIBLE_WITHIN`, after which the API server itself is asked.
const VISIBILITY_CHECK: SignedDuration = SignedDuration::from_secs(31);

/// What plugin managers work with. All managers of an executor share it.
#[derive(Clone)]
pub struct ManagerBackends {
    /// The objects in the cluster.
    pub objects: Arc<dyn Objects>,
    /// Inputs, outputs and error documents.
    pub store: Arc<dyn BlobStore>,
    /// Decides when an object may be created.
    pub gate: Arc<Gate>,
    /// The token pools, if any are configured.
    pub tokens: Option<TokenBroker>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Drives one Kubernetes plugin.
pub struct PluginManager {
    plugin: Arc<dyn ObjectPlugin>,
    objects: Arc<dyn Objects>,
    store: Arc<dyn BlobStore>,
    gate: Arc<Gate>,
    tokens: Option<TokenBroker>,
    clock: Arc<dyn Clock>,
}

impl PluginManager {
    /// A manager for this plugin.
    pub fn new(plugin: Arc<dyn ObjectPlugin>, backends: ManagerBackends) -> Self {
        let ManagerBackends { objects, store, gate, tokens, clock } = backends;
        Self { plugin, objects, store, gate, tokens, clock }
    }

    /// The kind of object its plugin makes.
    pub fn kind(&self) -> ResourceKind {
        self.plugin.kind()
    }

    /// The action waits neither for admission nor for a token any more.
    fn stop_waiting(&self, task: &TaskContext) {
        let key = action_key(task);
        self.gate.withdraw(&key, self.clock.instant());
        if let Some(tokens) = &self.tokens {
            tokens.pools.stop_waiting(&key);
        }
    }

    /// The task with what the plugin read from the definition of its kind.
    fn with_definition<'a>(&self, task: &'a TaskContext) -> Cow<'a, TaskContext> {
        let mut task = Cow::Borrowed(task);
        if self.plugin.properties().reads_definition
            && let Some(definition) = self.objects.definition(&self.plugin.entry().id)
        {
            task.to_mut().definition = Some(definition);
        }
        task
    }
}

#[async_trait]
impl CorePlugin for PluginManager {
    fn entry(&self) -> PluginEntry {
        self.plugin.entry()
    }

    async fn handle(&self, request: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
        let task = request.task;
        let before = match state::read(request.state) {
            Ok(state) => state,
            // The stored bytes are the same in every round, so a retry would fail too.
            Err(error) => {
                let error = ExecutionError::system(code::CORRUPTED_PLUGIN_STATE, error.to_string());
                let phase = PhaseInfo::permanent_failure(error, TaskInfo::at(task.now)).with_cleanup();
                return Ok(CoreStep::of(phase));
            }
        };
        let object = object_ref(task, self.plugin.kind(), &self.plugin.properties());
        let round = Round { now: task.now, prior: state::prior(&before), object };
        let (phase, after, wake_at) = match before.phase {
            ManagerPhase::NotStarted => {
                let launched = self.launch(task, &round).await?;
                let mut after = state::with_phase(&before, &launched.phase);
                if launched.phase.phase() == Phase::Queued {
                    after.phase = ManagerPhase::Started;
                }
                (launched.phase, after, launched.check_at)
            }
            ManagerPhase::Started => match self.observe(task, &round, &before).await? {
                Some(seen) => {
                    let ended = seen.phase.phase().is_terminal();
                    if ended {
                        self.gate.object_ended(&action_key(task), &round.object.kind, self.clock.instant());
                    }
                    let check_at = seen.phase.check_at().filter(|_| !ended);
                    (seen.phase, seen.state, check_at)
                }
                None => {
                    let wake_at = task.now.checked_add(VISIBILITY_CHECK).ok();
                    return Ok(CoreStep { phase: PhaseInfo::undefined(), state: None, wake_at });
                }
            },
        };
        let write = (after != before).then(|| state::write(&after));
        Ok(CoreStep { phase, state: write, wake_at })
    }

    async fn abort(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        self.stop_waiting(request.task);
        self.stop(request.task, has_started(request)).await
    }

    async fn discard(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        self.stop_waiting(request.task);
        self.delete(request.task, has_started(request)).await
    }

    async fn finalize(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        // Tokens stay: another attempt may follow. They are returned when the action has ended.
        self.release(request.task, has_started(request)).await
    }
}

/// A file of the task that could not be read. The reconciler waits for the end of an outage; it counts other errors.
fn storage_error(error: &OutputsError, message: String) -> PluginError {
    if error.is_outage() { StorageOutage::new(message).into() } else { PluginError::uncoded(message) }
}

/// Whether the attempt is known to have an object.
fn has_started(request: &CoreRequest<'_>) -> bool {
    state::read(request.state).is_ok_and(|state| state.phase == ManagerPhase::Started)
}

/// The action of a task.
pub(crate) fn action_key(task: &TaskContext) -> ActionKey {
    ActionKey::new(&task.metadata.namespace, &task.metadata.owner.name)
}

#[cfg(test)]
mod tests;
