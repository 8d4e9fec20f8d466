//! The task cache: look before running, reserve while running, store after.

use std::time::Duration;

use aileron_idl::flyteidl2::core::{
    CatalogCacheStatus, NodeExecutionIdentifier, TaskExecutionIdentifier, WorkflowExecutionIdentifier,
};
use aileron_machinery::{ExecutionError, ExternalResource, Phase, PhaseInfo, ReasonInfo, TaskContext, TaskInfo, code};
use jiff::Timestamp;

use super::Reconciler;
use crate::action::Action;
use crate::catalog::{CacheKey, CacheMetadata, CatalogError};
use crate::error_text::chain;
use crate::storage::StorageError;
use crate::storage::outputs::write_outputs;

/// Under this name the cache appears among the things outside an action.
const EXTERNAL_ID: &str = "cache";

/// What the cache means for this round.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CacheDecision {
    /// The outputs were there and are now the action's own.
    Hit(PhaseInfo),
    /// Somebody else is computing them.
    Wait(PhaseInfo),
    /// The task must run.
    Run {
        /// While it runs, its reservation must be extended.
        reserved: bool,
    },
}

/// The cache could not be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum CacheStageError {
    /// The task cannot be cached, now or ever.
    #[error("{}", .0.message)]
    Unusable(ExecutionError),
    /// The outputs of a hit could not be stored.
    #[error("persisting cached outputs: {0}")]
    Outputs(#[source] StorageError),
    /// No reservation could be had.
    #[error("acquiring cache reservation: {0}")]
    Reservation(#[source] Box<CatalogError>),
}

/// How one action uses the cache.
struct CacheUse {
    key: CacheKey,
    owner: String,
    /// Only one action at a time may compute what the key stands for.
    serial: bool,
}

impl Reconciler {
    /// Before the plugin works: a hit, a wait, or a run.
    pub(super) async fn consult_cache(
        &self,
        action: &Action,
        task: &TaskContext,
    ) -> Result<CacheDecision, CacheStageError> {
        const RUN: CacheDecision = CacheDecision::Run { reserved: false };
        let (Some(usage), Some(catalog)) = (cache_use(action, task)?, &self.catalog) else { return Ok(RUN) };
        let status = action.status();
        if status.plugin_phase != Phase::Running.as_str() {
            match catalog.lookup(&usage.key).await {
                Ok(Some(hit)) => {
                    write_outputs(self.store.as_ref(), &task.paths.output_path(), &hit.outputs)
                        .await
                        .map_err(CacheStageError::Outputs)?;
                    let info = cache_info(CatalogCacheStatus::CacheHit, "cache hit", task.now);
                    return Ok(CacheDecision::Hit(PhaseInfo::success(info)));
                }
                Ok(None) => {}
                // A cache that is down makes tasks slower, not impossible.
                Err(error) => {
                    tracing::warn!(error = chain(&error), "cache lookup failed; the task runs without it");
                    return Ok(RUN);
                }
            }
        }
        if !usage.serial {
            return Ok(RUN);
        }
        let reservation = catalog
            .reserve(&usage.key, &usage.owner, self.heartbeat())
            .await
            .map_err(|error| CacheStageError::Reservation(Box::new(error)))?;
        if reservation.owner_id == usage.owner {
            return Ok(CacheDecision::Run { reserved: true });
        }
        let info = cache_info(CatalogCacheStatus::CacheMiss, "waiting for serialized cache owner", task.now);
        let reason = format!("waiting for cache to be populated by reservation owner {:?}", reservation.owner_id);
        let phase = PhaseInfo::waiting_for_cache(reason, info).with_version(status.plugin_phase_version);
        Ok(CacheDecision::Wait(phase))
    }

    /// After the plugin worked: store outputs, give the reservation back. The cache never fails a task.
    pub(super) async fn settle_cache(&self, action: &Action, task: &TaskContext, phase: &mut PhaseInfo) {
        let (Ok(Some(usage)), Some(catalog)) = (cache_use(action, task), &self.catalog) else { return };
        let ended = phase.phase();
        if ended.is_success() {
            let outputs = task.paths.output_path();
            let stored = catalog.put(&usage.key, &outputs, &entry_metadata(task), false).await;
            let status = match stored {
                Ok(()) => CatalogCacheStatus::CachePopulated,
                Err(error) if error.is_already_exists() => CatalogCacheStatus::CachePopulated,
                Err(error) => {
                    tracing::warn!(error = chain(&error), "failed to store the outputs in the cache");
                    CatalogCacheStatus::CachePutFailure
                }
            };
            if let Some(info) = phase.info_mut() {
                info.external_resources.push(external(status));
            }
        }
        if ended.is_terminal() {
            self.give_back(&usage).await;
        }
    }

    /// Gives the reservation of an action back, if it could have one.
    pub(super) async fn release_reservation(&self, action: &Action, task: &TaskContext) {
        if let Ok(Some(usage)) = cache_use(action, task) {
            self.give_back(&usage).await;
        }
    }

    async fn give_back(&self, usage: &CacheUse) {
        let Some(catalog) = self.catalog.as_ref().filter(|_| usage.serial) else { return };
        if let Err(error) = catalog.release(&usage.key, &usage.owner).await {
            tracing::warn!(error = chain(&error), "failed to release the cache reservation; it will expire");
        }
    }

    /// How often a reservation is extended; the service lets it lapse after a few missed ones.
    fn heartbeat(&self) -> Duration {
        Duration::try_from(self.requeue()).unwrap_or_default()
    }
}

fn cache_use(action: &Action, task: &TaskContext) -> Result<Option<CacheUse>, CacheStageError> {
    let template = &task.template;
    let Some(metadata) = template.metadata.as_ref().filter(|metadata| metadata.discoverable) else { return Ok(None) };
    let Some(identifier) = template.id.clone() else {
        let message = "discoverable task is missing identifier; set the template's id or turn its cache off";
        return Err(CacheStageError::Unusable(ExecutionError::user(code::BAD_TASK_SPECIFICATION, message)));
    };
    Ok(Some(CacheUse {
        key: CacheKey::new(
            identifier,
            action.object.spec.cache_key.clone(),
            metadata.cache_ignore_input_vars.clone(),
            template.interface.clone(),
            task.paths.input_path(),
        ),
        owner: format!("{}/{}", action.namespace(), action.name()),
        serial: metadata.cache_serializable,
    }))
}

fn entry_metadata(task: &TaskContext) -> CacheMetadata {
    let id = &task.metadata.id;
    CacheMetadata {
        execution: Some(TaskExecutionIdentifier {
            task_id: id.task.clone(),
            node_execution_id: Some(NodeExecutionIdentifier {
                node_id: id.action.clone(),
                execution_id: Some(WorkflowExecutionIdentifier {
                    project: id.project.clone(),
                    domain: id.domain.clone(),
                    name: id.run.clone(),
                    ..WorkflowExecutionIdentifier::default()
                }),
            }),
            retry_attempt: id.retry_attempt,
        }),
        created_at: task.now,
    }
}

fn cache_info(status: CatalogCacheStatus, reason: &str, now: Timestamp) -> TaskInfo {
    TaskInfo {
        external_resources: vec![external(status)],
        additional_reasons: vec![ReasonInfo { reason: reason.into(), occurred_at: Some(now) }],
        ..TaskInfo::at(now)
    }
}

fn external(cache_status: CatalogCacheStatus) -> ExternalResource {
    ExternalResource { external_id: EXTERNAL_ID.into(), cache_status, ..ExternalResource::default() }
}
