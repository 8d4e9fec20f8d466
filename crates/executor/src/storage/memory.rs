//! A store in the memory of the process.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use async_trait::async_trait;
use bytes::Bytes;

use super::{BlobStore, StorageError, check_limit};

/// Blobs by their reference, of any scheme. Mirrors `InMemoryStore`.
#[derive(Debug, Default)]
pub struct MemoryStore {
    blobs: RwLock<Blobs>,
    max_download_mb: u64,
    /// How many bytes `put` stores at most; `None` means any number.
    capacity: Option<usize>,
}

#[derive(Debug, Default)]
struct Blobs {
    by_uri: HashMap<String, Bytes>,
    /// The bytes of all references and contents.
    used: usize,
}

impl Blobs {
    fn insert(&mut self, uri: String, content: Bytes) {
        self.remove(&uri);
        self.used += uri.len() + content.len();
        self.by_uri.insert(uri, content);
    }

    fn remove(&mut self, uri: &str) -> bool {
        let removed = self.by_uri.remove(uri);
        self.used -= removed.as_ref().map_or(0, |content| uri.len() + content.len());
        removed.is_some()
    }
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

    /// The same store with a bound on its size in bytes. It never frees anything by itself, so it refuses what exceeds it.
    #[must_use]
    pub fn with_capacity(self, bytes: usize) -> Self {
        Self { capacity: Some(bytes), ..self }
    }

    /// Stores a blob synchronously, for tests and fixtures.
    pub fn insert(&self, uri: impl Into<String>, content: impl Into<Bytes>) {
        self.blobs.write().unwrap_or_else(PoisonError::into_inner).insert(uri.into(), content.into());
    }

    /// Removes a blob. Returns false if it did not exist.
    pub fn remove(&self, uri: &str) -> bool {
        self.blobs.write().unwrap_or_else(PoisonError::into_inner).remove(uri)
    }

    /// Every reference with its content, ordered.
    pub fn snapshot(&self) -> Vec<(String, Bytes)> {
        let blobs = self.blobs.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = blobs.by_uri.iter().map(|(uri, content)| (uri.clone(), content.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    fn find(&self, uri: &str) -> Option<Bytes> {
        self.blobs.read().unwrap_or_else(PoisonError::into_inner).by_uri.get(uri).cloned()
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
        let mut blobs = self.blobs.write().unwrap_or_else(PoisonError::into_inner);
        let replaced = blobs.by_uri.get(uri).map_or(0, |content| uri.len() + content.len());
        let needed = blobs.used - replaced + uri.len() + content.len();
        if let Some(limit) = self.capacity.filter(|limit| needed > *limit) {
            return Err(StorageError::MemoryFull { uri: uri.to_owned(), limit });
        }
        blobs.insert(uri.to_owned(), content);
        Ok(())
    }

    async fn size(&self, uri: &str) -> Result<Option<u64>, StorageError> {
        Ok(self.find(uri).map(|content| content.len() as u64))
    }
}
