//! Asks the API server who may read metrics, and caches its decisions for a while.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aileron_lease::RequestError;
use http::{HeaderMap, Method, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// Checks bearer tokens with the API server. Mirrors controller-runtime's `WithAuthenticationAndAuthorization`.
pub(super) struct Access {
    client: kube::Client,
    decisions: Mutex<Decisions>,
}

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The user may read metrics.
    Allowed,
    /// The request has no token, or the API server does not know the token.
    Unauthorized,
    /// The user with this name may not read metrics.
    Forbidden(String),
}

/// Why the API server could not be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccessError {
    #[error("cannot review the token: {0}; the executor's service account must be allowed to create tokenreviews")]
    Token(#[source] RequestError),
    #[error(
        "cannot review the access: {0}; the executor's service account must be allowed to create subjectaccessreviews"
    )]
    Access(#[source] RequestError),
    #[error("the API server did not answer within {}s", REVIEW_TIMEOUT.as_secs())]
    Timeout,
}

/// Cached decisions by request, with their expiry.
#[derive(Default)]
struct Decisions {
    known: HashMap<Key, (Decision, Instant)>,
}

/// A digest of token, verb and path, so that no token stays in memory.
type Key = [u8; 32];

/// The timeout of one review, as upstream.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// How long permission is cached, as upstream.
const ALLOWED_TTL: Duration = Duration::from_secs(60);
/// How long a refusal is cached. It is shorter, so that a new role binding takes effect soon.
const REFUSED_TTL: Duration = Duration::from_secs(30);
/// Bounds the cache. There are few scrapers, but any client can send made-up tokens.
const MAX_DECISIONS: usize = 256;

impl Access {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client, decisions: Mutex::default() }
    }

    /// Decides whether a request may read metrics.
    pub(super) async fn decide(
        &self,
        headers: &HeaderMap,
        method: &Method,
        path: &str,
    ) -> Result<Decision, AccessError> {
        let Some(token) = bearer_token(headers) else { return Ok(Decision::Unauthorized) };
        let verb = method.as_str().to_lowercase();
        let key = key(token, &verb, path);
        if let Some(decision) = self.lock().get(&key, Instant::now()) {
            return Ok(decision);
        }
        let asked = tokio::time::timeout(REVIEW_TIMEOUT, self.ask(token, &verb, path)).await;
        let decision = asked.map_err(|_| AccessError::Timeout)??;
        self.lock().put(key, decision.clone(), Instant::now());
        Ok(decision)
    }

    async fn ask(&self, token: &str, verb: &str, path: &str) -> Result<Decision, AccessError> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let status = reviews
            .create(&PostParams::default(), &review)
            .await
            .map_err(|error| AccessError::Token(RequestError(error)))?
            .status;
        let Some(user) = status.filter(|status| status.authenticated == Some(true)).and_then(|status| status.user)
        else {
            return Ok(Decision::Unauthorized);
        };
        let name = user.username.clone().unwrap_or_default();
        let review = SubjectAccessReview { spec: subject(user, verb, path), ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let status = reviews
            .create(&PostParams::default(), &review)
            .await
            .map_err(|error| AccessError::Access(RequestError(error)))?
            .status;
        let allowed = status.is_some_and(|status| status.allowed && status.denied != Some(true));
        Ok(if allowed { Decision::Allowed } else { Decision::Forbidden(name) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Decisions> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Decision {
    /// The response to a refused request; `None` if the request is allowed.
    pub(super) fn refusal(&self) -> Option<(StatusCode, String)> {
        match self {
            Self::Allowed => None,
            Self::Unauthorized => Some((StatusCode::UNAUTHORIZED, "Unauthorized\n".into())),
            Self::Forbidden(user) => Some((StatusCode::FORBIDDEN, format!("Authorization denied for user {user:?}\n"))),
        }
    }
}

impl Decisions {
    fn get(&self, key: &Key, now: Instant) -> Option<Decision> {
        self.known.get(key).filter(|(_, until)| now < *until).map(|(decision, _)| decision.clone())
    }

    fn put(&mut self, key: Key, decision: Decision, now: Instant) {
        if self.known.len() >= MAX_DECISIONS {
            self.known.retain(|_, (_, until)| now < *until);
        }
        if self.known.len() >= MAX_DECISIONS {
            // Refusals are dropped first: a flood of them must not remove the decisions for scrapers.
            self.known.retain(|_, (decision, _)| *decision == Decision::Allowed);
        }
        if self.known.len() >= MAX_DECISIONS {
            self.known.clear();
        }
        let lasts = if decision == Decision::Allowed { ALLOWED_TTL } else { REFUSED_TTL };
        self.known.insert(key, (decision, now + lasts));
    }
}

fn subject(user: UserInfo, verb: &str, path: &str) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: user.username,
        groups: user.groups,
        uid: user.uid,
        extra: user.extra,
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(path.to_owned()),
            verb: Some(verb.to_owned()),
        }),
        ..SubjectAccessReviewSpec::default()
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn key(token: &str, verb: &str, path: &str) -> Key {
    // No part can contain a line break, so different requests have different texts.
    Sha256::new().chain_update(format!("{verb}\n{path}\n{token}")).finalize().into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn finds_bearer_tokens_only() {
        let token = |value: &str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            bearer_token(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer  abc ").as_deref(), Some("abc"));
        assert_eq!(token("Basic abc"), None);
        assert_eq!(token("Bearer "), None);
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }

    #[test]
    fn decisions_expire_and_a_flood_of_refusals_does_not_remove_that_of_the_scraper() {
        let now = Instant::now();
        let mut decisions = Decisions::default();
        let scraper = key("scraper", "get", "/metrics");
        decisions.put(scraper, Decision::Allowed, now);
        for number in 0..2 * MAX_DECISIONS {
            decisions.put(key(&number.to_string(), "get", "/metrics"), Decision::Unauthorized, now);
            assert!(decisions.known.len() <= MAX_DECISIONS);
        }
        assert_eq!(decisions.get(&scraper, now + ALLOWED_TTL / 2), Some(Decision::Allowed));
        assert_eq!(decisions.get(&scraper, now + ALLOWED_TTL), None);
        assert_eq!(decisions.get(&key("scraper", "post", "/metrics"), now), None);
    }
}
