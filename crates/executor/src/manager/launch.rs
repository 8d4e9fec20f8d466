//! Making the object of an attempt.

use aileron_machinery::{AnyResource, ExecutionError, PhaseInfo, PluginError, TaskContext, TaskInfo, TaskMetadata};

use super::PluginManager;
use super::identity::{FINALIZER, Found, complete, examine, is_of, object_name};
use super::state::prior;
use crate::action::metadata::ATTEMPT_LABEL;
use crate::cluster::ApiError;
use crate::gob::PluginState;
use crate::storage::outputs::read_inputs;

/// Said when an object was handed to the cluster; the control plane shows it.
const SUBMITTED: &str = "task submitted to K8s";

impl PluginManager {
    /// Builds and creates the object. A phase of `Queued` means that it exists; anything else, that it does not.
    pub(super) async fn launch(&self, task: &TaskContext, before: &PluginState) -> Result<PhaseInfo, PluginError> {
        let mut built = if self.plugin.needs(task).inputs {
            let mut task = task.clone();
            let inputs = read_inputs(self.store.as_ref(), &task.paths.input_path()).await;
            let inputs = inputs.map_err(|error| PluginError::uncoded(format!("unable to read inputs: {error}")))?;
            task.inputs = Some(inputs.into());
            self.plugin.build(&task)?
        } else {
            self.plugin.build(task)?
        };
        complete(task, &self.plugin.properties(), built.as_mut());
        let name = built.metadata().name.clone().unwrap_or_default();
        let namespace = task.metadata.namespace.as_str();

        self.clear_previous_attempt(task).await;
        // Before asking the server: the answer may be known already, after a restart for one.
        if let Some(found) = self.objects.cached(self.plugin.as_ref(), namespace, &name) {
            self.let_terminate(task, found.as_ref()).await;
            return self.meet(task, before, &name, examine(task, &self.plugin.properties(), found.metadata()));
        }
        match self.objects.create(self.plugin.as_ref(), built).await {
            Ok(()) => Ok(submitted(task)),
            Err(error) if error.is_already_exists() => {
                let found = match self.objects.look(self.plugin.as_ref(), namespace, &name).await {
                    Ok(object) => examine(task, &self.plugin.properties(), object.metadata()),
                    // Gone meanwhile: the next look at it will tell, as it would for any object that goes away.
                    Err(error) if error.is_not_found() => Found::Ours,
                    Err(error) => return Err(failed_to_create(error)),
                };
                self.meet(task, before, &name, found)
            }
            Err(error) => refused(task, error),
        }
    }

    /// The object of the attempt before, if a crash kept it from being deleted.
    async fn clear_previous_attempt(&self, task: &TaskContext) {
        let Some(previous) = previous_attempt(task) else { return };
        let name = object_name(&previous, &self.plugin.properties());
        let namespace = &task.metadata.namespace;
        let Some(mut found) = self.objects.cached(self.plugin.as_ref(), namespace, &name) else { return };
        if examine(&previous, &self.plugin.properties(), found.metadata()) == Found::Ours {
            if let Err(error) = self.objects.delete(&self.plugin.kind(), namespace, &name).await {
                tracing::warn!(%error, name, "failed to delete the object of the attempt before");
            }
            let Some(deleted) = self.objects.cached(self.plugin.as_ref(), namespace, &name) else { return };
            found = deleted;
        }
        self.let_terminate(&previous, found.as_ref()).await;
    }

    /// Takes our finalizer off an object of ours that is being deleted, if a crash kept it from being taken off then.
    async fn let_terminate(&self, task: &TaskContext, found: &dyn AnyResource) {
        let metadata = found.metadata();
        let bears_ours = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
        if bears_ours
            && metadata.deletion_timestamp.is_some()
            && is_of(task, &self.plugin.properties(), metadata)
            && let Err(error) = self.objects.remove_finalizer(&self.plugin.kind(), found, FINALIZER).await
        {
            tracing::warn!(%error, name = metadata.name, "failed to take our finalizer off an object that goes away");
        }
    }

    /// What to do about an object that already has the name.
    fn meet(
        &self,
        task: &TaskContext,
        before: &PluginState,
        name: &str,
        found: Found,
    ) -> Result<PhaseInfo, PluginError> {
        let kind = self.plugin.kind().kind;
        let namespace = &task.metadata.namespace;
        match found {
            Found::Ours => Ok(submitted(task)),
            Found::Terminating => {
                let reason = format!("waiting for the terminating {kind} [{namespace}/{name}] to go away");
                Ok(PhaseInfo::waiting_for_resources(PhaseInfo::FIRST_VERSION, reason, TaskInfo::at(task.now))
                    .newer_than(&prior(before)))
            }
            Found::Foreign => Err(PluginError::new(
                "ForeignObject",
                format!(
                    "{kind} [{namespace}/{name}] exists and does not belong to this attempt of the action; delete it \
                     to let the task start"
                ),
            )),
        }
    }
}

/// The same task one attempt earlier, as far as names and identity go.
fn previous_attempt(task: &TaskContext) -> Option<TaskContext> {
    let retry_attempt = task.metadata.id.retry_attempt.checked_sub(1)?;
    let mut metadata = TaskMetadata::clone(&task.metadata);
    metadata.id.generated_name = format!("{}-{retry_attempt}", metadata.owner.name);
    metadata.id.retry_attempt = retry_attempt;
    metadata.labels.insert(ATTEMPT_LABEL.into(), task.metadata.id.retry_attempt.to_string());
    Some(TaskContext { metadata: metadata.into(), ..task.clone() })
}

fn submitted(task: &TaskContext) -> PhaseInfo {
    PhaseInfo::queued(PhaseInfo::FIRST_VERSION, SUBMITTED, TaskInfo::at(task.now))
}

/// The outcome of a refused create. Mirrors `PluginManager.launchResource`.
fn refused(task: &TaskContext, error: ApiError) -> Result<PhaseInfo, PluginError> {
    let info = TaskInfo::at(task.now);
    // The same object would be refused the same way, so these end the task at once.
    let permanent = [
        (error.is_too_large(), "EntityTooLarge"),
        (error.is_invalid(), "InvalidResource"),
        (error.is_bad_request(), "BadRequest"),
    ];
    if error.is_forbidden() {
        return Ok(PhaseInfo::retryable_failure(ExecutionError::user("RuntimeFailure", error.message), info));
    }
    match permanent.into_iter().find(|(matches, _)| *matches) {
        Some((_, code)) => Ok(PhaseInfo::permanent_failure(ExecutionError::user(code, error.message), info)),
        None => Err(failed_to_create(error)),
    }
}

fn failed_to_create(error: ApiError) -> PluginError {
    PluginError::caused_by(error.reason.clone(), "failed to create resource", error)
}
