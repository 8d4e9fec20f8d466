//! The task cache: look up before a run, reserve while it runs, store outputs after it. [`decide`] has the rules.

mod decide;

use std::time::Duration;

use aileron_action::Action;
use aileron_idl::flyteidl2::core::{
    CatalogCacheStatus, NodeExecutionIdentifier, TaskExecutionIdentifier, WorkflowExecutionIdentifier,
};
use aileron_machinery::error_text::chain;
use aileron_machinery::{ExecutionError, Phase, PhaseInfo, TaskContext, code};

use self::decide::{
    AfterLookup, BeforeLookup, Lookup, after_lookup, after_reserve, at_end, before_lookup, external, hit,
};
use super::Reconciler;
use super::decide::has_started;
use crate::services::cache::{CacheKey, CacheMetadata, CatalogError};
use crate::services::connect::{Code, ConnectError};
use crate::storage::StorageError;
use crate::storage::outputs::write_outputs;

/// How long a task that has started waits for the cache service. It does not need the answer: without it, it goes on, and the
/// next round asks again. Longer than a slow answer takes, and short enough that the end of a task and its time limits are
/// seen soon while the cache service or the object store does not answer.
const OPTIONAL_CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// What the cache means for a round.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CacheAnswer {
    /// The outputs were in the cache, and are now stored as the action's own.
    Hit(PhaseInfo),
    /// Another action computes the outputs.
    WaitForOwner(PhaseInfo),
    /// The task must run.
    Run {
        /// While it runs, its reservation must be extended.
        reserved: bool,
    },
}

