//! Takes tokens for actions: asks the pools, creates the token, and confirms it with a list from the API server.

use std::sync::Arc;

use aileron_kubekit::ApiError;
use aileron_machinery::clock::Clock;
use aileron_machinery::{Pending, PendingReason};

use super::claim::TokenClaim;
use super::limits::is_admitted;
use super::store::TokenStore;
use super::table::{ClaimAnswer, Pool, Pools, TokenWait};
use crate::waker::ActionWaker;

/// The pools, with everything that is needed to take a token.
#[derive(Clone)]
pub struct TokenBroker {
    /// Which action holds or waits for a token.
    pub pools: Arc<Pools>,
    /// The tokens in the cluster.
    pub store: Arc<dyn TokenStore>,
    /// Knows when an action was created.
    pub waker: Arc<dyn ActionWaker>,
    /// The time after a request, which may have taken long.
    pub clock: Arc<dyn Clock>,
}

impl TokenBroker {
    /// Takes a token of a pool. Returns `None` if the action holds one now, otherwise why it must wait.
    ///
    /// # Errors
    /// The API server rejects the token object itself, so that no later request can succeed. After any other error the
    /// action waits.
    pub async fn take(&self, name: &str, pool: &Pool, claim: &TokenClaim) -> Result<Option<TokenWait>, ApiError> {
        match self.pools.claim(name, pool, claim) {
            ClaimAnswer::Held => return Ok(None),
            ClaimAnswer::Wait(wait) => return Ok(Some(wait)),
            ClaimAnswer::Create => {}
        }
        let admitted = match self.store.create(name, claim).await {
            // Another executor may have created a token at the same time. If there are too many, the latest is deleted.
            Ok(()) => self.store.list(name).await.map(|tokens| is_admitted(&pool.limits, tokens, &claim.holder)),
            Err(error) => Err(error),
        };
        if admitted.as_ref().is_ok_and(|admitted| *admitted) {
            self.pools.confirmed(name, claim);
            return Ok(None);
        }
        // If this fails too, the watch shows the token, and the next claim of the action confirms or deletes it.
        let deleted = self.store.delete(name, &claim.holder).await;
        match admitted.and(deleted) {
            Ok(()) => {
                self.pools.over_limit(name, claim);
                let text = format!("pool {name}: the last token was taken a moment before");
                Ok(Some(TokenWait { pending: Pending::new(PendingReason::Pool, text), retry_at: None }))
            }
            Err(error) => {
                let now = claim.now.max(self.clock.now());
                let wait = self.pools.request_failed(name, claim, &error, now);
                if error.is_invalid() || error.is_bad_request() || error.is_too_large() {
                    return Err(error);
                }
                tracing::warn!(pool = name, %error, "failed to take a token; trying again after a back-off");
                Ok(Some(wait))
            }
        }
    }
}
