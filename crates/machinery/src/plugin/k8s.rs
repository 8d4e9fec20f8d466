//! The trait most plugins implement: a task becomes one Kubernetes object, the object's state becomes a phase.

use std::borrow::Cow;
use std::sync::Arc;

use aileron_idl::flyteidl2::core::ErrorDocument;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ObservedPhase, PhaseInfo, PluginEntry, PluginError, TaskContext};

/// A namespaced Kubernetes object with typed metadata. Every such type has it by itself.
pub trait K8sResource:
    k8s_openapi::Resource<Scope = NamespaceResourceScope>
    + k8s_openapi::Metadata<Ty = ObjectMeta>
    + Serialize
    + DeserializeOwned
    + Clone
    + std::fmt::Debug
    + Send
    + Sync
    + 'static
{
}

impl<T> K8sResource for T where
    T: k8s_openapi::Resource<Scope = NamespaceResourceScope>
        + k8s_openapi::Metadata<Ty = ObjectMeta>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug
        + Send
        + Sync
        + 'static
{
}

/// The kind of object a plugin makes, and therefore watches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKind {
    /// API group, empty for the core group.
    pub group: Cow<'static, str>,
    /// Version within the group.
    pub version: Cow<'static, str>,
    /// Kind.
    pub kind: Cow<'static, str>,
    /// Name in URLs.
    pub plural: Cow<'static, str>,
}

impl ResourceKind {
    /// The kind of a typed resource.
    pub fn of<R: K8sResource>() -> Self {
        Self {
            group: R::GROUP.into(),
            version: R::VERSION.into(),
            kind: R::KIND.into(),
            plural: R::URL_PATH_SEGMENT.into(),
        }
    }

    /// `version` for the core group, else `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// How the manager must treat a plugin's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginProperties {
    /// Longest name its objects may have, where the operator derives longer names from it.
    pub generated_name_max_length: Option<usize>,
    /// Its objects must not be owned by the action.
    pub disable_owner_references: bool,
    /// Its objects must not get our finalizer.
    pub disable_finalizer: bool,
    /// Its objects must outlive the action.
    pub disable_delete_on_finalize: bool,
}

/// What must be fetched before a plugin is called, since it cannot fetch anything itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The input literals, for `build`.
    pub inputs: bool,
    /// The pods that belong to the attempt, for `phase`.
    pub pods: bool,
}

/// What [`K8sPlugin::phase`] may look at.
#[derive(Clone, Debug)]
pub struct PhaseContext<'a> {
    /// The attempt.
    pub task: &'a TaskContext,
    /// What the round before saw.
    pub prior: &'a ObservedPhase,
    /// Pods of the attempt, if the plugin needs them, by name.
    pub pods: &'a [Arc<Pod>],
    /// The error document, if the plugin [reads](K8sPlugin::reads_error_document) it and there is one.
    pub error_document: Option<&'a ErrorDocument>,
}

/// A wish for one token of a pool, such as a licence, that an action holds until it has ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenRequest {
    /// The name of the pool, as `tasks.pools` has it.
    pub pool: String,
}

/// How an attempt is stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum AbortBehavior<R> {
    /// Delete the object, or another one in its place.
    Delete {
        /// The object to delete instead of the plugin's own.
        instead: Option<R>,
    },
    /// Patch the object (JSON merge patch), or another one in its place.
    Patch {
        /// The merge patch.
        patch: serde_json::Value,
        /// The object to patch instead of the plugin's own.
        instead: Option<R>,
        /// If the patch is refused, delete.
        delete_on_error: bool,
    },
    /// Replace the object by this one.
    Update {
        /// The whole new object.
        object: R,
        /// If the update is refused, delete.
        delete_on_error: bool,
    },
}

impl<R> Default for AbortBehavior<R> {
    fn default() -> Self {
        Self::Delete { instead: None }
    }
}

/// What the only step of a plugin is called that does not tell its steps apart.
const ONLY_STEP: &str = "build";

/// A plugin that makes one Kubernetes object per attempt.
///
/// All methods are pure: the manager creates, watches, deletes and stores; the plugin computes.
pub trait K8sPlugin: Send + Sync + 'static {
    /// The object it makes.
    type Resource: K8sResource;

    /// Its name and task types.
    fn entry(&self) -> PluginEntry;

    /// How its objects are treated.
    fn properties(&self) -> PluginProperties {
        PluginProperties::default()
    }

    /// What must be fetched for this task before the other methods are called.
    fn needs(&self, _task: &TaskContext) -> Needs {
        Needs::default()
    }

    /// The token that the task must hold before its object is made. Operators of an installation can ask for tokens by task
    /// type without any help of a plugin (`tasks.pools`).
    fn token(&self, _task: &TaskContext) -> Option<TokenRequest> {
        None
    }

    /// The object for this attempt. Name, namespace, owner and finalizer are the manager's business.
    fn build(&self, task: &TaskContext) -> Result<Self::Resource, PluginError>;

    /// Like [`Self::build`], and shows the object after each named step, for whoever wants to know where a field comes
    /// from. A plugin that builds in layers shows them; any other has only the one step.
    fn build_observed(
        &self,
        task: &TaskContext,
        observe: &mut dyn FnMut(&str, &Self::Resource),
    ) -> Result<Self::Resource, PluginError> {
        let built = self.build(task)?;
        observe(ONLY_STEP, &built);
        Ok(built)
    }

    /// Whether the task's error document matters to the phase of this object. It is fetched from storage, so it should
    /// matter only at the end.
    fn reads_error_document(&self, _resource: &Self::Resource) -> bool {
        false
    }

    /// Where the attempt stands, given its object as last seen.
    fn phase(&self, cx: &PhaseContext<'_>, resource: &Self::Resource) -> Result<PhaseInfo, PluginError>;

    /// When time alone, without any change of the object, may lead to another phase: the end of a grace period.
    fn due(&self, _cx: &PhaseContext<'_>, _resource: &Self::Resource) -> Option<Timestamp> {
        None
    }

    /// How to stop the attempt.
    fn on_abort(
        &self,
        _task: &TaskContext,
        _resource: &Self::Resource,
    ) -> Result<AbortBehavior<Self::Resource>, PluginError> {
        Ok(AbortBehavior::default())
    }

    /// The object will not change its outcome any more.
    fn is_terminal(&self, resource: &Self::Resource) -> bool;

    /// When it ended, if that can be told.
    fn completed_at(&self, _resource: &Self::Resource) -> Option<Timestamp> {
        None
    }
}
