//! Making the object of an attempt.

use std::time::Duration;

use aileron_action::metadata::ATTEMPT_LABEL;
use aileron_action::object_identity::{Claim, FINALIZER, Found, complete, examine, is_of, object_name};
use aileron_admission::backoff::later;
use aileron_admission::gate::Answer;
use aileron_admission::gate::permit::{Refused, Waiting};
use aileron_admission::request::Request;
use aileron_kubekit::ApiError;
use aileron_machinery::{
    AnyResource, ExecutionError, Pending, PendingReason, Phase, PhaseInfo, PluginError, TaskContext, TaskInfo,
    TaskMetadata,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::state::prior;
use super::waiting::waiting;
use super::{PluginManager, action_key};
use crate::cluster::Sent;
use crate::manager::gob::PluginState;
use crate::storage::outputs::read_inputs;

/// Code of a task that no quota here could ever take; Flyte 1's.
const NEVER_FITS: &str = "ResourceRequestsExceedLimits";

/// A phase, and when to look again although nothing changed.
pub(super) type Launched = (PhaseInfo, Option<Timestamp>);

/// How often to look whether an object of somebody else is gone.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// Said when an object was handed to the cluster; the control plane shows it.
const SUBMITTED: &str = "task submitted to K8s";

impl PluginManager {
    /// Builds and creates the object. A phase of `Queued` means that it exists; anything else, that it does not.
    pub(super) async fn launch(&self, task: &TaskContext, before: &PluginState) -> Result<Launched, PluginError> {
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
            let found = examine(task, &self.plugin.properties(), found.metadata());
            return Ok((self.meet(task, before, &name, found)?, None));
        }
        let request = Request::of(&self.plugin.kind(), built.as_ref());
        let pass = match self.gate.ask(&action_key(task), request, task.now) {
            Answer::Go(pass) => pass,
            Answer::Wait(waiting) => return Ok(wait(task, before, waiting)),
            Answer::Never(reason) => return Ok((never(task, reason), None)),
        };
        let created = self.objects.create(self.plugin.as_ref(), built, &|| pass.holds(Timestamp::now())).await;
        // The server may have taken its time.
        let now = task.now.max(Timestamp::now());
        let phase = match created {
            Ok(Sent::Created(version)) => {
                pass.created(version, now);
                Ok(submitted(task))
            }
            Ok(Sent::HeldBack) => return Ok(wait(task, before, pass.held_back(now))),
            Err(error) if error.is_already_exists() => {
                let found = match self.objects.look(self.plugin.as_ref(), namespace, &name).await {
                    Ok(object) => examine(task, &self.plugin.properties(), object.metadata()),
                    Err(error) if error.is_not_found() => Found::Gone,
                    Err(error) => return Err(failed_to_create(error)),
                };
                let phase = self.meet(task, before, &name, found)?;
                let look_at = match found {
                    // Objects of others are not watched, so nobody tells when one is gone.
                    Found::Terminating => Some(later(now, LOOK_AGAIN)),
                    // At once, but a server that goes on like that is not kept busy.
                    Found::Gone if prior(before).reason == phase.reason() => Some(later(now, LOOK_AGAIN)),
                    Found::Gone => Some(now),
                    Found::Ours | Found::Foreign => None,
                };
                return Ok((phase, look_at));
            }
            Err(error) => match pass.refused(&error, now) {
                Refused::Wait(waiting) => return Ok(wait(task, before, waiting)),
                Refused::Never(reason) => Ok(never(task, reason)),
                Refused::Otherwise => refused(task, error),
            },
        };
        Ok((phase?, None))
    }

    /// The object of the attempt before, if a crash kept it from being deleted.
    async fn clear_previous_attempt(&self, task: &TaskContext) {
        let Some(previous) = previous_attempt(task) else { return };
        let name = object_name(&previous, &self.plugin.properties());
        let namespace = &task.metadata.namespace;
        let Some(mut found) = self.objects.cached(self.plugin.as_ref(), namespace, &name) else { return };
        if examine(&previous, &self.plugin.properties(), found.metadata()) == Found::Ours {
            let claim = Claim::of(&previous, &self.plugin.properties(), false);
            let is_meant = |found: &ObjectMeta| claim.covers(found);
            if let Err(error) = self.objects.delete(&self.plugin.kind(), namespace, &name, &is_meant).await {
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
        let waiting = |sentence: String| waiting(task, before, Pending::new(PendingReason::Terminating, sentence));
        match found {
            Found::Ours => Ok(submitted(task)),
            Found::Terminating => {
                Ok(waiting(format!("waiting for the terminating {kind} [{namespace}/{name}] to go away")))
            }
            Found::Gone => {
                Ok(waiting(format!("waiting for the terminating {kind} [{namespace}/{name}], which just went")))
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

/// The phase of a task that the gate keeps.
fn wait(task: &TaskContext, before: &PluginState, waiting: Waiting) -> Launched {
    let Waiting { why, look_at } = waiting;
    let prior = prior(before);
    // Within one phase a version never goes back.
    let version = if prior.phase == Phase::WaitingForResources { prior.version } else { PhaseInfo::FIRST_VERSION };
    let phase = PhaseInfo::waiting_for_resources(version, why.text, TaskInfo::at(task.now)).because(why.reason);
    (phase.newer_than(&prior), Some(look_at))
}

/// The end of a task that the gate will never let through.
fn never(task: &TaskContext, reason: String) -> PhaseInfo {
    PhaseInfo::permanent_failure(ExecutionError::user(NEVER_FITS, reason), TaskInfo::at(task.now))
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
