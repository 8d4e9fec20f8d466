//! Ending an attempt: stopping its object, and letting go of it.

use aileron_action::object_identity::{Claim, FINALIZER, complete, object_name};
use aileron_kubekit::ApiError;
use aileron_machinery::{AbortBehavior, AnyResource, PluginError, TaskContext};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::PluginManager;
use crate::cluster::Observed;

impl PluginManager {
    /// Stops the attempt's object in the way its plugin wants. An object that is not there is stopped.
    ///
    /// # Differs from upstream
    ///
    /// An object of that name which is not the attempt's is left alone; upstream deletes by name.
    pub(super) async fn stop(&self, task: &TaskContext, started: bool) -> Result<(), PluginError> {
        let properties = self.plugin.properties();
        let claim = Claim::of(task, &properties, started);
        let mut identity = self.plugin.identity()?;
        complete(task, &properties, identity.as_mut());
        let name = object_name(task, &properties);
        let kind = self.plugin.kind();
        let namespace = task.metadata.namespace.as_str();
        let place = |instead: &Option<Box<dyn AnyResource>>| {
            let meta = instead.as_ref().map(|object| object.metadata());
            (
                meta.and_then(|meta| meta.namespace.clone()).unwrap_or_else(|| namespace.to_owned()),
                meta.and_then(|meta| meta.name.clone()).unwrap_or_else(|| name.clone()),
            )
        };
        // Another object that the plugin names is the plugin's affair.
        let is_meant = |target: &str| {
            let by_claim = target == name;
            move |found: &ObjectMeta| !by_claim || claim.covers(found)
        };
        let result = match self.plugin.on_abort(task, identity.as_ref())? {
            AbortBehavior::Delete { instead } => {
                let (namespace, name) = place(&instead);
                self.objects.delete(&kind, &namespace, &name, &is_meant(&name)).await
            }
            AbortBehavior::Patch { patch, instead, delete_on_error } => {
                let (namespace, name) = place(&instead);
                let is_meant = is_meant(&name);
                match self.objects.patch(&kind, &namespace, &name, patch, &is_meant).await {
                    Err(_) if delete_on_error => self.objects.delete(&kind, &namespace, &name, &is_meant).await,
                    result => result,
                }
            }
            AbortBehavior::Update { object, delete_on_error } => {
                let (namespace, name) = {
                    let meta = object.metadata();
                    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
                };
                let is_meant = is_meant(&name);
                match self.objects.update(&kind, object, &is_meant).await {
                    Err(_) if delete_on_error => self.objects.delete(&kind, &namespace, &name, &is_meant).await,
                    result => result,
                }
            }
        };
        unless_missing(result)
    }

    /// Lets go of the attempt's object: our finalizer off, and the object away if so configured.
    ///
    /// # Differs from upstream
    ///
    /// Only our own finalizer is removed, by patch, and only from the attempt's own object; upstream empties the whole
    /// list with an update, of whatever has the name.
    pub(super) async fn release(&self, task: &TaskContext, started: bool) -> Result<(), PluginError> {
        let properties = self.plugin.properties();
        let claim = Claim::of(task, &properties, started);
        let name = object_name(task, &properties);
        let kind = self.plugin.kind();
        let namespace = task.metadata.namespace.as_str();
        let object = match self.observe_own(&claim, namespace, &name).await {
            Ok(Observed::Present(object)) => object,
            Ok(_) => return Ok(()),
            Err(error) => return unless_missing(Err(error)),
        };
        let finalizers = object.metadata().finalizers.as_deref().unwrap_or_default();
        if finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            match self.objects.remove_finalizer(&kind, object.as_ref(), FINALIZER).await {
                Err(error) if is_missing(&error) => return Ok(()),
                result => result.map_err(|error| PluginError::uncoded(error.message))?,
            }
        }
        if task.platform.k8s.delete_resource_on_finalize && !properties.disable_delete_on_finalize {
            return unless_missing(self.objects.delete(&kind, namespace, &name, &|found| claim.covers(found)).await);
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