/// The cache could not be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum CacheStageError {
    /// The task can never be cached, and its author asks for it.
    #[error("{}", .0.message)]
    Unusable(ExecutionError),
    /// The outputs of a hit could not be stored.
    #[error("persisting cached outputs: {0}")]
    Outputs(#[source] StorageError),
    /// The cache service did not answer a request for a reservation.
    #[error("acquiring cache reservation: {0}")]
    Reservation(#[source] Box<CatalogError>),
    /// The object store does not work, so that the inputs or the cached outputs cannot be read.
    #[error("reading the files of the task for the cache: {0}")]
    Storage(#[source] Box<CatalogError>),
}

/// How one action uses the cache.
#[derive(Clone, Debug)]
struct CacheUse {
    key: CacheKey,
    owner: String,
    /// Only one action at a time may compute the outputs of this key.
    serial: bool,
}

impl Reconciler {
    /// Before the plugin works: a hit, a wait for another action, or a run.
    pub(super) async fn ask_cache(&self, action: &Action, task: &TaskContext) -> Result<CacheAnswer, CacheStageError> {
        let answer = self.look_up_and_reserve(action, task).await;
        if let Err(
            error @ (CacheStageError::Outputs(_) | CacheStageError::Reservation(_) | CacheStageError::Storage(_)),
        ) = &answer
        {
            tracing::warn!(%error, "the cache could not be used; trying again later");
        }
        answer
    }

    async fn look_up_and_reserve(&self, action: &Action, task: &TaskContext) -> Result<CacheAnswer, CacheStageError> {
        const RUN: CacheAnswer = CacheAnswer::Run { reserved: false };
        let usage = cache_use(action, task).map_err(CacheStageError::Unusable)?;
        let (Some(usage), Some(catalog)) = (usage, &self.catalog) else { return Ok(RUN) };
        let status = action.status();
        let phase = Phase::from_name(&status.plugin_phase);
        let limit = has_started(&status).then_some(OPTIONAL_CALL_TIMEOUT);
        let after = match before_lookup(phase, usage.serial) {
            BeforeLookup::Run => AfterLookup::Run,
            BeforeLookup::Reserve => AfterLookup::Reserve,
            BeforeLookup::LookUp => {
                let found = match answer_within(limit, "Get", catalog.lookup(&usage.key)).await {
                    Ok(Some(found)) => Lookup::Hit(found.outputs),
                    Ok(None) => Lookup::Miss,
                    Err(error) if error.is_storage_outage() => return Err(CacheStageError::Storage(Box::new(error))),
                    Err(error) => {
                        tracing::warn!(error = chain(&error), "cache lookup failed; the task runs without the cache");
                        Lookup::Unavailable
                    }
                };
                after_lookup(found, usage.serial)
            }
        };
        match after {
            AfterLookup::Run => Ok(RUN),
            AfterLookup::UseOutputs(outputs) => {
                write_outputs(self.store.as_ref(), &task.paths.output_path(), &outputs)
                    .await
                    .map_err(CacheStageError::Outputs)?;
                Ok(CacheAnswer::Hit(hit(task.now)))
            }
            AfterLookup::Reserve => {
                let reservation = catalog.reserve(&usage.key, &usage.owner, self.heartbeat());
                let reservation = answer_within(limit, "GetOrExtendReservation", reservation).await;
                let reservation = reservation.map_err(|error| match error.is_storage_outage() {
                    true => CacheStageError::Storage(Box::new(error)),
                    false => CacheStageError::Reservation(Box::new(error)),
                })?;
                let is_running = phase == Some(Phase::Running);
                let version = status.plugin_phase_version;
                Ok(after_reserve(&reservation.owner_id, &usage.owner, is_running, version, task.now))
            }
        }
    }

    /// After the plugin worked: store outputs, release the reservation. A failing cache service never fails a task.
    pub(super) async fn update_cache(&self, action: &Action, task: &TaskContext, phase: &mut PhaseInfo) {
        let (Ok(Some(usage)), Some(catalog)) = (cache_use(action, task), &self.catalog) else { return };
        let end = at_end(phase.phase());
        if end.store_outputs {
            let outputs = task.paths.output_path();
            let status = match catalog.put(&usage.key, &outputs, &entry_metadata(task), false).await {
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
        if end.release {
            self.release_usage(&usage).await;
        }
    }

    /// Releases the cache reservation of an action, if it could have one.
    pub(super) async fn release_reservation(&self, action: &Action, task: &TaskContext) {
        if let Ok(Some(usage)) = cache_use(action, task) {
            self.release_usage(&usage).await;
        }
    }

    async fn release_usage(&self, usage: &CacheUse) {
        let Some(catalog) = self.catalog.as_ref().filter(|_| usage.serial) else { return };
        let release = catalog.release(&usage.key, &usage.owner);
        if let Err(error) = answer_within(Some(OPTIONAL_CALL_TIMEOUT), "ReleaseReservation", release).await {
            tracing::warn!(error = chain(&error), "failed to release the cache reservation; it will expire");
        }
    }

    /// How often a reservation is extended. The cache service lets it expire after a few missed extensions.
    fn heartbeat(&self) -> Duration {
        Duration::try_from(self.settings.requeue()).unwrap_or_default()
    }
}

/// The answer of a call, or an error if it does not come within the limit.
async fn answer_within<T>(
    limit: Option<Duration>,
    call: &'static str,
    answer: impl Future<Output = Result<T, CatalogError>>,
) -> Result<T, CatalogError> {
    let Some(limit) = limit else { return answer.await };
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => {
            let source = ConnectError::new(Code::DeadlineExceeded, format!("no answer within {limit:?}"));
            Err(CatalogError::Service { call, source })
        }
    }
}

/// How an action uses the cache; `None` if its task is not cached, an error if it can never be.
fn cache_use(action: &Action, task: &TaskContext) -> Result<Option<CacheUse>, ExecutionError> {
    let template = &task.template;
    let Some(metadata) = template.metadata.as_ref().filter(|metadata| metadata.discoverable) else { return Ok(None) };
    let Some(identifier) = template.id.clone() else {
        let message = "discoverable task is missing identifier; set the template's id or turn its cache off";
        return Err(ExecutionError::user(code::BAD_TASK_SPECIFICATION, message));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aileron_action::TaskAction;
    use aileron_idl::flyteidl2::core::{Identifier, TaskMetadata, TaskTemplate};
    use aileron_machinery::Platform;
    use jiff::Timestamp;

    use aileron_machinery::TaskPaths;

    use super::*;

    fn task(template: TaskTemplate) -> TaskContext {
        TaskContext::new(
            Arc::new(template),
            aileron_machinery::TaskMetadata::default(),
            TaskPaths::default(),
            Platform::default(),
            Timestamp::UNIX_EPOCH,
        )
    }

    fn action() -> Action {
        let mut object = TaskAction::new("a", Default::default());
        object.metadata.namespace = Some("ns".into());
        Action::new(object, None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_started_task_does_not_wait_for_a_cache_service_that_hangs() {
        let began = tokio::time::Instant::now();
        let hangs = std::future::pending::<Result<(), CatalogError>>();
        let error = answer_within(Some(OPTIONAL_CALL_TIMEOUT), "Get", hangs).await.expect_err("no answer");
        assert_eq!((error.code(), began.elapsed()), (Code::DeadlineExceeded, OPTIONAL_CALL_TIMEOUT));
        let slow = async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(7)
        };
        assert_eq!(answer_within(None, "Get", slow).await.expect("an answer"), 7, "another task waits for it");
    }

    #[test]
    fn only_a_discoverable_task_uses_the_cache_and_it_needs_an_identifier() {
        let plain = TaskTemplate { metadata: Some(TaskMetadata::default()), ..TaskTemplate::default() };
        assert!(cache_use(&action(), &task(plain)).is_ok_and(|usage| usage.is_none()));
        let metadata = TaskMetadata { discoverable: true, cache_serializable: true, ..TaskMetadata::default() };
        let nameless = TaskTemplate { metadata: Some(metadata), ..TaskTemplate::default() };
        let error = cache_use(&action(), &task(nameless.clone())).err().unwrap_or_default();
        assert_eq!(error.code, "BadTaskSpecification");
        let named = TaskTemplate { id: Some(Identifier::default()), ..nameless };
        let usage = cache_use(&action(), &task(named)).ok().flatten();
        assert!(usage.is_some_and(|usage| usage.serial && usage.owner == "ns/a"));
    }
}
