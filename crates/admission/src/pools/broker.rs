//! Where tokens are handed out: what the pools say, and what the server says to it.

use std::sync::Arc;

use aileron_kubekit::ApiError;
use aileron_machinery::{Pending, PendingReason};
use jiff::Timestamp;

use super::limits::admitted;
use super::{Answer, Claim, Pool, Pools, TokenStore, Wait};
use crate::waker::ActionWaker;

/// The pools, and how their tokens are made.
#[derive(Clone)]
pub struct TokenBroker {
    /// Who holds what.
    pub pools: Arc<Pools>,
    /// The tokens in the cluster.
    pub store: Arc<dyn TokenStore>,
    /// Knows how old actions are.
    pub waker: Arc<dyn ActionWaker>,
}

impl TokenBroker {
    /// Gets a token of a pool; nothing if the claim holds one now.
    ///
    /// # Errors
    /// The server refuses the token as such, so that trying again is no use. Anything else is waited for.
    pub async fn take(&self, name: &str, pool: &Pool, claim: &Claim) -> Result<Option<Wait>, ApiError> {
        match self.pools.ask(name, pool, claim) {
            Answer::Held => return Ok(None),
            Answer::Wait(wait) => return Ok(Some(wait)),
            Answer::Take => {}
        }
        let taken = match self.store.create(name, claim).await {
            // Another executor may have taken one at the same moment; whoever is one too many gives it back.
            Ok(()) => self.store.list(name).await.map(|tokens| admitted(&pool.limits, tokens, &claim.holder)),
            Err(error) => Err(error),
        };
        if taken.as_ref().is_ok_and(|admitted| *admitted) {
            self.pools.confirmed(name, claim);
            return Ok(None);
        }
        // If this fails too, the token is seen by the watch, and its holder asks the server again whether it counts.
        let returned = self.store.delete(name, &claim.holder).await;
        match taken.and(returned) {
            Ok(()) => {
                self.pools.missed(name, claim);
                let words = format!("pool {name}: the last token was taken a moment before");
                Ok(Some(Wait { pending: Pending::new(PendingReason::Pool, words), until: None }))
            }
            Err(error) => {
                let wait = self.pools.failed(name, claim, &error, claim.now.max(Timestamp::now()));
                if error.is_invalid() || error.is_bad_request() || error.is_too_large() {
                    return Err(error);
                }
                tracing::warn!(pool = name, %error, "a token could not be taken; trying again later");
                Ok(Some(wait))
            }
        }
    }
}
