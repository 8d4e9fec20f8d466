//! Ending an attempt: stopping its object, and letting go of it.

use aileron_machinery::{AbortBehavior, AnyResource, PluginError, TaskContext};

use super::PluginManager;
use super::identity::{FINALIZER, complete, object_name};
use crate::cluster::ApiError;

impl PluginManager {
    /// Stops the attempt's object in the way its plugin wants. An object that is not there is stopped.
    pub(super) async fn stop(&self, task: &TaskContext) -> Result<(), PluginError> {
        let properties = self.plugin.properties();
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
        let result = match self.plugin.on_abort(task, identity.as_ref())? {
            AbortBehavior::Delete { instead } => {
                let (namespace, name) = place(&instead);
                self.objects.delete(&kind, &namespace, &name).await
            }
            AbortBehavior::Patch { patch, instead, delete_on_error } => {
                let (namespace, name) = place(&instead);
                match self.objects.patch(&kind, &namespace, &name, patch).await {
                    Err(_) if delete_on_error => self.objects.delete(&kind, &namespace, &name).await,
                    result => result,
                }
            }
            AbortBehavior::Update { object, delete_on_error } => {
                let (namespace, name) = {
                    let meta = object.metadata();
                    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
                };
                match self.objects.update(&kind, object).await {
                    Err(_) if delete_on_error => self.objects.delete(&kind, &namespace, &name).await,
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
    /// Only our own finalizer is removed, by patch; upstream empties the whole list with an update.
    pub(super) async fn release(&self, task: &TaskContext) -> Result<(), PluginError> {
        let properties = self.plugin.properties();
        let name = object_name(task, &properties);
        let kind = self.plugin.kind();
        let namespace = task.metadata.namespace.as_str();
        let object = match self.objects.observe(self.plugin.as_ref(), namespace, &name).await {
            Ok(crate::cluster::Observed::Present(object)) => object,
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
            return unless_missing(self.objects.delete(&kind, namespace, &name).await);
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
