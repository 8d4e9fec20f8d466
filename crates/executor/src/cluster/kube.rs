//! The real cluster: requests to the API server, decided from local caches.

pub mod actions;
pub mod finalizer;
pub mod objects;
pub mod requests;

use std::sync::Arc;

use aileron_kubekit::ApiError;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many writes are under way at once, whatever the number of tasks. More does not make a burst faster: the API
/// server serves about this many of one client at a time, and beyond that it starts to cut the client's watches.
const CONCURRENT_WRITES: usize = 24;

/// A client whose writes are bounded.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
    permits: Arc<Semaphore>,
}

impl Writer {
    /// Bounds the writes of a client.
    pub fn new(client: kube::Client) -> Self {
        Self { client, permits: Arc::new(Semaphore::new(CONCURRENT_WRITES)) }
    }

    /// The client, for reads.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Every turn is taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.permits.available_permits() == 0
    }

    /// Waits for its turn to write.
    pub(crate) async fn turn(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        self.permits.acquire().await.map_err(|_| ApiError::unanswered("the executor is shutting down"))
    }
}
