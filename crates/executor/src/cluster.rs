//! What the executor asks of a cluster, apart from how it is asked.
//!
//! The manager and the reconciler decide against this trait. Behind it are the real API server with its watch caches
//! ([`kube`]) or, in tests, a recorded cluster.

pub mod kube;

use std::sync::Arc;
use std::time::Duration;

use aileron_machinery::{AnyResource, ObjectPlugin, ResourceKind, TaskMetadata};
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::action::{Action, TaskAction, TaskActionStatus};

/// The API server, or the way to it, said no.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status, 0 if there was no answer.
    pub code: u16,
    /// Machine-readable reason, as in `metav1.Status`; empty if there was none.
    pub reason: String,
    /// What happened, in the server's words.
    pub message: String,
    /// How long to wait before asking again, if the server says so.
    pub retry_after: Option<Duration>,
}

/// Reason of an answer that means: no such kind. Servers have no word of their own for it, and differ in what they say.
pub const KIND_NOT_SERVED: &str = "KindNotServed";

impl ApiError {
    /// Something went wrong before there was an answer.
    pub fn unanswered(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// An object with this name exists but belongs to another owner. Callers treat it as NotFound.
    pub fn owned_by_other(kind: &str, namespace: &str, name: &str) -> Self {
        let message = format!("the {kind} [{namespace}/{name}] that is there belongs to something else");
        Self { code: 404, reason: "NotFound".into(), message, retry_after: None }
    }

    /// The object is not there, or no longer; nor is one whose kind is not served.
    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound" || (self.reason.is_empty() && self.code == 404) || self.is_kind_not_served()
    }

    /// The server does not know the kind at all, or is about to forget it.
    pub fn is_kind_not_served(&self) -> bool {
        self.reason == KIND_NOT_SERVED
    }

    /// The object was there and is gone for good.
    pub fn is_gone(&self) -> bool {
        self.reason == "Gone" || (self.reason.is_empty() && self.code == 410)
    }

    /// The version asked for is too old to be served.
    pub fn is_expired(&self) -> bool {
        self.reason == "Expired"
    }

    /// An object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// The write was based on an older version of the object.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict" || (self.reason.is_empty() && self.code == 409)
    }

    /// The server could not count the object: somebody else wrote the usage of a quota at the same time.
    pub fn is_conflict_of_quotas(&self) -> bool {
        self.is_conflict() && self.message.contains("Operation cannot be fulfilled on resourcequotas")
    }

    /// Not allowed; also how quota and admission refuse.
    pub fn is_forbidden(&self) -> bool {
        self.reason == "Forbidden" || (self.reason.is_empty() && self.code == 403)
    }

    /// The object is not valid.
    pub fn is_invalid(&self) -> bool {
        self.reason == "Invalid" || (self.reason.is_empty() && self.code == 422)
    }

    /// The request is not understood; also how a webhook may refuse.
    pub fn is_bad_request(&self) -> bool {
        self.reason == "BadRequest" || (self.reason.is_empty() && self.code == 400)
    }

    /// The object is larger than the server takes.
    pub fn is_too_large(&self) -> bool {
        self.reason == "RequestEntityTooLarge" || self.code == 413
    }
}

/// Tells by its metadata whether an object found under a name is the one that the caller means. Names are used again, so
/// a name alone does not identify an object.
pub type IdentityCheck<'a> = dyn Fn(&ObjectMeta) -> bool + Send + Sync + 'a;

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

/// Something Kubernetes recorded about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEvent {
    /// What it says.
    pub message: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When this executor first saw it; tells apart events of the same second.
    pub recorded_at: Timestamp,
}

/// The objects that plugins make.
#[async_trait]
pub trait Objects: Send + Sync {
    /// Creates an object, unless the leave for it no longer holds when its turn to be sent has come.
    async fn create(
        &self,
        plugin: &dyn ObjectPlugin,
        object: Box<dyn AnyResource>,
        holds: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<Sent, ApiError>;

    /// The cluster is known not to serve this kind. As long as nothing is known, a request tells.
    fn kind_missing(&self, _kind: &ResourceKind) -> bool {
        false
    }

    /// Looks at an object, in the local cache if that can be trusted.
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

    /// What the cache has under this name, whatever it is.
    fn cached(&self, plugin: &dyn ObjectPlugin, namespace: &str, name: &str) -> Option<Arc<dyn AnyResource>>;

    /// Deletes the object of this name if it passes the check; any other counts as not found.
    async fn delete(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        check: &IdentityCheck<'_>,
    ) -> Result<(), ApiError>;

    /// Applies a JSON merge patch to an object, on the same condition.
    async fn patch(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        patch: Value,
        check: &IdentityCheck<'_>,
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

/// How soon a status must be visible to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A step on the way: may be replaced by a newer one before it is written.
    Intermediate,
    /// Others wait for it, or losing it would lose work.
    Immediate,
}

/// The actions themselves.
#[async_trait]
pub trait Actions: Send + Sync {
    /// Adds our finalizer.
    async fn add_finalizer(&self, action: &Action) -> Result<(), ApiError>;

    /// Removes our finalizer.
    async fn remove_finalizer(&self, action: &Action) -> Result<(), ApiError>;

    /// Writes the fields of the status that changed.
    async fn write_status(&self, action: &Action, status: &TaskActionStatus, urgency: Urgency) -> Result<(), ApiError>;

    /// Adds labels.
    async fn add_labels(&self, action: &Action, labels: &[(&str, &str)]) -> Result<(), ApiError>;

    /// Records a warning where `kubectl describe` shows it.
    async fn warn(&self, action: &TaskAction, reason: &str, activity: &str, note: &str);
}
