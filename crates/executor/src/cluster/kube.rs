//! The real cluster: reads from the watch caches and requests to the API server.

pub mod actions;
pub mod connection;
pub mod finalizer;
pub mod objects;
pub mod requests;

use std::sync::Arc;

use aileron_kubekit::ApiError;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Write requests in flight at once, whatever the number of tasks. More would not make a burst faster: the API server
/// serves about this many requests of one client at a time. With more it starts to close the client's watches.
const CONCURRENT_WRITES: usize = 24;

/// A client with a limit on concurrent writes.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
    permits: Arc<Semaphore>,
}

impl Writer {
    /// Limits the concurrent writes of a client.
    pub fn new(client: kube::Client) -> Self {
        Self { client, permits: Arc::new(Semaphore::new(CONCURRENT_WRITES)) }
    }

    /// The client, for reads.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Whether all write permits are in use.
    pub(crate) fn is_busy(&self) -> bool {
        self.permits.available_permits() == 0
    }

    /// Waits for permission to send one write request. Dropping the permit releases it.
    pub(crate) async fn write_permit(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        self.permits.acquire().await.map_err(|_| ApiError::unanswered("the executor is shutting down"))
    }
}
