//! Typed plugins behind one object-safe face, so that a registry can hold them side by side.
//!
//! The types come back at this border and nowhere else: a plugin never casts.

use std::any::Any;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::PluginEntry;
use super::k8s::{
    AbortBehavior, K8sPlugin, K8sResource, Needs, PhaseContext, PluginProperties, ResourceKind, TokenRequest,
};
use crate::{PhaseInfo, PluginError, TaskContext};

/// Some Kubernetes object.
pub trait AnyResource: Any + Send + Sync + std::fmt::Debug {
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Its metadata, to be completed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
    /// The object as JSON, with `apiVersion` and `kind`.
    fn to_json(&self) -> Result<Value, PluginError>;
    /// A copy.
    fn boxed_clone(&self) -> Box<dyn AnyResource>;
    /// For the way back to the type.
    fn as_any(&self) -> &dyn Any;
}

impl<R: K8sResource> AnyResource for R {
    fn metadata(&self) -> &ObjectMeta {
        k8s_openapi::Metadata::metadata(self)
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        k8s_openapi::Metadata::metadata_mut(self)
    }

    fn to_json(&self) -> Result<Value, PluginError> {
        serde_json::to_value(self)
            .map_err(|error| PluginError::caused_by("", format!("failed to serialise a {}", R::KIND), error))
    }

    fn boxed_clone(&self) -> Box<dyn AnyResource> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// [`AbortBehavior`] without the type.
pub type ErasedAbort = AbortBehavior<Box<dyn AnyResource>>;

/// [`K8sPlugin`] without the type.
pub trait AnyK8sPlugin: Send + Sync {
    /// See [`K8sPlugin::entry`].
    fn entry(&self) -> PluginEntry;
    /// See [`K8sPlugin::properties`].
    fn properties(&self) -> PluginProperties;
    /// The kind of object it makes.
    fn kind(&self) -> ResourceKind;
    /// See [`K8sPlugin::needs`].
    fn needs(&self, task: &TaskContext) -> Needs;
    /// See [`K8sPlugin::token`].
    fn token(&self, task: &TaskContext) -> Option<TokenRequest>;
    /// See [`K8sPlugin::build`].
    fn build(&self, task: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError>;
    /// See [`K8sPlugin::build_observed`].
    fn build_observed(
        &self,
        task: &TaskContext,
        observe: &mut dyn FnMut(&str, &dyn AnyResource),
    ) -> Result<Box<dyn AnyResource>, PluginError>;
    /// An object without content, to carry a name.
    fn identity(&self) -> Result<Box<dyn AnyResource>, PluginError>;
    /// Reads an object of this plugin's kind.
    fn decode(&self, object: Value) -> Result<Arc<dyn AnyResource>, PluginError>;
    /// See [`K8sPlugin::reads_error_document`].
    fn reads_error_document(&self, resource: &dyn AnyResource) -> Result<bool, PluginError>;
    /// See [`K8sPlugin::phase`].
    fn phase(&self, cx: &PhaseContext<'_>, resource: &dyn AnyResource) -> Result<PhaseInfo, PluginError>;
    /// See [`K8sPlugin::due`].
    fn due(&self, cx: &PhaseContext<'_>, resource: &dyn AnyResource) -> Result<Option<Timestamp>, PluginError>;
    /// See [`K8sPlugin::on_abort`].
    fn on_abort(&self, task: &TaskContext, resource: &dyn AnyResource) -> Result<ErasedAbort, PluginError>;
    /// See [`K8sPlugin::is_terminal`].
    fn is_terminal(&self, resource: &dyn AnyResource) -> Result<bool, PluginError>;
    /// See [`K8sPlugin::completed_at`].
    fn completed_at(&self, resource: &dyn AnyResource) -> Result<Option<Timestamp>, PluginError>;
}

/// Takes the type off a plugin.
pub fn erase<P: K8sPlugin>(plugin: P) -> Arc<dyn AnyK8sPlugin> {
    Arc::new(Typed(plugin))
}

struct Typed<P>(P);

impl<P: K8sPlugin> Typed<P> {
    fn typed<'a>(&self, resource: &'a dyn AnyResource) -> Result<&'a P::Resource, PluginError> {
        resource.as_any().downcast_ref().ok_or_else(|| {
            PluginError::uncoded(format!(
                "plugin {} was given an object that is not a {}",
                self.0.entry().id,
                <P::Resource as k8s_openapi::Resource>::KIND
            ))
        })
    }
}

impl<P: K8sPlugin> AnyK8sPlugin for Typed<P> {
    fn entry(&self) -> PluginEntry {
        self.0.entry()
    }

