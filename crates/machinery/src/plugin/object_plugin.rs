//! Plugins of any form behind one object-safe, asynchronous trait.
//!
//! A typed plugin becomes one by [`erase`]: the types come back at this border and nowhere else, so a plugin never casts.
//! A plugin whose kind is known only at run time, such as one described by a file or served by another process, implements
//! [`ObjectPlugin`] itself, usually over [`JsonObject`].

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::PluginEntry;
use super::behavior::{AbortBehavior, Needs, PluginProperties, TokenRequest};
use super::ended::Ended;
use super::k8s::{K8sPlugin, ONLY_STEP};
use super::kind::{K8sResource, ObjectRef, ResourceKind};
use super::object::{AnyResource, JsonObject};
use crate::phase::PhaseContext;
use crate::{PhaseInfo, PluginError, TaskContext};

/// The object after one named step of its building.
#[derive(Debug)]
pub struct BuildStep {
    /// What the step is called.
    pub name: String,
    /// The object after it.
    pub object: Box<dyn AnyResource>,
}

/// An object, and how it came about.
#[derive(Debug)]
pub struct SteppedBuild {
    /// The object after each step, in order; at least one.
    pub steps: Vec<BuildStep>,
    /// The object.
    pub object: Box<dyn AnyResource>,
}

/// [`K8sPlugin`] without the type. The methods mean the same.
///
/// What is asked before any task is there is synchronous; what is asked for a task may take a call to another process.
#[async_trait]
pub trait ObjectPlugin: Send + Sync {
    /// Its name and task types.
    fn entry(&self) -> PluginEntry;

    /// The kind of object it makes.
    fn kind(&self) -> ResourceKind;

    /// How its objects are treated.
    fn properties(&self) -> PluginProperties {
        PluginProperties::default()
    }

    /// Reads an object of this plugin's kind from JSON.
    fn decode(&self, object: Value) -> Result<Arc<dyn AnyResource>, PluginError> {
        Ok(Arc::new(JsonObject::new(self.kind(), object)?))
    }

    /// What the plugin wants to know about the definition of its kind.
    fn read_definition(&self, _definition: &CustomResourceDefinition) -> Value {
        Value::Null
    }

    /// What must be fetched for this task before the other methods are called.
    async fn needs(&self, _task: &TaskContext) -> Result<Needs, PluginError> {
        Ok(Needs::none())
    }

    /// The token that the task must hold before its object is made.
    async fn token(&self, _task: &TaskContext) -> Result<Option<TokenRequest>, PluginError> {
        Ok(None)
    }

    /// The object for this attempt.
    async fn build(&self, task: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError>;

    /// The object, with its state after each step of the building. `aileron explain` shows the steps.
    async fn build_steps(&self, task: &TaskContext) -> Result<SteppedBuild, PluginError> {
        let object = self.build(task).await?;
        let steps = vec![BuildStep { name: ONLY_STEP.to_owned(), object: object.boxed_clone() }];
        Ok(SteppedBuild { steps, object })
    }

    /// Where the attempt stands, given its object as last seen.
    async fn phase(&self, cx: &PhaseContext<'_>, object: &dyn AnyResource) -> Result<PhaseInfo, PluginError>;

    /// Whether the object will not change its outcome any more.
    async fn ended(&self, object: &dyn AnyResource) -> Result<Option<Ended>, PluginError> {
        Ok(Ended::by_convention(&object.to_json()?))
    }

    /// How to stop the attempt.
    async fn on_abort(&self, _task: &TaskContext, _object: &ObjectRef) -> Result<AbortBehavior, PluginError> {
        Ok(AbortBehavior::default())
    }
}

/// Takes the type off a plugin.
pub fn erase<P: K8sPlugin>(plugin: P) -> Arc<dyn ObjectPlugin> {
    Arc::new(Typed(plugin))
}

struct Typed<P>(P);

impl<P: K8sPlugin> Typed<P> {
    /// The object in the plugin's type. An object of the plugin's kind that has another type is decoded: another plugin of
    /// the same kind may have read it.
    fn typed<'a>(&self, object: &'a dyn AnyResource) -> Result<Cow<'a, P::Resource>, PluginError> {
        if let Some(resource) = object.as_any().downcast_ref() {
            return Ok(Cow::Borrowed(resource));
        }
        let (kind, document) = (self.kind(), object.to_json()?);
        if document["kind"] != *kind.kind || document["apiVersion"] != kind.api_version() {
            let id = self.0.entry().id;
            return Err(PluginError::uncoded(format!("plugin {id} was given an object that is not a {}", kind.kind)));
        }
        decode_as(document).map(Cow::Owned)
    }
}

#[async_trait]
impl<P: K8sPlugin> ObjectPlugin for Typed<P> {
    fn entry(&self) -> PluginEntry {
        self.0.entry()
    }

    fn kind(&self) -> ResourceKind {
        ResourceKind::of::<P::Resource>()
    }

    fn properties(&self) -> PluginProperties {
        self.0.properties()
    }

    fn decode(&self, object: Value) -> Result<Arc<dyn AnyResource>, PluginError> {
        let resource: P::Resource = decode_as(object)?;
        Ok(Arc::new(resource))
    }

    fn read_definition(&self, definition: &CustomResourceDefinition) -> Value {
        self.0.read_definition(definition)
    }

    async fn needs(&self, task: &TaskContext) -> Result<Needs, PluginError> {
        Ok(self.0.needs(task))
    }

    async fn token(&self, task: &TaskContext) -> Result<Option<TokenRequest>, PluginError> {
        Ok(self.0.token(task))
    }

    async fn build(&self, task: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError> {
        Ok(Box::new(self.0.build(task)?))
    }

    async fn build_steps(&self, task: &TaskContext) -> Result<SteppedBuild, PluginError> {
        let mut steps = Vec::new();
        let object = self.0.build_observed(task, &mut |name, object| {
            steps.push(BuildStep { name: name.to_owned(), object: Box::new(object.clone()) });
        })?;
        Ok(SteppedBuild { steps, object: Box::new(object) })
    }

    async fn phase(&self, cx: &PhaseContext<'_>, object: &dyn AnyResource) -> Result<PhaseInfo, PluginError> {
        self.0.phase(cx, self.typed(object)?.as_ref())
    }

    async fn ended(&self, object: &dyn AnyResource) -> Result<Option<Ended>, PluginError> {
        Ok(self.0.ended(self.typed(object)?.as_ref()))
    }

    async fn on_abort(&self, task: &TaskContext, object: &ObjectRef) -> Result<AbortBehavior, PluginError> {
        self.0.on_abort(task, object)
    }
}

fn decode_as<R: K8sResource>(object: Value) -> Result<R, PluginError> {
    serde_json::from_value(object)
        .map_err(|error| PluginError::caused_by("", format!("the object is not a readable {}", R::kind(&())), error))
}
