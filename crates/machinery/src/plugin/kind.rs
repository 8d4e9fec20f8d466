//! Kinds of Kubernetes objects, and the types that stand for them.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::NamespaceResourceScope;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A namespaced Kubernetes object as a Rust type: a type of `k8s-openapi`, one made by `#[derive(CustomResource)]`, or one
/// made by [`custom_resource!`](crate::custom_resource). Every such type implements this trait by itself.
pub trait K8sResource:
    kube_core::Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Serialize
    + DeserializeOwned
    + Clone
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
}

impl<T> K8sResource for T where
    T: kube_core::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + fmt::Debug
        + Send
        + Sync
        + 'static
{
}

/// The kind of object a plugin makes, and therefore watches.
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
        Self { group: R::group(&()), version: R::version(&()), kind: R::kind(&()), plural: R::plural(&()) }
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
