//! The trait most plugins implement: a task becomes one Kubernetes object, the object's state becomes a phase.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::behavior::{AbortBehavior, Needs, PluginProperties, TokenRequest};
use super::ended::Ended;
use super::kind::{K8sResource, ObjectRef};
use crate::{PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};

/// The name of the only step of a plugin that does not tell its steps apart.
pub(super) const ONLY_STEP: &str = "build";

/// A plugin that makes one Kubernetes object per attempt.
///
/// All methods are pure: the plugin manager creates, watches, deletes and stores; the plugin computes.
///
/// ```
/// use aileron_machinery::k8s_openapi::api::core::v1::Pod;
/// use aileron_machinery::pod::{PodOptions, build_pod, phase::task_phase};
/// use aileron_machinery::testing::{exited, phase, task};
/// use aileron_machinery::{K8sPlugin, Phase, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};
/// # use aileron_machinery::serde_json::Value;
///
/// /// Runs the container of the task.
/// struct Containers;
///
/// impl K8sPlugin for Containers {
///     type Resource = Pod;
///
///     fn entry(&self) -> PluginEntry {
///         PluginEntry::new("containers", &["container"])
///     }
///
///     fn build(&self, task: &TaskContext) -> Result<Pod, PluginError> {
///         Ok(build_pod(task, PodOptions::default())?.into_pod())
///     }
///
///     fn phase(&self, cx: &PhaseContext<'_>, pod: &Pod) -> Result<PhaseInfo, PluginError> {
///         Ok(task_phase(cx, pod))
///     }
/// }
///
/// let task = task("container", &Value::Null);
/// let pod = Containers.build(&task)?;
/// assert_eq!(phase(&Containers, &task, &exited(&pod, 0)).phase(), Phase::Success);
/// # Ok::<(), PluginError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plugin that makes Kubernetes objects (`K8sPlugin`)",
    label = "this is not a `K8sPlugin`",
    note = "pass the plugin itself, not a reference, a `Box`, an `Arc` or a `Result` of it",
    note = "a plugin without an object, a `CorePlugin`, is added by `with_core(plugin)`, and one for a kind that is known \
            only at run time, an `ObjectPlugin`, by `with_object_plugin(Arc::new(plugin))`"
)]
pub trait K8sPlugin: Send + Sync + 'static {
    /// The object it makes.
    type Resource: K8sResource;

    /// Its name and task types.
    fn entry(&self) -> PluginEntry;

    /// How its objects are treated.
    ///
    /// ```
    /// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
    /// # struct Kettles;
    /// impl K8sPlugin for Kettles {
    /// #     type Resource = Pod;
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
    /// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
    /// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
    /// #         Ok(PhaseInfo::undefined())
    /// #     }
    ///     fn properties(&self) -> PluginProperties {
    ///         // The operator appends 16 characters to the name.
    ///         PluginProperties::default().with_name_max_length(47)
    ///     }
    /// }
    /// assert_eq!(Kettles.properties().generated_name_max_length, Some(47));
    /// ```
    fn properties(&self) -> PluginProperties {
        PluginProperties::default()
    }

    /// What must be fetched for this task before the other methods are called. The default is what building a pod needs.
    ///
    /// ```
    /// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
    /// # struct Kettles;
    /// impl K8sPlugin for Kettles {
    /// #     type Resource = Pod;
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
    /// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
    /// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
    /// #         Ok(PhaseInfo::undefined())
    /// #     }
    ///     fn needs(&self, task: &TaskContext) -> Needs {
    ///         // `phase` reads the pods that the operator makes.
    ///         Needs::of_pod(task).with_pods()
    ///     }
    /// }
    /// assert!(Kettles.needs(&testing::task("kettle", &serde_json::Value::Null)).pods);
    /// ```
    fn needs(&self, task: &TaskContext) -> Needs {
        Needs::of_pod(task)
    }

    /// The token that the task must hold before its object is made. Operators of an installation can ask for tokens by task
    /// type without any help of a plugin (`tasks.pools`).
    ///
    /// ```
    /// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
    /// # struct Kettles;
    /// impl K8sPlugin for Kettles {
    /// #     type Resource = Pod;
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
    /// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
    /// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
    /// #         Ok(PhaseInfo::undefined())
    /// #     }
    ///     fn token(&self, task: &TaskContext) -> Option<TokenRequest> {
    ///         let electric = task.template.config.contains_key("watts");
    ///         electric.then(|| TokenRequest { pool: "power-sockets".into() })
    ///     }
    /// }
    /// assert_eq!(Kettles.token(&testing::task("kettle", &serde_json::Value::Null)), None);
    /// ```
    fn token(&self, _task: &TaskContext) -> Option<TokenRequest> {
        None
    }

    /// The object for this attempt. The manager adds name, namespace, owner, labels and finalizer.
    fn build(&self, task: &TaskContext) -> Result<Self::Resource, PluginError>;

    /// Like [`Self::build`], and shows the object after each named step, so that `aileron explain` can tell where a field
    /// comes from. A plugin that builds in layers shows them; any other has only one step.
    ///
    /// ```
    /// use aileron_machinery::pod::layers::{LayerContext, apply_observed, task_pod_layers};
    /// # use aileron_machinery::pod::{PodDraft, PodOptions};
    /// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
    /// # struct Kettles;
    /// impl K8sPlugin for Kettles {
    /// #     type Resource = Pod;
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
    /// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
    /// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
    /// #         Ok(PhaseInfo::undefined())
    /// #     }
    ///     fn build_observed(
    ///         &self,
    ///         task: &TaskContext,
    ///         observe: &mut dyn FnMut(&str, &Pod),
    ///     ) -> Result<Pod, PluginError> {
    ///         let cx = LayerContext::new(task, PodOptions::default());
    ///         let shown = |name: &str, draft: &PodDraft| observe(name, &draft.clone().into_pod());
    ///         Ok(apply_observed(task_pod_layers(), &cx, shown)?.into_pod())
    ///     }
    /// }
    /// # let task = testing::task("kettle", &serde_json::Value::Null);
    /// let mut steps = Vec::new();
    /// Kettles.build_observed(&task, &mut |name, _| steps.push(name.to_owned()))?;
    /// assert_eq!(steps[0], "task target");
    /// # Ok::<(), PluginError>(())
    /// ```
    fn build_observed(
        &self,
        task: &TaskContext,
        observe: &mut dyn FnMut(&str, &Self::Resource),
    ) -> Result<Self::Resource, PluginError> {
        let built = self.build(task)?;
        observe(ONLY_STEP, &built);
        Ok(built)
    }

    /// Where the attempt stands, given its object as last seen; and, by [`PhaseInfo::with_check_at`], when to check again
    /// although nothing has changed.
    fn phase(&self, cx: &PhaseContext<'_>, resource: &Self::Resource) -> Result<PhaseInfo, PluginError>;

    /// Whether the object will not change its outcome any more, and when it ended. The clean-up of objects relies on it.
    /// The default knows pods and the [usual conditions](Ended::by_convention).
    ///
    /// ```
    /// # use aileron_machinery::serde_json::json;
    /// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
    /// # struct Kettles;
    /// impl K8sPlugin for Kettles {
    /// #     type Resource = Pod;
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
    /// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
    /// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
    /// #         Ok(PhaseInfo::undefined())
    /// #     }
    ///     fn ended(&self, pod: &Pod) -> Option<Ended> {
    ///         let boiled = pod.metadata.annotations.as_ref()?.get("kitchen.example.com/boiled")?;
    ///         (boiled == "true").then(|| Ended::well(None))
    ///     }
    /// }
    /// let annotations = json!({"kitchen.example.com/boiled": "true"});
    /// let kettle: Pod = serde_json::from_value(json!({"metadata": {"annotations": annotations}}))?;
    /// assert_eq!(Kettles.ended(&kettle), Some(Ended::well(None)));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    fn ended(&self, resource: &Self::Resource) -> Option<Ended> {
        Ended::of_resource(resource)
    }

    /// How to stop the attempt; `object` is the attempt's own object, which may not exist.
    ///
    /// ```
    /// # use aileron_machinery::serde_json::json;
    /// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
    /// # struct Kettles;
    /// impl K8sPlugin for Kettles {
    /// #     type Resource = Pod;
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
    /// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
    /// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
    /// #         Ok(PhaseInfo::undefined())
    /// #     }
    ///     fn on_abort(&self, _: &TaskContext, _: &ObjectRef) -> Result<AbortBehavior, PluginError> {
    ///         let patch = json!({"spec": {"suspend": true}});
    ///         Ok(AbortBehavior::Patch { patch, target: None, delete_on_error: false })
    ///     }
    /// }
    /// # let task = testing::task("kettle", &serde_json::Value::Null);
    /// let own = ObjectRef::new(ResourceKind::of::<Pod>(), "p-d", "run-a0-0");
    /// assert!(matches!(Kettles.on_abort(&task, &own)?, AbortBehavior::Patch { .. }));
    /// # Ok::<(), PluginError>(())
    /// ```
    fn on_abort(&self, _task: &TaskContext, _object: &ObjectRef) -> Result<AbortBehavior, PluginError> {
        Ok(AbortBehavior::default())
    }

    /// What the plugin wants to know about the definition of its kind. Called when the definition appears or changes, if
    /// [`PluginProperties::reads_definition`] asks for it. The value comes back as
    /// [`TaskContext::definition`], so it should be small.
    ///
    /// ```
    /// # use aileron_machinery::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    /// # use aileron_machinery::serde_json::{Value, json};
    /// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
    /// # struct Kettles;
    /// impl K8sPlugin for Kettles {
    /// #     type Resource = Pod;
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
    /// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
    /// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
    /// #         Ok(PhaseInfo::undefined())
    /// #     }
    ///     fn read_definition(&self, definition: &CustomResourceDefinition) -> Value {
    ///         json!({"has_v2": definition.spec.versions.iter().any(|version| version.name == "v2")})
    ///     }
    /// }
    /// assert_eq!(Kettles.read_definition(&CustomResourceDefinition::default()), json!({"has_v2": false}));
    /// ```
    fn read_definition(&self, _definition: &CustomResourceDefinition) -> Value {
        Value::Null
    }
}
