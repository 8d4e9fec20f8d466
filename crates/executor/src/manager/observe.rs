//! Reading the object of an attempt.

use aileron_action::object_identity::{Claim, object_name};
use aileron_action::pending;
use aileron_kubekit::ApiError;
use aileron_machinery::{
    AnyResource, ExecutionError, PhaseContext, PhaseInfo, PluginError, ReasonInfo, TaskContext, TaskInfo,
};
use jiff::Timestamp;

use super::PluginManager;
use super::state::{prior, with_phase};
use crate::cluster::Observed;
use crate::manager::gob::{ManagerPhase, PluginState};
use crate::storage::outputs::{TaskResult, read_error_document, read_result};

/// A phase and what to remember of it.
pub(super) struct Seen {
    pub(super) phase: PhaseInfo,
    /// When time alone may change it.
    pub(super) due: Option<Timestamp>,
    pub(super) state: PluginState,
}

impl PluginManager {
    /// Looks at the object; `None` if there is nothing to see yet.
    pub(super) async fn observe(&self, task: &TaskContext, before: &PluginState) -> Result<Option<Seen>, PluginError> {
        // A kind that is being removed may still show its objects; they go with it.
        if self.objects.lacks(&self.plugin.kind()) {
            return Ok(Some(self.without_kind(task, before)));
        }
        let properties = self.plugin.properties();
        let name = object_name(task, &properties);
        let namespace = task.metadata.namespace.as_str();
        let missing = match self.observe_own(&Claim::of(task, &properties, true), namespace, &name).await {
            Ok(Observed::NotYetVisible) => return Ok(None),
            Ok(Observed::Present(object)) => {
                let (phase, due) = self.read(task, before, object.as_ref()).await?;
                let (phase, state) = self.with_events(before, phase, namespace, &name);
                let phase = self.with_pending(task, phase, namespace, &name);
                return Ok(Some(Seen { phase, due, state }));
            }
            Ok(Observed::Absent(error)) => error,
            Err(error) if error.is_not_found() || error.is_gone() || error.is_expired() => error,
            Err(error) => return Err(PluginError::uncoded(error.message)),
        };
        if missing.is_kind_not_served() {
            return Ok(Some(self.without_kind(task, before)));
        }
        let phase = lost(task, &name, &missing);
        Ok(Some(Seen { state: with_phase(before, &phase), phase, due: None }))
    }

    /// Looks at an object. One that is not the attempt's counts as none.
    ///
    /// # Differs from upstream
    ///
    /// Upstream reads the phase of a task from any object of the right name.
    pub(super) async fn observe_own(
        &self,
        claim: &Claim<'_>,
        namespace: &str,
        name: &str,
    ) -> Result<Observed, ApiError> {
        let plugin = self.plugin.as_ref();
        let observed = self.objects.observe(plugin, namespace, name).await?;
        let Observed::Present(object) = &observed else { return Ok(observed) };
        if claim.covers(object.metadata()) {
            return Ok(observed);
        }
        // The cache may be behind, and an object that counts as lost costs the platform a failure.
        match self.objects.look(plugin, namespace, name).await {
            Ok(object) if claim.covers(object.metadata()) => Ok(Observed::Present(object)),
            Ok(_) => Ok(Observed::Absent(ApiError::somebody_elses(&plugin.kind().kind, namespace, name))),
            Err(error) if error.is_not_found() => Ok(Observed::Absent(error)),
            Err(error) => Err(error),
        }
    }

    /// With its kind the object went, too; it is made anew when the kind is back.
    fn without_kind(&self, task: &TaskContext, before: &PluginState) -> Seen {
        let phase = self.wait_for_kind(task, before);
        let state = PluginState { phase: ManagerPhase::NotStarted, ..with_phase(before, &phase) };
        Seen { phase, due: None, state }
    }

