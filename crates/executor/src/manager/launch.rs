//! Creating the object of an attempt: this file does the I/O. Pure functions decide which step is next
//! ([`mod@before_create`]), what the answers mean ([`mod@after_create`], [`decide`]), and what happens to objects that a
//! crash left behind ([`leftover`]).

mod after_create;
mod before_create;
mod decide;
mod leftover;

use std::borrow::Cow;

use aileron_action::metadata::ATTEMPT_LABEL;
use aileron_action::object_identity::{Found, OBJECT_FINALIZER, Ownership, complete, examine, is_of, object_ref};
use aileron_admission::create_request::CreateRequest;
use aileron_admission::gate::{Admission, CreatePermit, RefusedCreate, Waiting};
use aileron_machinery::pod::{PodOptions, build_pod};
use aileron_machinery::time::jitter::random;
use aileron_machinery::{AnyResource, Needs, Pending, PluginError, TaskContext, TaskMetadata};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::after_create::{CreateAnswer, GateAnswer, GateWait, after_create};
use self::before_create::{BeforeCreate, Known, before_create};
use self::leftover::{LeftoverStep, leftover_step};
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

    /// Carries out the steps of a launch.
    async fn try_launch(&self, task: &TaskContext, round: &Round) -> Result<LaunchOutcome, PluginError> {
        let mut known = Known::Kind { is_missing: self.objects.kind_missing(&round.object.kind) };
        let object = loop {
            known = match before_create(known) {
                BeforeCreate::TakeTokens => Known::Tokens { lacking: self.hold_tokens(task).await? },
                BeforeCreate::Build => {
                    let object = self.build(task).await?;
                    self.clear_previous_attempt(task).await;
                    Known::Built { object, name_taken_by: self.cached_owner(task, round).await }
                }
                BeforeCreate::AskGate(object) => break object,
                BeforeCreate::End(outcome) => return Ok(outcome),
            };
        };
        let request = CreateRequest::of(&round.object.kind, object.as_ref());
        match self.gate.request_permit(&action_key(task), request, self.clock.instant()) {
            Admission::Permit(permit) => after_create(self.create(task, round, object, permit).await),
            Admission::Wait(waiting) => Ok(self.gate_wait(waiting).into()),
            Admission::NeverFits(reason) => Ok(LaunchOutcome::NeverAdmitted(reason)),
        }
    }

    /// The object of the attempt, complete.
    async fn build(&self, task: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError> {
        let needs = self.plugin.needs(task).await?;
        let mut built = self.plugin.build(self.prepared(task, needs).await?.as_ref()).await?;
        complete(task, &self.plugin.properties(), built.as_mut());
        Ok(built)
    }

    /// Whose object has the name of the attempt in the watch cache, if there is one.
    async fn cached_owner(&self, task: &TaskContext, round: &Round) -> Option<Found> {
        let (namespace, name) = (round.object.namespace.as_str(), round.object.name.as_str());
        let found = self.objects.cached(self.plugin.as_ref(), namespace, name)?;
        self.release_terminating(task, found.as_ref()).await;
        Some(examine(task, &self.plugin.properties(), found.metadata()))
    }

    /// Sends the create request and tells the gate what came of it. An object that has the name already is read.
    async fn create(
        &self,
        task: &TaskContext,
        round: &Round,
        object: Box<dyn AnyResource>,
        permit: CreatePermit<'_>,
    ) -> CreateAnswer {
        let still_admitted = || permit.is_valid(self.clock.instant());
        let created = self.objects.create(self.plugin.as_ref(), object, &still_admitted).await;
        // The request may have taken long.
        let now = self.clock.instant();
        match created {
            Ok(Sent::Created(version)) => {
                permit.created(version, now);
                CreateAnswer::Created
            }
            Ok(Sent::HeldBack) => CreateAnswer::NotSent(self.gate_wait(permit.not_sent(now))),
            Err(error) if error.is_already_exists() => {
                let (namespace, name) = (round.object.namespace.as_str(), round.object.name.as_str());
                let live = self.objects.get_live(self.plugin.as_ref(), namespace, name).await;
                let live = live.map(|found| examine(task, &self.plugin.properties(), found.metadata()));
                CreateAnswer::AlreadyExists { live, asked_at: task.now.max(self.clock.now()) }
            }
            Err(error) => {
                let gate = match permit.refused(&error, now, random()) {
                    RefusedCreate::Wait(waiting) => GateAnswer::Wait(self.gate_wait(waiting)),
                    RefusedCreate::NeverFits(reason) => GateAnswer::NeverFits(reason),
                    RefusedCreate::OtherError => GateAnswer::NotItsConcern,
                };
                CreateAnswer::Refused { error, gate }
            }
        }
    }

    /// The gate counts in monotonic time; the reconciler wants the time of day at which to run the next round.
    fn gate_wait(&self, waiting: Waiting) -> GateWait {
        let Waiting { reason, recheck_at } = waiting;
        let pause = recheck_at.saturating_duration_since(self.clock.instant());
        GateWait::for_at_most(pause, Pending::new(reason.code, reason.text), self.clock.now())
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
        if self.leftover_step(&previous, found.metadata()) == LeftoverStep::Delete {
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
        if self.leftover_step(task, metadata) == LeftoverStep::RemoveFinalizer
            && let Err(error) = self.objects.remove_finalizer(&self.plugin.kind(), found, OBJECT_FINALIZER).await
        {
            tracing::warn!(%error, name = metadata.name, "failed to remove our finalizer from a terminating object");
        }
    }

    fn leftover_step(&self, task: &TaskContext, found: &ObjectMeta) -> LeftoverStep {
        leftover_step(found, is_of(task, &self.plugin.properties(), found))
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
