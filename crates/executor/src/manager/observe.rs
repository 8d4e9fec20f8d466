//! Reading the object of an attempt: this file does the I/O, [`decide`] says what the object means.

mod decide;

use std::sync::Arc;

use aileron_action::object_identity::Ownership;
use aileron_action::pending;
use aileron_idl::flyteidl2::core::ErrorDocument;
use aileron_kubekit::ApiError;
use aileron_machinery::{AnyResource, Needs, ObjectRef, PhaseContext, PhaseInfo, PluginError, TaskContext};

use self::decide::{Observation, Reading};
use super::round::Round;
use super::version::assign_version;
use super::{PluginManager, storage_error};
use crate::cluster::Observed;
use crate::manager::gob::PluginState;
use crate::storage::outputs::{TaskResult, read_error_document, read_result};
pub(super) use decide::Seen;

impl PluginManager {
    /// Reads the object and returns what it means; `None` if it is not visible yet.
    pub(super) async fn observe(
        &self,
        task: &TaskContext,
        round: &Round,
        before: &PluginState,
    ) -> Result<Option<Seen>, PluginError> {
        let observation = self.look_at_object(task, round, before).await?;
        let Some(mut seen) = decide::decide(round, before, observation) else { return Ok(None) };
        seen.phase = self.with_pending(task, round, seen.phase);
        Ok(Some(seen))
    }

    async fn look_at_object(
        &self,
        task: &TaskContext,
        round: &Round,
        before: &PluginState,
    ) -> Result<Observation, PluginError> {
        // The watch cache may still show objects of a kind that is being removed; the API server deletes them.
        if self.objects.kind_missing(&round.object.kind) {
            return Ok(Observation::KindMissing);
        }
        let ownership = Ownership::of(task, &self.plugin.properties(), true);
        let missing = match self.observe_own(&ownership, &round.object).await {
            Ok(Observed::NotYetVisible) => return Ok(Observation::NotYetVisible),
            Ok(Observed::Present(object)) => {
                return self
                    .read(task, round, before, object.as_ref())
                    .await
                    .map(|reading| Observation::Read(Box::new(reading)));
            }
            Ok(Observed::Absent(error)) => error,
            Err(error) if error.is_not_found() || error.is_gone() || error.is_expired() => error,
            Err(error) => return Err(PluginError::uncoded(error.message)),
        };
        Ok(if missing.is_kind_not_served() { Observation::KindMissing } else { Observation::Lost(missing) })
    }

    /// Reads an object. One that does not belong to the attempt counts as absent.
    ///
    /// # Differs from upstream
    ///
    /// Upstream reads the phase of a task from any object of the right name.
    pub(super) async fn observe_own(
        &self,
        ownership: &Ownership<'_>,
        object: &ObjectRef,
    ) -> Result<Observed, ApiError> {
        let plugin = self.plugin.as_ref();
        let (namespace, name) = (object.namespace.as_str(), object.name.as_str());
        let observed = self.objects.observe(plugin, namespace, name).await?;
        let Observed::Present(found) = &observed else { return Ok(observed) };
        if ownership.covers(found.metadata()) {
            return Ok(observed);
        }
        // The watch cache may be old, and a lost object counts as a system failure.
        match self.objects.get_live(plugin, namespace, name).await {
            Ok(found) if ownership.covers(found.metadata()) => Ok(Observed::Present(found)),
            Ok(_) => Ok(Observed::Absent(ApiError::owned_by_other(&object.kind.kind, namespace, name))),
            Err(error) if error.is_not_found() => Ok(Observed::Absent(error)),
            Err(error) => Err(error),
        }
    }

    /// Lets the plugin read the object, with everything that the plugin needs.
    async fn read(
        &self,
        task: &TaskContext,
        round: &Round,
        before: &PluginState,
        object: &dyn AnyResource,
    ) -> Result<Reading, PluginError> {
        let needs = self.plugin.needs(task).await?;
        let pods = if needs.pods { self.objects.pods_of(&task.metadata) } else { Vec::new() };
        let document = self.error_document(task, needs, object).await?;
        let task = self.with_definition(task);
        let cx = PhaseContext::new(&task, &round.prior).with_pods(&pods).with_error_document(document.as_ref());
        let phase = assign_version(self.plugin.phase(&cx, object).await?, &round.prior);
        let result = if phase.phase().is_success() { Some(self.task_result(&task).await?) } else { None };
        let events = self.objects.events_since(
            &round.object.kind,
            &round.object.namespace,
            &round.object.name,
            before.last_event_update,
            before.last_event_recorded_at,
        );
        let being_deleted = object.metadata().deletion_timestamp.is_some();
        Ok(Reading { phase, being_deleted, result, events })
    }

    /// The error document of a failed object, for a plugin that needs it.
    async fn error_document(
        &self,
        task: &TaskContext,
        needs: Needs,
        object: &dyn AnyResource,
    ) -> Result<Option<ErrorDocument>, PluginError> {
        if !needs.error_document || !self.plugin.ended(object).await?.is_some_and(|ended| ended.failed) {
            return Ok(None);
        }
        let document = read_error_document(self.store.as_ref(), &task.paths.error_path()).await;
        document.map_err(|error| storage_error(&error, error.to_string()))
    }

    /// The outputs or the error document in storage of a task whose object succeeded.
    async fn task_result(&self, task: &TaskContext) -> Result<TaskResult, PluginError> {
        let outputs = task.template.interface.as_ref().and_then(|interface| interface.outputs.as_ref());
        let declares_outputs = outputs.is_some_and(|outputs| !outputs.variables.is_empty());
        let paths = &task.paths;
        read_result(self.store.as_ref(), &paths.output_path(), &paths.error_path(), declares_outputs)
            .await
            .map_err(|error| storage_error(&error, error.to_string()))
    }

    /// Adds what the attempt waits for, if it waits. Pods and events come from the watch caches.
    fn with_pending(&self, task: &TaskContext, round: &Round, phase: PhaseInfo) -> PhaseInfo {
        if phase.pending().is_some() || pending::explain(&phase, &[], &[]).is_none() {
            return phase;
        }
        let pods: Vec<Arc<_>> = self.objects.pods_of(&task.metadata);
        let ObjectRef { kind, namespace, name } = &round.object;
        let events = self.objects.events_since(kind, namespace, name, None, None);
        match pending::explain(&phase, &pods, &events) {
            Some(pending) => phase.with_pending(pending),
            None => phase,
        }
    }
}
