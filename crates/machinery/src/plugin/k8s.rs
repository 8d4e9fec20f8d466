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
pub trait K8sPlugin: Send + Sync + 'static {
    /// The object it makes.
    type Resource: K8sResource;

    /// Its name and task types.
    fn entry(&self) -> PluginEntry;

    /// How its objects are treated.
    fn properties(&self) -> PluginProperties {
        PluginProperties::default()
    }

    /// What must be fetched for this task before the other methods are called. The default is what building a pod needs.
    fn needs(&self, task: &TaskContext) -> Needs {
        Needs::of_pod(task)
    }

    /// The token that the task must hold before its object is made. Operators of an installation can ask for tokens by task
    /// type without any help of a plugin (`tasks.pools`).
    fn token(&self, _task: &TaskContext) -> Option<TokenRequest> {
        None
    }

    /// The object for this attempt. The manager adds name, namespace, owner, labels and finalizer.
    fn build(&self, task: &TaskContext) -> Result<Self::Resource, PluginError>;

    /// Like [`Self::build`], and shows the object after each named step, so that `aileron explain` can tell where a field
    /// comes from. A plugin that builds in layers shows them; any other has only one step.
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
    fn ended(&self, resource: &Self::Resource) -> Option<Ended> {
        Ended::of_resource(resource)
    }

    /// How to stop the attempt; `object` is the attempt's own object, which may not exist.
    fn on_abort(&self, _task: &TaskContext, _object: &ObjectRef) -> Result<AbortBehavior, PluginError> {
        Ok(AbortBehavior::default())
    }

    /// What the plugin wants to know about the definition of its kind. Called when the definition appears or changes, if
    /// [`PluginProperties::reads_definition`] asks for it. The value comes back as
    /// [`TaskContext::definition`], so it should be small.
    fn read_definition(&self, _definition: &CustomResourceDefinition) -> Value {
        Value::Null
    }
}