    fn properties(&self) -> PluginProperties {
        self.0.properties()
    }

    fn kind(&self) -> ResourceKind {
        ResourceKind::of::<P::Resource>()
    }

    fn needs(&self, task: &TaskContext) -> Needs {
        self.0.needs(task)
    }

    fn token(&self, task: &TaskContext) -> Option<TokenRequest> {
        self.0.token(task)
    }

    fn build(&self, task: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError> {
        Ok(Box::new(self.0.build(task)?))
    }

    fn build_observed(
        &self,
        task: &TaskContext,
        observe: &mut dyn FnMut(&str, &dyn AnyResource),
    ) -> Result<Box<dyn AnyResource>, PluginError> {
        Ok(Box::new(self.0.build_observed(task, &mut |step, object| observe(step, object))?))
    }

    fn identity(&self) -> Result<Box<dyn AnyResource>, PluginError> {
        let kind = self.kind();
        let empty = serde_json::json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {}, "spec": {},
        });
        let resource: P::Resource = decode_as(empty)?;
        Ok(Box::new(resource))
    }

    fn decode(&self, object: Value) -> Result<Arc<dyn AnyResource>, PluginError> {
        let resource: P::Resource = decode_as(object)?;
        Ok(Arc::new(resource))
    }

    fn reads_error_document(&self, resource: &dyn AnyResource) -> Result<bool, PluginError> {
        Ok(self.0.reads_error_document(self.typed(resource)?))
    }

    fn phase(&self, cx: &PhaseContext<'_>, resource: &dyn AnyResource) -> Result<PhaseInfo, PluginError> {
        self.0.phase(cx, self.typed(resource)?)
    }

    fn due(&self, cx: &PhaseContext<'_>, resource: &dyn AnyResource) -> Result<Option<Timestamp>, PluginError> {
        Ok(self.0.due(cx, self.typed(resource)?))
    }

    fn on_abort(&self, task: &TaskContext, resource: &dyn AnyResource) -> Result<ErasedAbort, PluginError> {
        let boxed = |resource: P::Resource| -> Box<dyn AnyResource> { Box::new(resource) };
        Ok(match self.0.on_abort(task, self.typed(resource)?)? {
            AbortBehavior::Delete { instead } => AbortBehavior::Delete { instead: instead.map(boxed) },
            AbortBehavior::Patch { patch, instead, delete_on_error } => {
                AbortBehavior::Patch { patch, instead: instead.map(boxed), delete_on_error }
            }
            AbortBehavior::Update { object, delete_on_error } => {
                AbortBehavior::Update { object: boxed(object), delete_on_error }
            }
        })
    }

    fn is_terminal(&self, resource: &dyn AnyResource) -> Result<bool, PluginError> {
        Ok(self.0.is_terminal(self.typed(resource)?))
    }

    fn completed_at(&self, resource: &dyn AnyResource) -> Result<Option<Timestamp>, PluginError> {
        Ok(self.0.completed_at(self.typed(resource)?))
    }
}

fn decode_as<R: K8sResource>(object: Value) -> Result<R, PluginError> {
    serde_json::from_value(object)
        .map_err(|error| PluginError::caused_by("", format!("the object is not a readable {}", R::KIND), error))
}
