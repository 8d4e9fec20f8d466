//! The operations on the cluster that the executor needs, as traits.
//!
//! The plugin manager and the reconciler use only these traits. They are implemented by the real API server with its watch
//! caches ([`kube`]) and, in tests, by a recorded cluster.

pub mod kube;
pub mod listed;
pub mod permissions;

pub use aileron_lease::{LEASE_NAME, request_error_text};

use std::sync::Arc;

use aileron_action::pending::ObjectEvent;
use aileron_action::{Action, TaskAction};
use aileron_kubekit::ApiError;
use aileron_machinery::{ActionKey, AnyResource, ObjectPlugin, ResourceKind, TaskMetadata};
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use tokio::sync::SemaphorePermit;

/// Decides by its metadata whether the object with a given name is the one that the caller means. Names are reused, so a
/// name alone does not identify an object.
pub type IdentityCheck<'a> = dyn Fn(&ObjectMeta) -> bool + Send + Sync + 'a;

/// The result of reading an object.
#[derive(Clone, Debug)]
pub enum Observed {
    /// The object exists, in this state.
    Present(Arc<dyn AnyResource>),
    /// The executor has just created the object, and the watch cache does not show it yet.
    NotYetVisible,
    /// The object does not exist. The API server itself said so.
    Absent(ApiError),
}

/// The result of a create that the API server did not refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The object was created, with this resource version if it is known.
    Created(Option<u64>),
    /// The request was not sent, because it was no longer allowed when a write permit was free.
    HeldBack,
}

/// The objects that plugins create.
#[async_trait]
pub trait Objects: Send + Sync {
    /// Waits for a write permit, and creates the object if `is_allowed` still returns true then.
    async fn create(
        &self,
        plugin: &dyn ObjectPlugin,
        object: Box<dyn AnyResource>,
        is_allowed: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<Sent, ApiError>;

    /// Whether the cluster is known not to serve this kind. If it is not known, the answer to a request shows it.
    fn kind_missing(&self, _kind: &ResourceKind) -> bool {
        false
    }

    /// Reads an object: from the watch cache, or from the API server if the cache does not show it.
    async fn observe(&self, plugin: &dyn ObjectPlugin, namespace: &str, name: &str) -> Result<Observed, ApiError>;

    /// What the plugin of this id read from the definition of its kind, if there is a definition.
    fn definition(&self, _plugin: &str) -> Option<Arc<Value>> {
        None
    }

    /// Reads an object from the API server itself, for decisions that must not rely on the watch cache.
    async fn get_live(
        &self,
        plugin: &dyn ObjectPlugin,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<dyn AnyResource>, ApiError>;

    /// The object with this name in the watch cache, whichever action it belongs to.
    fn cached(&self, plugin: &dyn ObjectPlugin, namespace: &str, name: &str) -> Option<Arc<dyn AnyResource>>;

    /// Deletes the object with this name if it passes the check. Otherwise the error is not found.
    async fn delete(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        check: &IdentityCheck<'_>,
    ) -> Result<(), ApiError>;

    /// Deletes exactly this state of an object: if the object has changed since, the error is a conflict, and nothing is
    /// deleted.
    async fn delete_unchanged(&self, kind: &ResourceKind, object: &dyn AnyResource) -> Result<(), ApiError>;

    /// Applies a JSON merge patch to the object with this name, under the same condition as [`delete`](Self::delete).
    async fn patch(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        patch: Value,
        check: &IdentityCheck<'_>,
    ) -> Result<(), ApiError>;

    /// Removes one finalizer from exactly this object, identified by its UID. Other finalizers stay.
    async fn remove_finalizer(&self, kind: &ResourceKind, object: &dyn AnyResource, name: &str)
    -> Result<(), ApiError>;

    /// The Kubernetes events about an object after the given times, oldest first.
    fn events_since(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        created_after: Option<Timestamp>,
        recorded_after: Option<Timestamp>,
    ) -> Vec<ObjectEvent>;

    /// The pods of an attempt, by name, including pods that operators created.
    fn pods_of(&self, attempt: &TaskMetadata) -> Vec<Arc<Pod>>;
}

/// Permission to send one write request. Dropping it releases the permit.
#[derive(Debug)]
pub struct WriteSlot<'a> {
    _permit: Option<SemaphorePermit<'a>>,
}

impl<'a> WriteSlot<'a> {
    /// A slot from a limited number.
    pub fn of(permit: SemaphorePermit<'a>) -> Self {
        Self { _permit: Some(permit) }
    }

    /// A slot where the number of writes is not limited.
    pub fn unbounded() -> Self {
        Self { _permit: None }
    }
}

/// The actions themselves.
#[async_trait]
pub trait Actions: Send + Sync {
    /// Adds the executor's finalizer.
    async fn add_finalizer(&self, action: &Action) -> Result<(), ApiError>;

    /// Removes the executor's finalizer.
    async fn remove_finalizer(&self, action: &Action) -> Result<(), ApiError>;

    /// Waits for a permit to send one write request.
    async fn write_slot(&self) -> Result<WriteSlot<'_>, ApiError> {
        Ok(WriteSlot::unbounded())
    }

    /// Whether all write permits are in use.
    fn is_busy(&self) -> bool {
        false
    }

    /// Applies a JSON merge patch to the status. Returns the metadata from the answer. With a version, the API server
    /// refuses the patch with a conflict if the action has another resource version by then.
    async fn patch_status(
        &self,
        key: &ActionKey,
        patch: Value,
        version: Option<u64>,
        slot: &WriteSlot<'_>,
    ) -> Result<ObjectMeta, ApiError>;

    /// Reads an action again, after a write whose result is not known. `None` if it is gone, or cannot be decoded.
    async fn refresh(&self, _key: &ActionKey) -> Result<Option<TaskAction>, ApiError> {
        Ok(None)
    }

    /// Adds labels.
    async fn add_labels(&self, action: &Action, labels: &[(&str, &str)]) -> Result<(), ApiError>;

    /// Records a warning event about the action, which `kubectl describe` shows.
    async fn warn(&self, action: &TaskAction, reason: &str, activity: &str, note: &str);
}
