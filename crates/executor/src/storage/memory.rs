//! A store in the memory of the process.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use async_trait::async_trait;
use bytes::Bytes;

use super::{BlobStore, StorageError, check_limit};

/// Blobs by their reference, of any scheme. Mirrors `InMemoryStore`.
#[derive(Debug, Default)]
pub struct MemoryStore {
    blobs: RwLock<HashMap<String, Bytes>>,
    max_download_mb: u64,
}

impl MemoryStore {
    /// An empty store without a download limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store that refuses to read blobs above `max_download_mb` mebibytes; zero means any size.
    pub fn with_limit(max_download_mb: u64) -> Self {
        Self { max_download_mb, ..Self::default() }
    }

    /// Stores a blob synchronously, for tests and fixtures.
    pub fn insert(&self, uri: impl Into<String>, content: impl Into<Bytes>) {
        self.blobs.write().unwrap_or_else(PoisonError::into_inner).insert(uri.into(), content.into());
    }

    /// Removes a blob. Returns false if it did not exist.
    pub fn remove(&self, uri: &str) -> bool {
        self.blobs.write().unwrap_or_else(PoisonError::into_inner).remove(uri).is_some()
    }

    /// Every reference with its content, ordered.
    pub fn snapshot(&self) -> Vec<(String, Bytes)> {
        let blobs = self.blobs.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = blobs.iter().map(|(uri, content)| (uri.clone(), content.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    fn find(&self, uri: &str) -> Option<Bytes> {
        self.blobs.read().unwrap_or_else(PoisonError::into_inner).get(uri).cloned()
    }
}

#[async_trait]
impl BlobStore for MemoryStore {
    async fn get(&self, uri: &str) -> Result<Option<Bytes>, StorageError> {
        let Some(content) = self.find(uri) else { return Ok(None) };
        check_limit(uri, content.len() as u64, self.max_download_mb)?;
        Ok(Some(content))
    }

    async fn put(&self, uri: &str, content: Bytes) -> Result<(), StorageError> {
        self.insert(uri, content);
        Ok(())
    }

    async fn size(&self, uri: &str) -> Result<Option<u64>, StorageError> {
        Ok(self.find(uri).map(|content| content.len() as u64))
    }
}
