//! What the executor asks of a cluster, apart from how it is asked.
//!
//! The manager and the reconciler decide against this trait. Behind it are the real API server with its watch caches
//! ([`kube`]) or, in tests, a recorded cluster.

pub mod kube;

use std::sync::Arc;

use aileron_action::pending::ObjectEvent;
use aileron_action::{Action, TaskAction};
use aileron_kubekit::ApiError;
use aileron_machinery::{ActionKey, AnyK8sPlugin, AnyResource, ResourceKind, TaskMetadata};
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use tokio::sync::SemaphorePermit;

/// Tells by its metadata whether an object found under a name is the one that is meant. Names are used again, so a name
/// alone says nothing.
pub type IsMeant<'a> = dyn Fn(&ObjectMeta) -> bool + Send + Sync + 'a;

/// One look at an object.
#[derive(Clone, Debug)]
pub enum Observed {
    /// It is there, in this state.
    Present(Arc<dyn AnyResource>),
    /// It was just created and has not reached the cache; there is nothing to see yet.
    NotYetVisible,
    /// It is not there, and a live look said so too.
    Absent(ApiError),
}

/// What became of a create that the server did not refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The object is there; with the version that it was stored as, if known.
    Created(Option<u64>),
    /// It was not sent, because the leave for it no longer held.
    HeldBack,
}

/// The objects that plugins make.
#[async_trait]
pub trait Objects: Send + Sync {
    /// Creates an object, unless the leave for it no longer holds when its turn to be sent has come.
    async fn create(
        &self,
        plugin: &dyn AnyK8sPlugin,
        object: Box<dyn AnyResource>,
        holds: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<Sent, ApiError>;

    /// The cluster is known not to serve this kind. As long as nothing is known, trying tells.
    fn lacks(&self, _kind: &ResourceKind) -> bool {
        false
    }

    /// Looks at an object, in the local cache if that can be trusted.
    async fn observe(&self, plugin: &dyn AnyK8sPlugin, namespace: &str, name: &str) -> Result<Observed, ApiError>;

    /// Looks at an object in the API server itself, for decisions that a stale cache would spoil.
    async fn look(
        &self,
        plugin: &dyn AnyK8sPlugin,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<dyn AnyResource>, ApiError>;

    /// What the cache has under this name, whatever it is.
    fn cached(&self, plugin: &dyn AnyK8sPlugin, namespace: &str, name: &str) -> Option<Arc<dyn AnyResource>>;

    /// Deletes the object of this name if it is the one meant; any other counts as not found.
    async fn delete(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        is_meant: &IsMeant<'_>,
    ) -> Result<(), ApiError>;

    /// Applies a JSON merge patch to an object, on the same condition.
    async fn patch(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        patch: Value,
        is_meant: &IsMeant<'_>,
    ) -> Result<(), ApiError>;

    /// Replaces an object, on the same condition.
    async fn update(
        &self,
        kind: &ResourceKind,
        object: Box<dyn AnyResource>,
        is_meant: &IsMeant<'_>,
    ) -> Result<(), ApiError>;

    /// Takes one finalizer off this very object and leaves all others.
    async fn remove_finalizer(&self, kind: &ResourceKind, object: &dyn AnyResource, name: &str)
    -> Result<(), ApiError>;

    /// What Kubernetes recorded about an object after a moment, oldest first.
    fn events_since(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        created_after: Option<Timestamp>,
        recorded_after: Option<Timestamp>,
    ) -> Vec<ObjectEvent>;

    /// The pods that belong to an attempt, by name, whoever made them.
    fn pods_of(&self, attempt: &TaskMetadata) -> Vec<Arc<Pod>>;
}

/// Permission to send one write. The slot is taken until this is dropped.
#[derive(Debug)]
pub struct WriteSlot<'a> {
    _permit: Option<SemaphorePermit<'a>>,
}

impl<'a> WriteSlot<'a> {
    /// A slot of a bounded number.
    pub fn of(permit: SemaphorePermit<'a>) -> Self {
        Self { _permit: Some(permit) }
    }

    /// A slot where the number of writes is not bounded.
    pub fn unbounded() -> Self {
        Self { _permit: None }
    }
}

/// The actions themselves.
#[async_trait]
pub trait Actions: Send + Sync {
    /// Adds our finalizer.
    async fn add_finalizer(&self, action: &Action) -> Result<(), ApiError>;

    /// Removes our finalizer.
    async fn remove_finalizer(&self, action: &Action) -> Result<(), ApiError>;

    /// Waits until one more write may be sent.
    async fn write_slot(&self) -> Result<WriteSlot<'_>, ApiError> {
        Ok(WriteSlot::unbounded())
    }

    /// All write slots are taken.
    fn is_busy(&self) -> bool {
        false
    }

    /// Applies a JSON merge patch to the status. Returns the metadata that the API server answers.
    async fn patch_status(&self, key: &ActionKey, patch: Value, slot: &WriteSlot<'_>) -> Result<ObjectMeta, ApiError>;

    /// Adds labels.
    async fn add_labels(&self, action: &Action, labels: &[(&str, &str)]) -> Result<(), ApiError>;

    /// Records a warning where `kubectl describe` shows it.
    async fn warn(&self, action: &TaskAction, reason: &str, activity: &str, note: &str);
}
