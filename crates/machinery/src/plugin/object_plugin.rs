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
///
/// ```
/// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
/// # struct Kettles;
/// # impl K8sPlugin for Kettles {
/// #     type Resource = Pod;
/// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
/// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
/// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
/// #         Ok(PhaseInfo::undefined())
/// #     }
/// # }
/// # let task = testing::task("kettle", &serde_json::Value::Null);
/// let build = futures::executor::block_on(erase(Kettles).build_steps(&task))?;
/// let first: &BuildStep = &build.steps[0];
/// assert_eq!(first.name, "build");
/// assert_eq!(first.object.to_json()?["kind"], "Pod");
/// # Ok::<(), PluginError>(())
/// ```
#[derive(Debug)]
pub struct BuildStep {
    /// What the step is called.
    pub name: String,
    /// The object after it.
    pub object: Box<dyn AnyResource>,
}

/// An object, and how it came about.
///
/// ```
/// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
/// # struct Kettles;
/// # impl K8sPlugin for Kettles {
/// #     type Resource = Pod;
/// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
/// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
/// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
/// #         Ok(PhaseInfo::undefined())
/// #     }
/// # }
/// # let task = testing::task("kettle", &serde_json::Value::Null);
/// let build: SteppedBuild = futures::executor::block_on(erase(Kettles).build_steps(&task))?;
/// let last = build.steps.last().unwrap();
/// assert_eq!(last.object.to_json()?, build.object.to_json()?);
/// # Ok::<(), PluginError>(())
/// ```
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
///
/// Write `#[async_trait]` before the `impl`: without it the compiler says that the lifetimes of the methods do not match
/// (E0195).
///
/// ```
/// use aileron_machinery::serde_json::json;
/// use aileron_machinery::{
///     AnyResource, JsonObject, ObjectPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, ResourceKind, TaskContext,
///     TaskInfo, async_trait,
/// };
/// # use aileron_machinery::{Needs, ObjectRef, PluginProperties, testing::task, serde_json::Value};
///
/// /// Makes objects of a kind that a file describes.
/// struct FromFile {
///     kind: ResourceKind,
/// }
///
/// #[async_trait]
/// impl ObjectPlugin for FromFile {
///     fn entry(&self) -> PluginEntry {
///         PluginEntry::new("from-file", &["kettle"])
///     }
///
///     fn kind(&self) -> ResourceKind {
///         self.kind.clone()
///     }
///
///     async fn build(&self, _: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError> {
///         Ok(Box::new(JsonObject::new(self.kind(), json!({"spec": {"litres": 2}}))?))
///     }
///
///     async fn phase(&self, cx: &PhaseContext<'_>, object: &dyn AnyResource) -> Result<PhaseInfo, PluginError> {
///         let info = TaskInfo::at(cx.task.now);
///         Ok(if self.ended(object).await?.is_some() { PhaseInfo::success(info) } else { PhaseInfo::running(info) })
///     }
/// }
///
/// let plugin = FromFile { kind: ResourceKind::new("kitchen.example.com", "v1", "Kettle", "kettles") };
/// let object = plugin.decode(json!({"status": {"phase": "Succeeded"}}))?;
/// # let task = task("kettle", &Value::Null);
/// # let prior = Default::default();
/// # let cx = PhaseContext::new(&task, &prior);
/// # futures::executor::block_on(async {
/// assert!(plugin.phase(&cx, &*object).await?.phase().is_success());
/// assert_eq!(plugin.needs(&task).await?, Needs::none(), "the other methods have defaults");
/// # assert_eq!(plugin.properties(), PluginProperties::default());
/// # assert_eq!(plugin.read_definition(&Default::default()), Value::Null);
/// # assert_eq!(plugin.token(&task).await?, None);
/// # assert_eq!(plugin.build_steps(&task).await?.steps.len(), 1);
/// # let own = ObjectRef::new(plugin.kind(), "p-d", "run-a0-0");
/// # assert_eq!(plugin.on_abort(&task, &own).await?, Default::default());
/// # Ok::<(), PluginError>(())
/// # })?;
/// # Ok::<(), PluginError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plugin over objects of any kind (`ObjectPlugin`)",
    label = "this is not an `ObjectPlugin`",
    note = "a `K8sPlugin` becomes one by `erase(plugin)`, and `with(plugin)` does that by itself",
    note = "a plugin without an object, a `CorePlugin`, is added by `with_core(plugin)`"
)]
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
///
/// ```
/// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
/// # struct Kettles;
/// # impl K8sPlugin for Kettles {
/// #     type Resource = Pod;
/// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
/// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
/// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
/// #         Ok(PhaseInfo::undefined())
/// #     }
/// # }
/// use aileron_machinery::{PluginSet, erase};
///
/// let plugin = erase(Kettles);
/// assert_eq!(plugin.kind().kind, "Pod");
/// let plugins = PluginSet::new().with_object_plugin(plugin);
/// # assert_eq!(plugins.k8s().len(), 1);
/// ```
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
    serde_json::from_value(object).map_err(|error| {
        let kind = R::resource_kind().kind;
        PluginError::caused_by("", format!("the object is not a readable {kind}"), error)
    })
}
