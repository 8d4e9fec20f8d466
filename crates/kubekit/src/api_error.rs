//! An error answer of an API server, as a value.

use std::time::Duration;

/// The API server refused a request, or could not be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status, 0 if there was no answer.
    pub code: u16,
    /// Machine-readable reason, as in `metav1.Status`; empty if there was none.
    pub reason: String,
    /// What happened, in the words of the API server.
    pub message: String,
    /// How long to wait before the next request, if the API server says so.
    pub retry_after: Option<Duration>,
}

/// Reason of an answer that means that the kind is not served. API servers have no reason of their own for it, and their
/// messages differ.
pub const KIND_NOT_SERVED: &str = "KindNotServed";

impl ApiError {
    /// The request failed before there was an answer.
    pub fn unanswered(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// An object with this name exists but belongs to another owner. Callers treat it as NotFound.
    pub fn owned_by_other(kind: &str, namespace: &str, name: &str) -> Self {
        let message = format!("the {kind} [{namespace}/{name}] that is there belongs to something else");
        Self { code: 404, reason: "NotFound".into(), message, retry_after: None }
    }

    /// The object does not exist. An object whose kind is not served does not exist either.
    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound" || (self.reason.is_empty() && self.code == 404) || self.is_kind_not_served()
    }

    /// The API server does not serve the kind, or its definition is being deleted.
    pub fn is_kind_not_served(&self) -> bool {
        self.reason == KIND_NOT_SERVED
    }

    /// The object existed and is gone for good.
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

    /// The API server could not count the object because the usage of a quota was written at the same time.
    pub fn is_conflict_of_quotas(&self) -> bool {
        self.is_conflict() && self.message.contains("Operation cannot be fulfilled on resourcequotas")
    }

    /// The request is not allowed. Quotas and admission refuse in this way too.
    pub fn is_forbidden(&self) -> bool {
        self.reason == "Forbidden" || (self.reason.is_empty() && self.code == 403)
    }

    /// The object is not valid.
    pub fn is_invalid(&self) -> bool {
        self.reason == "Invalid" || (self.reason.is_empty() && self.code == 422)
    }

    /// The request is not understood. Webhooks may refuse in this way too.
    pub fn is_bad_request(&self) -> bool {
        self.reason == "BadRequest" || (self.reason.is_empty() && self.code == 400)
    }

    /// The object is larger than the API server accepts.
    pub fn is_too_large(&self) -> bool {
        self.reason == "RequestEntityTooLarge" || self.code == 413
    }
}
