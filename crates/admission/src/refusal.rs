//! Classifies error answers of the API server: may the same create request succeed later, or not.

use std::time::Duration;

use aileron_kubekit::ApiError;
use aileron_machinery::PendingReason;

use crate::quota::message::{ExceededQuota, exceeded_quotas};

/// Why a create request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// These quotas are used up.
    Quota(Vec<ExceededQuota>),
    /// The API server, its storage or an admission webhook cannot answer at the moment.
    Overload {
        /// What cannot answer.
        what: Overload,
        /// The header `Retry-After`: the API server asks not to be called again before this time has passed.
        retry_after: Option<Duration>,
    },
    /// Anything else: waiting would not help, or it is not known whether it would.
    Other,
}

/// The component that cannot answer at the moment, with a text for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overload {
    /// The API server or its storage.
    Server(&'static str),
    /// An admission webhook. The text is the error message of the API server.
    Webhook(String),
}

impl Overload {
    /// The pending reason of an action that waits for this component.
    #[must_use]
    pub fn reason(&self) -> PendingReason {
        match self {
            Self::Server(_) => PendingReason::BackOff,
            Self::Webhook(_) => PendingReason::Webhook,
        }
    }

    /// The text for users.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Server(what) => what,
            Self::Webhook(what) => what,
        }
    }
}

/// Start of the message of an API server that could not call an admission webhook. The name of the webhook and the error
/// follow.
const WEBHOOK_FAILED: &str = "failed calling webhook ";

impl Refusal {
    /// Classifies an error answer.
    ///
    /// # Differs from upstream
    ///
    /// Upstream treats an exceeded quota as a failure of the user's task, immediately and without back-off, and an
    /// overloaded API server as a failure of the platform. Aileron treats both as reasons to wait: the task loses no attempt.
    #[must_use]
    pub fn of(error: &ApiError) -> Self {
        let contains = |text: &str| error.message.contains(text);
        if error.is_forbidden() && contains("exceeded quota") {
            return Self::Quota(exceeded_quotas(&error.message));
        }
        if error.code >= 500
            && let Some(start) = error.message.find(WEBHOOK_FAILED)
        {
            let what = Overload::Webhook(error.message[start..].to_owned());
            return Self::Overload { what, retry_after: error.retry_after };
        }
        let about_quota = contains("resourcequotas") || contains("quota");
        let what = if error.code == 429 || error.reason == "TooManyRequests" {
            "the API server has too many requests"
        } else if error.code == 502 {
            "the proxy in front of the API server cannot reach it"
        } else if error.code == 503 || error.reason == "ServiceUnavailable" {
            "the API server is not available"
        } else if error.reason == "ServerTimeout" || error.reason == "Timeout" || error.code == 504 {
            "the API server took too long"
        } else if error.is_forbidden() && contains("status unknown for quota") {
            "the usage of a quota is not known yet"
        } else if error.is_conflict_of_quotas() {
            "a quota was changed at the same time"
        } else if error.code == 500 && about_quota && (contains("timed out") || contains("timeout")) {
            "the API server took too long to check the quotas"
        } else if contains("etcdserver:")
            && !contains("request is too large")
            && (error.is_forbidden() || error.code == 500)
        {
            "the storage of the API server does not answer"
        } else {
            return Self::Other;
        };
        Self::Overload { what: Overload::Server(what), retry_after: error.retry_after }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]

    use super::*;

    fn error(code: u16, reason: &str, message: &str) -> ApiError {
        ApiError { code, reason: reason.into(), message: message.into(), ..ApiError::default() }
    }

    #[test]
    fn refusals_that_may_pass_are_told_from_permanent_ones() {
        let quota = error(
            403,
            "Forbidden",
            "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
        );
        assert!(matches!(Refusal::of(&quota), Refusal::Quota(quotas) if quotas.len() == 1));
        for (code, reason, message) in [
            (429, "TooManyRequests", "slow down"),
            (429, "Failed to parse error data", "Too many requests, please try again later."),
            (503, "ServiceUnavailable", "no"),
            (500, "ServerTimeout", "no"),
            (504, "Timeout", "no"),
            (403, "Forbidden", "pods \"x\" is forbidden: status unknown for quota: q, resources: pods"),
            (403, "Forbidden", "pods \"x\" is forbidden: etcdserver: request timed out"),
            (500, "InternalError", "etcdserver: leader changed"),
            (500, "InternalError", "Internal error occurred: resource quota evaluation timed out"),
            (409, "Conflict", "Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified"),
        ] {
            assert!(matches!(Refusal::of(&error(code, reason, message)), Refusal::Overload { .. }), "{message}");
        }
        for (code, reason, message) in [
            (403, "Forbidden", "pods \"x\" is forbidden: User \"u\" cannot create resource"),
            (403, "Forbidden", "pods \"x\" is forbidden: failed quota: q: must specify limits.cpu for: c"),
            (409, "Conflict", "server says no"),
            (409, "AlreadyExists", "pods \"resourcequotas\" already exists"),
            (500, "InternalError", "etcdserver: request is too large"),
            (500, "InternalError", "server says no"),
            (422, "Invalid", "exceeded quota"),
            (0, "", "connection refused"),
        ] {
            assert_eq!(Refusal::of(&error(code, reason, message)), Refusal::Other, "{message}");
        }
    }

    #[test]
    fn a_webhook_that_cannot_be_called_is_named() {
        let message = "Internal error occurred: failed calling webhook \"pods.example.com\": failed to call webhook: Post \
                       \"https://hook.example.svc:443/pods?timeout=10s\": context deadline exceeded";
        let Refusal::Overload { what, .. } = Refusal::of(&error(500, "InternalError", message)) else {
            panic!("not classified as overload")
        };
        assert_eq!(what.reason(), PendingReason::Webhook);
        assert!(what.text().starts_with("failed calling webhook \"pods.example.com\": "), "{}", what.text());
        let denied = error(403, "Forbidden", "admission webhook \"pods.example.com\" denied the request: no");
        assert_eq!(Refusal::of(&denied), Refusal::Other, "the webhook was called and denied the request");
    }

    #[test]
    fn retry_after_is_kept() {
        let busy = ApiError { retry_after: Some(Duration::from_secs(7)), ..error(429, "TooManyRequests", "") };
        assert!(matches!(Refusal::of(&busy), Refusal::Overload { retry_after: Some(wait), .. } if wait.as_secs() == 7));
    }
}
