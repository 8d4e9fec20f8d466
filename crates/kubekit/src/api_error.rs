//! An error answer of an API server, as a value.

use std::time::Duration;

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

    /// Something has the name, but it is not what is meant; who means another finds nothing.
    pub fn somebody_elses(kind: &str, namespace: &str, name: &str) -> Self {
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
