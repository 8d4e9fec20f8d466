//! Creating the object of an attempt: this file does the I/O, [`decide`] says what the outcome means.

mod decide;

use std::borrow::Cow;

use aileron_action::metadata::ATTEMPT_LABEL;
use aileron_action::object_identity::{Found, OBJECT_FINALIZER, Ownership, complete, examine, is_of, object_ref};
use aileron_admission::create_request::CreateRequest;
use aileron_admission::gate::{Admission, RefusedCreate, Waiting};
use aileron_kubekit::ApiError;
use aileron_machinery::pod::{PodOptions, build_pod};
use aileron_machinery::time::jitter::random;
use aileron_machinery::{AnyResource, Needs, Pending, PluginError, TaskContext, TaskMetadata};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::round::Round;
use super::{PluginManager, action_key, storage_error};
use crate::cluster::Sent;
use crate::storage::outputs::read_inputs;

pub(super) use decide::{LaunchOutcome, Launched};

impl PluginManager {
    /// Builds and creates the object, as far as kind, tokens and admission allow it.
    pub(super) async fn launch(&self, task: &TaskContext, round: &Round) -> Result<Launched, PluginError> {
        let outcome = self.try_launch(task, round).await?;
        if outcome == LaunchOutcome::KindMissing {
            // A task that cannot start must not keep its place in the admission queue.
            self.gate.withdraw(&action_key(task), self.clock.instant());
        }
        decide::decide(round, outcome)
    }

    async fn try_launch(&self, task: &TaskContext, round: &Round) -> Result<LaunchOutcome, PluginError> {
        if self.objects.kind_missing(&round.object.kind) {
            return Ok(LaunchOutcome::KindMissing);
        }
        if let Some(outcome) = self.hold_tokens(task).await? {
            return Ok(outcome);
        }
        let needs = self.plugin.needs(task).await?;
        let mut built = self.plugin.build(self.prepared(task, needs).await?.as_ref()).await?;
        let properties = self.plugin.properties();
        complete(task, &properties, built.as_mut());
        self.clear_previous_attempt(task).await;

        let (namespace, name) = (round.object.namespace.as_str(), round.object.name.as_str());
        // The watch cache may know the answer of the API server already, for example after a restart.
        if let Some(found) = self.objects.cached(self.plugin.as_ref(), namespace, name) {
            self.release_terminating(task, found.as_ref()).await;
            let found = examine(task, &properties, found.metadata());
            return Ok(LaunchOutcome::NameTaken { found, asked_at: None });
        }
        let request = CreateRequest::of(&round.object.kind, built.as_ref());
        let permit = match self.gate.request_permit(&action_key(task), request, self.clock.instant()) {
            Admission::Permit(permit) => permit,
            Admission::Wait(waiting) => return Ok(self.admission_wait(waiting)),
            Admission::NeverFits(reason) => return Ok(LaunchOutcome::NeverAdmitted(reason)),
        };
        let still_admitted = || permit.is_valid(self.clock.instant());
        let created = self.objects.create(self.plugin.as_ref(), built, &still_admitted).await;
        // The request may have taken long.
        let now = self.clock.instant();
        Ok(match created {
            Ok(Sent::Created(version)) => {
                permit.created(version, now);
                LaunchOutcome::Created
            }
            Ok(Sent::HeldBack) => self.admission_wait(permit.not_sent(now)),
            Err(error) if error.is_already_exists() => {
                let found = match self.objects.get_live(self.plugin.as_ref(), namespace, name).await {
                    Ok(object) => examine(task, &properties, object.metadata()),
                    Err(error) if error.is_kind_not_served() => return Ok(LaunchOutcome::Refused(error)),
                    Err(error) if error.is_not_found() => Found::Gone,
                    Err(error) => return Err(failed_to_create(error)),
                };
                LaunchOutcome::NameTaken { found, asked_at: Some(task.now.max(self.clock.now())) }
            }
            Err(error) => match permit.refused(&error, now, random()) {
                RefusedCreate::Wait(waiting) => self.admission_wait(waiting),
                RefusedCreate::NeverFits(reason) => LaunchOutcome::NeverAdmitted(reason),
                RefusedCreate::OtherError => LaunchOutcome::Refused(error),
            },
        })
    }

    /// The gate counts in monotonic time; the reconciler wants the time of day at which to run the next round.
    fn admission_wait(&self, waiting: Waiting) -> LaunchOutcome {
        let Waiting { reason, recheck_at } = waiting;
        let pause = recheck_at.saturating_duration_since(self.clock.instant());
        let until = self.clock.now().checked_add(pause).ok();
        LaunchOutcome::Wait { pending: Pending::new(reason.code, reason.text), until }
    }

    /// The task with everything that the plugin needs for `build`.
    async fn prepared<'a>(&self, task: &'a TaskContext, needs: Needs) -> Result<Cow<'a, TaskContext>, PluginError> {
        let mut task = self.with_definition(task);
        if needs.inputs {
            let inputs = read_inputs(self.store.as_ref(), &task.paths.input_path()).await;
            let inputs = inputs.map_err(|error| storage_error(&error, format!("unable to read inputs: {error}")))?;
            task.to_mut().inputs = Some(inputs.into());
        }
        if needs.base_pod {
            let pod = build_pod(&task, PodOptions::default())?.into_pod();
            task.to_mut().base_pod = Some(pod.into());
        }
        Ok(task)
    }

    /// Deletes the object of the attempt before, if a crash of the executor prevented that.
    async fn clear_previous_attempt(&self, task: &TaskContext) {
        let Some(previous) = previous_attempt(task) else { return };
        let properties = self.plugin.properties();
        let object = object_ref(&previous, self.plugin.kind(), &properties);
        let (namespace, name) = (object.namespace.as_str(), object.name.as_str());
        let Some(mut found) = self.objects.cached(self.plugin.as_ref(), namespace, name) else { return };
        if examine(&previous, &properties, found.metadata()) == Found::Ours {
            let ownership = Ownership::of(&previous, &properties, false);
            let is_ours = |found: &ObjectMeta| ownership.covers(found);
            if let Err(error) = self.objects.delete(&object.kind, namespace, name, &is_ours).await {
                tracing::warn!(%error, name, "failed to delete the object of the attempt before");
            }
            let Some(deleted) = self.objects.cached(self.plugin.as_ref(), namespace, name) else { return };
            found = deleted;
        }
        self.release_terminating(&previous, found.as_ref()).await;
    }

    /// Removes our finalizer from an object of ours that is being deleted, if a crash of the executor prevented that.
    async fn release_terminating(&self, task: &TaskContext, found: &dyn AnyResource) {
        let metadata = found.metadata();
        let bears_ours = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == OBJECT_FINALIZER);
        if bears_ours
            && metadata.deletion_timestamp.is_some()
            && is_of(task, &self.plugin.properties(), metadata)
            && let Err(error) = self.objects.remove_finalizer(&self.plugin.kind(), found, OBJECT_FINALIZER).await
        {
            tracing::warn!(%error, name = metadata.name, "failed to remove our finalizer from a terminating object");
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
    let mut previous = task.clone();
    previous.metadata = metadata.into();
    Some(previous)
}

fn failed_to_create(error: ApiError) -> PluginError {
    PluginError::caused_by(error.reason.clone(), "failed to create resource", error)
}
