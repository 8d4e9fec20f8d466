//! Kinds of Kubernetes objects, and the types that stand for them.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A namespaced Kubernetes object as a Rust type: a type of `k8s-openapi`, one made by `#[derive(CustomResource)]`, or one
/// made by [`custom_resource!`](crate::custom_resource). Every such type implements this trait by itself.
///
/// ```
/// use aileron_machinery::k8s_openapi::api::batch::v1::Job;
/// use aileron_machinery::K8sResource;
///
/// fn plural<R: K8sResource>() -> String {
///     R::resource_kind().plural.into_owned()
/// }
/// assert_eq!(plural::<Job>(), "jobs");
///
/// let mut job = Job::default();
/// job.object_meta_mut().name = Some("run-a0-0".into());
/// assert_eq!(job.object_meta().name.as_deref(), Some("run-a0-0"));
/// ```
// `kube_core::Resource` is not a supertrait: the compiler would report it as missing, and not this trait with its advice.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type of namespaced Kubernetes objects",
    label = "a plugin cannot make objects of this type",
    note = "use a type of `k8s_openapi`, or one made by `#[derive(CustomResource)]` or `custom_resource!`. The derive makes \
            the type that `kind = \"..\"` names: use that type, not the spec",
    note = "the kind must be namespaced: write `namespaced` in `#[kube(..)]`. Objects without a namespace, such as \
            `Node`, cannot be the object of a task",
    note = "for a kind that is known only at run time, implement `ObjectPlugin` and use `JsonObject`"
)]
pub trait K8sResource: Serialize + DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static {
    /// The kind of all objects of this type.
    fn resource_kind() -> ResourceKind;

    /// The metadata of the object.
    fn object_meta(&self) -> &ObjectMeta;

    /// The metadata of the object, to be changed.
    fn object_meta_mut(&mut self) -> &mut ObjectMeta;
}

#[diagnostic::do_not_recommend]
impl<T> K8sResource for T
where
    T: kube_core::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + fmt::Debug
        + Send
        + Sync
        + 'static,
{
    fn resource_kind() -> ResourceKind {
        ResourceKind { group: T::group(&()), version: T::version(&()), kind: T::kind(&()), plural: T::plural(&()) }
    }

    fn object_meta(&self) -> &ObjectMeta {
        self.meta()
    }

    fn object_meta_mut(&mut self) -> &mut ObjectMeta {
        self.meta_mut()
    }
}

/// The kind of object a plugin makes, and therefore watches.
///
/// ```
/// use aileron_machinery::ResourceKind;
/// use aileron_machinery::k8s_openapi::api::batch::v1::Job;
///
/// assert_eq!(ResourceKind::of::<Job>().api_version(), "batch/v1");
///
/// let kettle = ResourceKind::new("kitchen.example.com", "v1", "Kettle", "kettles");
/// assert_eq!(kettle.definition_name(), "kettles.kitchen.example.com");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
        R::resource_kind()
    }

    /// A kind whose names are known at run time, for example
    /// `ResourceKind::new("batch.example.com", "v1", "Batch", "batches")`.
    pub fn new(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        kind: impl Into<Cow<'static, str>>,
        plural: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into(), plural: plural.into() }
    }

    /// `version` for the core group, else `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name of the `CustomResourceDefinition` that defines such a kind, if it is not built into the API server.
    pub fn definition_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

/// Which object: everything that a request to the API server needs, and nothing that could be missing.
///
/// ```
/// use aileron_machinery::{AbortBehavior, ObjectRef, ResourceKind};
/// use aileron_machinery::k8s_openapi::api::batch::v1::Job;
///
/// let runner = ObjectRef::new(ResourceKind::of::<Job>(), "team", "run-a0-0-runner");
/// assert_eq!(runner.to_string(), "Job [team/run-a0-0-runner]");
/// // For `on_abort`: the runner is deleted instead of the attempt's own object.
/// assert_ne!(AbortBehavior::Delete { target: Some(runner) }, AbortBehavior::default());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: ResourceKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// The object of this name.
    pub fn new(kind: ResourceKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}/{}]", self.kind.kind, self.namespace, self.name)
    }
}
