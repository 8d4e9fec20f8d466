//! Takes tokens for actions: asks the pools, creates the token, and confirms it with a list from the API server.

use std::sync::Arc;

use aileron_kubekit::ApiError;
use aileron_machinery::time::clock::Clock;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use aileron_machinery::ActionKey;
    use async_trait::async_trait;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;
    use crate::pools::limits::{Account, Limits, Token};
    use crate::time::testing::date;
    use crate::waker::NoWaker;

    const POOL: &str = "licences";

    struct StoppedClock(Timestamp);

    impl Clock for StoppedClock {
        fn now(&self) -> Timestamp {
            self.0
        }
    }

    /// Tokens in memory. `create` fails with the error, if there is one.
    #[derive(Default)]
    struct MemoryTokens {
        tokens: Mutex<Vec<Token>>,
        error: Option<ApiError>,
    }

    #[async_trait]
    impl TokenStore for MemoryTokens {
        async fn create(&self, _: &str, claim: &TokenClaim) -> Result<(), ApiError> {
            if let Some(error) = &self.error {
                return Err(error.clone());
            }
            let mut tokens = self.tokens.lock().unwrap();
            let version = tokens.len() as u64;
            tokens.push(Token { holder: claim.holder.clone(), account: claim.account.clone(), version });
            Ok(())
        }

        async fn list(&self, _: &str) -> Result<Vec<Token>, ApiError> {
            Ok(self.tokens.lock().unwrap().clone())
        }

        async fn delete(&self, _: &str, holder: &ActionKey) -> Result<(), ApiError> {
            self.tokens.lock().unwrap().retain(|token| token.holder != *holder);
            Ok(())
        }
    }

    /// A broker for one pool with one token, whose clock is at ten seconds.
    fn broker(store: &Arc<MemoryTokens>) -> TokenBroker {
        let limits = Limits { total: 1, per_project: None, per_domain: None };
        let pool = Pool { limits, task_types: BTreeSet::new() };
        TokenBroker {
            pools: Arc::new(Pools::new([(POOL.to_owned(), pool)].into())),
            store: Arc::clone(store) as _,
            waker: Arc::new(NoWaker),
            clock: Arc::new(StoppedClock(date(10))),
        }
    }

    fn claim(name: &str) -> TokenClaim {
        TokenClaim {
            holder: ActionKey::new("ns", name),
            owner: OwnerReference::default(),
            account: Account { project: "p".into(), domain: "d".into() },
            identity: String::new(),
            created_at: Timestamp::UNIX_EPOCH,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    async fn take(broker: &TokenBroker, name: &str) -> Result<Option<TokenWait>, ApiError> {
        broker.take(POOL, broker.pools.pool(POOL).unwrap(), &claim(name)).await
    }

    #[tokio::test]
    async fn a_token_over_the_limit_is_deleted_and_the_earlier_one_stays() {
        let store = Arc::new(MemoryTokens::default());
        assert_eq!(take(&broker(&store), "a").await.unwrap(), None);
        // Another executor, which has not seen the first token yet.
        let wait = take(&broker(&store), "b").await.unwrap().unwrap();
        assert_eq!(wait.pending.message, "pool licences: the last token was taken a moment before");
        let holders: Vec<_> = store.tokens.lock().unwrap().iter().map(|token| token.holder.clone()).collect();
        assert_eq!(holders, [ActionKey::new("ns", "a")]);
    }

    #[tokio::test]
    async fn the_back_off_after_a_failed_request_starts_when_the_request_ended() {
        let error = Some(ApiError { code: 503, ..ApiError::default() });
        let broker = broker(&Arc::new(MemoryTokens { error, ..MemoryTokens::default() }));
        let wait = take(&broker, "a").await.unwrap().unwrap();
        assert_eq!(wait.retry_at, Some(date(11)));
    }

    #[tokio::test]
    async fn a_token_that_the_api_server_rejects_is_an_error() {
        let error = Some(ApiError { code: 422, reason: "Invalid".into(), ..ApiError::default() });
        let broker = broker(&Arc::new(MemoryTokens { error, ..MemoryTokens::default() }));
        assert!(take(&broker, "a").await.unwrap_err().is_invalid());
    }
}
