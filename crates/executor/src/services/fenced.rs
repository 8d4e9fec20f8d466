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

    use std::sync::atomic::{AtomicUsize, Ordering};

    use jiff::Timestamp;

    use super::*;
    use crate::storage::MemoryStore;

    /// Counts the calls that reach the services.
    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Counter {
        fn called(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[async_trait]
    impl EventTransport for Counter {
        async fn record(&self, _: Vec<ActionEvent>) -> Result<(), ConnectError> {
            self.called();
            Ok(())
        }
    }

    #[async_trait]
    impl CatalogClient for Counter {
        async fn lookup(&self, _: &CacheKey) -> Result<Option<CachedOutputs>, CatalogError> {
            self.called();
            Ok(None)
        }

        async fn reserve(&self, _: &CacheKey, owner: &str, _: Duration) -> Result<Reservation, CatalogError> {
            self.called();
            Ok(Reservation { owner_id: owner.to_owned(), expires_at: None, heartbeat: None })
        }

        async fn put(&self, _: &CacheKey, _: &str, _: &CacheMetadata, _: bool) -> Result<(), CatalogError> {
            self.called();
            Ok(())
        }

        async fn release(&self, _: &CacheKey, _: &str) -> Result<(), CatalogError> {
            self.called();
            Ok(())
        }
    }

    /// How many of five calls reach the services: a record, a lookup, and three writes to the cache.
    async fn calls_that_pass(fence: Fence) -> usize {
        let services = Arc::new(Counter::default());
        let events = Fenced::<dyn EventTransport>::new(Arc::clone(&services) as _, fence.clone());
        let cache = Fenced::<dyn CatalogClient>::new(Arc::clone(&services) as _, fence);
        let key = CacheKey::new(Default::default(), String::new(), Vec::new(), None, String::new());
        let metadata = CacheMetadata { execution: None, created_at: Timestamp::UNIX_EPOCH };
        let _ = events.record(Vec::new()).await;
        let _ = cache.lookup(&key).await;
        let _ = cache.reserve(&key, "ns/a", Duration::ZERO).await;
        let _ = cache.put(&key, "mem://data/a", &metadata, false).await;
        let _ = cache.release(&key, "ns/a").await;
        services.0.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_process_that_does_not_lead_records_no_event_and_does_not_write_to_the_cache() {
        assert_eq!(calls_that_pass(Fence::closed()).await, 1, "only the lookup");
        assert_eq!(calls_that_pass(Fence::always_open()).await, 5);
    }

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