    /// The phase that an object stands for.
    async fn read(
        &self,
        task: &TaskContext,
        before: &PluginState,
        object: &dyn AnyResource,
    ) -> Result<(PhaseInfo, Option<Timestamp>), PluginError> {
        let prior = prior(before);
        let needs = self.plugin.needs(task);
        let pods = if needs.pods { self.objects.pods_of(&task.metadata) } else { Vec::new() };
        let document = if self.plugin.reads_error_document(object)? {
            let document = read_error_document(self.store.as_ref(), &task.paths.error_path()).await;
            document.map_err(|error| PluginError::uncoded(error.to_string()))?
        } else {
            None
        };
        let cx = PhaseContext { task, prior: &prior, pods: &pods, error_document: document.as_ref() };
        let mut phase = self.plugin.phase(&cx, object)?;
        if phase.phase() == prior.phase && phase.version() < prior.version {
            phase = phase.with_version(prior.version);
        }
        if phase.phase().is_success() {
            return Ok((self.confirm(task, phase).await?, None));
        }
        if !phase.phase().is_terminal() && object.metadata().deletion_timestamp.is_some() {
            let place = place(task, object.metadata().name.as_deref().unwrap_or_default());
            let message = format!("object [{place}] terminated unexpectedly in the background");
            let error = ExecutionError::system("UnexpectedObjectDeletion", message);
            return Ok((PhaseInfo::retryable_failure(error, TaskInfo::at(task.now)), None));
        }
        let due = if phase.phase().is_terminal() { None } else { self.plugin.due(&cx, object)? };
        Ok((phase, due))
    }

    /// Success is success only when the task left no error document.
    async fn confirm(&self, task: &TaskContext, phase: PhaseInfo) -> Result<PhaseInfo, PluginError> {
        let outputs = task.template.interface.as_ref().and_then(|interface| interface.outputs.as_ref());
        let declares_outputs = outputs.is_some_and(|outputs| !outputs.variables.is_empty());
        let paths = &task.paths;
        let result =
            read_result(self.store.as_ref(), &paths.output_path(), &paths.error_path(), declares_outputs).await;
        let (recoverable, error) = match result.map_err(|error| PluginError::uncoded(error.to_string()))? {
            TaskResult::Succeeded => return Ok(phase),
            TaskResult::Error { recoverable, error } => (recoverable, reported(&error)),
        };
        let info = phase.into_info().unwrap_or_else(|| TaskInfo::at(task.now));
        Ok(if recoverable {
            PhaseInfo::retryable_failure(error, info)
        } else {
            PhaseInfo::permanent_failure(error, info)
        })
    }

    /// Adds what the attempt waits for, if it waits.
    fn with_pending(&self, task: &TaskContext, phase: PhaseInfo, namespace: &str, name: &str) -> PhaseInfo {
        if phase.pending().is_some() || pending::explain(&phase, &[], &[]).is_none() {
            return phase;
        }
        let pods = self.objects.pods_of(&task.metadata);
        let events = self.objects.events_since(&self.plugin.kind(), namespace, name, None, None);
        match pending::explain(&phase, &pods, &events) {
            Some(pending) => phase.with_pending(pending),
            None => phase,
        }
    }

    /// Adds what Kubernetes recorded since the last round.
    fn with_events(
        &self,
        before: &PluginState,
        mut phase: PhaseInfo,
        namespace: &str,
        name: &str,
    ) -> (PhaseInfo, PluginState) {
        let prior = prior(before);
        let events = self.objects.events_since(
            &self.plugin.kind(),
            namespace,
            name,
            before.last_event_update,
            before.last_event_recorded_at,
        );
        let (Some(last), Some(info)) = (events.last().cloned(), phase.info_mut()) else {
            let state = with_phase(before, &phase);
            return (phase, state);
        };
        info.additional_reasons.extend(
            events.into_iter().map(|event| ReasonInfo { reason: event.message, occurred_at: Some(event.created_at) }),
        );
        if phase.phase() == prior.phase && phase.version() <= prior.version {
            phase = phase.with_version(prior.version.saturating_add(1));
        }
        let mut state = with_phase(before, &phase);
        state.last_event_update = Some(last.created_at);
        state.last_event_recorded_at = Some(last.recorded_at);
        (phase, state)
    }
}

fn reported(error: &aileron_idl::flyteidl2::core::ExecutionError) -> ExecutionError {
    ExecutionError::from(error)
}

fn lost(task: &TaskContext, name: &str, error: &ApiError) -> PhaseInfo {
    let message = format!("resource not found, name [{}]. reason: {}", place(task, name), error.message);
    PhaseInfo::retryable_failure(ExecutionError::system("ResourceDeletedExternally", message), TaskInfo::at(task.now))
}

fn place(task: &TaskContext, name: &str) -> String {
    format!("{}/{name}", task.metadata.namespace)
}
