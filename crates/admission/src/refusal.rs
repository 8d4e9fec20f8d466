//! Which answers of an API server mean "not now", as opposed to "no".

use std::time::Duration;

use aileron_kubekit::ApiError;
use aileron_machinery::PendingReason;

use crate::quota::message::{ExceededQuota, exceeded_quotas};

/// Why a create was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Quotas are used up.
    Quota(Vec<ExceededQuota>),
    /// The server, or what is behind it, has too much to do or does not know yet.
    Overload {
        /// What to tell people.
        what: Overload,
        /// When the server wants us back at the earliest.
        retry_after: Option<Duration>,
    },
    /// Anything else; waiting would not help, or nobody knows.
    Other,
}

/// What has too much to do, and what to tell people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overload {
    /// The API server itself, or its storage.
    Server(&'static str),
    /// A webhook that must be asked does not answer. What is wrong with it, in the words of the server.
    Webhook(String),
}

impl Overload {
    /// The code of what waits for it.
    #[must_use]
    pub fn reason(&self) -> PendingReason {
        match self {
            Self::Server(_) => PendingReason::BackOff,
            Self::Webhook(_) => PendingReason::Webhook,
        }
    }

    /// What to tell people.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Server(what) => what,
            Self::Webhook(what) => what,
        }
    }
}

/// How the server begins when it could not ask a webhook; whatever follows is the webhook and what went wrong.
const WEBHOOK: &str = "failed calling webhook ";

impl Refusal {
    /// Reads an answer.
    ///
    /// # Differs from upstream
    ///
    /// Upstream takes an exceeded quota for a failure of the user's task, at once and without a pause, and an overloaded
    /// server for a failure of the platform. Neither is one: the task waits and loses no attempt.
    #[must_use]
    pub fn of(error: &ApiError) -> Self {
        let says = |words: &str| error.message.contains(words);
        if error.is_forbidden() && says("exceeded quota") {
            return Self::Quota(exceeded_quotas(&error.message));
        }
        if error.code >= 500
            && let Some(at) = error.message.find(WEBHOOK)
        {
            let what = Overload::Webhook(error.message[at..].to_owned());
            return Self::Overload { what, retry_after: error.retry_after };
        }
        let about_quota = says("resourcequotas") || says("quota");
        let what = if error.code == 429 || error.reason == "TooManyRequests" {
            "the API server has too many requests"
        } else if error.code == 502 {
            "what is in front of the API server does not reach it"
        } else if error.code == 503 || error.reason == "ServiceUnavailable" {
            "the API server is not available"
        } else if error.reason == "ServerTimeout" || error.reason == "Timeout" || error.code == 504 {
            "the API server took too long"
        } else if error.is_forbidden() && says("status unknown for quota") {
            "the usage of a quota is not known yet"
        } else if error.is_conflict_of_quotas() {
            "a quota was changed at the same time"
        } else if error.code == 500 && about_quota && (says("timed out") || says("timeout")) {
            "the API server took too long to look at quotas"
        } else if says("etcdserver:") && !says("request is too large") && (error.is_forbidden() || error.code == 500) {
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
    fn not_now_is_told_from_no() {
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
    fn a_webhook_that_does_not_answer_is_named() {
        let message = "Internal error occurred: failed calling webhook \"pods.example.com\": failed to call webhook: Post \
                       \"https://hook.example.svc:443/pods?timeout=10s\": context deadline exceeded";
        let Refusal::Overload { what, .. } = Refusal::of(&error(500, "InternalError", message)) else {
            panic!("not waited for")
        };
        assert_eq!(what.reason(), PendingReason::Webhook);
        assert!(what.text().starts_with("failed calling webhook \"pods.example.com\": "), "{}", what.text());
        let denied = error(403, "Forbidden", "admission webhook \"pods.example.com\" denied the request: no");
        assert_eq!(Refusal::of(&denied), Refusal::Other, "it was asked, and said no");
    }

    #[test]
    fn the_servers_own_wish_is_kept() {
        let busy = ApiError { retry_after: Some(Duration::from_secs(7)), ..error(429, "TooManyRequests", "") };
        assert!(matches!(Refusal::of(&busy), Refusal::Overload { retry_after: Some(wait), .. } if wait.as_secs() == 7));
    }
}
