//! Services behind the fence of the leader: events, cache entries and blobs are written only while this process leads.

use std::sync::Arc;
use std::time::Duration;

use aileron_idl::flyteidl2::workflow::ActionEvent;
use aileron_lease::{Fence, NotLeading};
use async_trait::async_trait;
use bytes::Bytes;

use crate::services::cache::{CacheKey, CacheMetadata, CachedOutputs, CatalogClient, CatalogError, Reservation};
use crate::services::connect::{Code, ConnectError};
use crate::services::events::EventTransport;
use crate::storage::{BlobStore, StorageError};

/// A service whose writes pass a fence. Reads do not.
pub struct Fenced<T: ?Sized> {
    fence: Fence,
    inner: Arc<T>,
}

impl<T: ?Sized> Fenced<T> {
    /// Puts a service behind a fence.
    pub fn new(inner: Arc<T>, fence: Fence) -> Self {
        Self { fence, inner }
    }
}

#[async_trait]
impl EventTransport for Fenced<dyn EventTransport> {
    async fn record(&self, events: Vec<ActionEvent>) -> Result<(), ConnectError> {
        self.fence.guard(self.inner.record(events)).await.unwrap_or_else(|closed| Err(refused(closed)))
    }
}

#[async_trait]
impl CatalogClient for Fenced<dyn CatalogClient> {
    async fn lookup(&self, key: &CacheKey) -> Result<Option<CachedOutputs>, CatalogError> {
        self.inner.lookup(key).await
    }

    async fn reserve(&self, key: &CacheKey, owner: &str, heartbeat: Duration) -> Result<Reservation, CatalogError> {
        match self.fence.guard(self.inner.reserve(key, owner, heartbeat)).await {
            Ok(result) => result,
            Err(closed) => Err(CatalogError::Service { call: "reserve", source: refused(closed) }),
        }
    }

    async fn put(
        &self,
        key: &CacheKey,
        outputs_uri: &str,
        metadata: &CacheMetadata,
        overwrite: bool,
    ) -> Result<(), CatalogError> {
        match self.fence.guard(self.inner.put(key, outputs_uri, metadata, overwrite)).await {
            Ok(result) => result,
            Err(closed) => Err(CatalogError::Service { call: "put", source: refused(closed) }),
        }
    }

    async fn release(&self, key: &CacheKey, owner: &str) -> Result<(), CatalogError> {
        match self.fence.guard(self.inner.release(key, owner)).await {
            Ok(result) => result,
            Err(closed) => Err(CatalogError::Service { call: "release", source: refused(closed) }),
        }
    }
}

#[async_trait]
impl BlobStore for Fenced<dyn BlobStore> {
    async fn get(&self, uri: &str) -> Result<Option<Bytes>, StorageError> {
        self.inner.get(uri).await
    }

    async fn put(&self, uri: &str, content: Bytes) -> Result<(), StorageError> {
        let stored = self.fence.guard(self.inner.put(uri, content)).await;
        stored.unwrap_or_else(|closed| Err(not_stored("write", uri, closed)))
    }

    async fn size(&self, uri: &str) -> Result<Option<u64>, StorageError> {
        self.inner.size(uri).await
    }

    async fn copy(&self, from: &str, to: &str) -> Result<bool, StorageError> {
        let copied = self.fence.guard(self.inner.copy(from, to)).await;
        copied.unwrap_or_else(|closed| Err(not_stored("copy", to, closed)))
    }
}

fn refused(closed: NotLeading) -> ConnectError {
    ConnectError { code: Code::Canceled, message: closed.to_string() }
}

fn not_stored(action: &'static str, uri: &str, closed: NotLeading) -> StorageError {
    StorageError::Files { action, uri: uri.to_owned(), source: std::io::Error::other(closed) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::storage::MemoryStore;

    #[tokio::test]
    async fn nothing_is_stored_by_a_process_that_does_not_lead() {
        let (store, fence) = (Arc::new(MemoryStore::new()), Fence::closed());
        let fenced = Fenced::<dyn BlobStore>::new(Arc::clone(&store) as _, fence.clone());
        let error = fenced.put("mem://data/a", Bytes::from_static(b"a")).await.unwrap_err();
        assert!(std::error::Error::source(&error).unwrap().to_string().contains("leader lease"), "{error}");
        store.insert("mem://data/a", "a");
        fenced.copy("mem://data/a", "mem://data/b").await.unwrap_err();
        assert_eq!(fenced.get("mem://data/a").await.unwrap().unwrap(), "a", "reads go on");
        assert_eq!(store.snapshot().len(), 1);
    }
}
