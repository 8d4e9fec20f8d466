//! The tokens in the cluster, as a trait that the executor implements.

use aileron_kubekit::ApiError;
use aileron_machinery::ActionKey;
use async_trait::async_trait;

use super::claim::TokenClaim;
use super::limits::Token;

/// Creates, lists and deletes tokens in the cluster.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Creates the token of a claim. Succeeds if the action has a token of this pool already.
    async fn create(&self, pool: &str, claim: &TokenClaim) -> Result<(), ApiError>;
    /// All tokens of a pool, read from the API server.
    async fn list(&self, pool: &str) -> Result<Vec<Token>, ApiError>;
    /// Deletes the token of an action. Succeeds if there is none.
    async fn delete(&self, pool: &str, holder: &ActionKey) -> Result<(), ApiError>;
}
