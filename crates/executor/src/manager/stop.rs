//! Ending an attempt: stopping its object and releasing it. This file does the I/O, [`plan`] says what to do.

mod plan;

use aileron_action::object_identity::{OBJECT_FINALIZER, Ownership, object_ref};
use aileron_kubekit::ApiError;
use aileron_machinery::{ObjectRef, PluginError, TaskContext};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::plan::{StopPlan, StopRequest, plan_release, plan_stop};
use super::PluginManager;
use crate::cluster::Observed;

impl PluginManager {
    /// Stops the attempt's object in the way its plugin wants. An object that does not exist counts as stopped.
    ///
    /// # Differs from upstream
    ///
    /// An object of that name which does not belong to the attempt is left alone; upstream deletes by name.
    pub(super) async fn stop(&self, task: &TaskContext, started: bool) -> Result<(), PluginError> {
        let plan = self.plan(task).await?;
        self.carry_out(task, started, plan).await
    }

    /// How the plugin wants the attempt to be stopped.
    async fn plan(&self, task: &TaskContext) -> Result<StopPlan, PluginError> {
        let own = object_ref(task, self.plugin.kind(), &self.plugin.properties());
        let behavior = self.plugin.on_abort(self.with_definition(task).as_ref(), &own).await?;
        Ok(plan_stop(&own, behavior))
    }

    async fn carry_out(&self, task: &TaskContext, started: bool, plan: StopPlan) -> Result<(), PluginError> {
        let StopPlan { target, is_own, request } = plan;
        let ownership = Ownership::of(task, &self.plugin.properties(), started);
        let check = |found: &ObjectMeta| !is_own || ownership.covers(found);
        let (kind, namespace, name) = (&target.kind, target.namespace.as_str(), target.name.as_str());
        let result = match request {
            StopRequest::Delete => self.objects.delete(kind, namespace, name, &check).await,
            StopRequest::Patch { patch, delete_on_error } => {
                match self.objects.patch(kind, namespace, name, patch, &check).await {
                    Err(error) if delete_on_error && !is_missing(&error) => {
                        self.objects.delete(kind, namespace, name, &check).await
                    }
                    result => result,
                }
            }
        };
        unless_missing(result)
    }

    /// Deletes the attempt's object, however its plugin stops objects: the attempt is started again under the same name, and
    /// would otherwise adopt an object that was stopped. An object that the plugin names instead is stopped first.
    pub(super) async fn delete(&self, task: &TaskContext, started: bool) -> Result<(), PluginError> {
        let plan = self.plan(task).await?;
        if !plan.is_own {
            self.carry_out(task, started, plan).await?;
        }
        let properties = self.plugin.properties();
        let own = object_ref(task, self.plugin.kind(), &properties);
        self.delete_own(&own, &Ownership::of(task, &properties, started)).await
    }

    async fn delete_own(&self, own: &ObjectRef, ownership: &Ownership<'_>) -> Result<(), PluginError> {
        let check = |found: &ObjectMeta| ownership.covers(found);
        unless_missing(self.objects.delete(&own.kind, &own.namespace, &own.name, &check).await)
    }

    /// Releases the attempt's object: removes the executor's finalizer, and deletes the object if so configured.
    ///
    /// # Differs from upstream
    ///
    /// Only the executor's own finalizer is removed, by patch, and only from the attempt's own object; upstream empties the
    /// whole list with an update, of any object with that name.
    pub(super) async fn release(&self, task: &TaskContext, started: bool) -> Result<(), PluginError> {
        let properties = self.plugin.properties();
        let ownership = Ownership::of(task, &properties, started);
        let own = object_ref(task, self.plugin.kind(), &properties);
        let object = match self.observe_own(&ownership, &own).await {
            Ok(Observed::Present(object)) => object,
            Ok(_) => return Ok(()),
            Err(error) => return unless_missing(Err(error)),
        };
        let plan = plan_release(object.metadata(), &properties, &task.platform.k8s);
        if plan.remove_finalizer {
            match self.objects.remove_finalizer(&own.kind, object.as_ref(), OBJECT_FINALIZER).await {
                Err(error) if is_missing(&error) => return Ok(()),
                result => result.map_err(|error| PluginError::uncoded(error.message))?,
            }
        }
        if plan.delete {
            return self.delete_own(&own, &ownership).await;
        }
        Ok(())
    }
}

fn is_missing(error: &ApiError) -> bool {
    error.is_not_found() || error.is_gone()
}

fn unless_missing(result: Result<(), ApiError>) -> Result<(), PluginError> {
    match result {
        Err(error) if !is_missing(&error) => Err(PluginError::uncoded(error.message)),
        _ => Ok(()),
    }
}
