//! Blob storage for inputs, outputs and error documents of tasks.

mod backends;
mod boundary;
mod files;
mod location;
mod memory;
mod outage;
pub mod outputs;
pub mod second_try;
mod settings;
mod stores;
#[cfg(test)]
mod tests;
pub mod tls;

use async_trait::async_trait;
use bytes::Bytes;

pub use location::Location;
pub use memory::MemoryStore;
pub use settings::{Backend, SchemeSettings, StorageSettings};
pub use stores::ObjectStores;

/// Reads and writes whole blobs by reference, for example `s3://bucket/run/outputs.pb`.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// The content of a blob; `None` if it does not exist.
    async fn get(&self, uri: &str) -> Result<Option<Bytes>, StorageError>;

    /// Stores a blob. Readers see the old content or the new one, never a part of it.
    async fn put(&self, uri: &str, content: Bytes) -> Result<(), StorageError>;

    /// The size of a blob; `None` if it does not exist.
    async fn size(&self, uri: &str) -> Result<Option<u64>, StorageError>;

    /// Whether a blob exists.
    async fn exists(&self, uri: &str) -> Result<bool, StorageError> {
        Ok(self.size(uri).await?.is_some())
    }

    /// Copies a blob; the two references may belong to different stores. Returns false if the blob does not exist.
    async fn copy(&self, from: &str, to: &str) -> Result<bool, StorageError> {
        match self.get(from).await? {
            Some(content) => self.put(to, content).await.map(|()| true),
            None => Ok(false),
        }
    }
}

/// Why a blob could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The reference does not name a blob.
    #[error("storage reference {uri:?} is not usable: {detail}")]
    BadReference {
        /// The reference.
        uri: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The reference names another container than the configured one, and only that one is allowed.
    #[error(
        "storage reference {uri:?} names container {named:?}, but only {configured:?} is configured; \
         set storage.enable-multicontainer to use others"
    )]
    OtherContainer {
        /// The reference.
        uri: String,
        /// The container it names.
        named: String,
        /// The configured container.
        configured: String,
    },
    /// The scheme of the reference is not configured.
    #[error(
        "storage reference {uri:?} has the scheme {scheme:?}, which is not configured; \
         add storage.schemes.{scheme} to use it"
    )]
    SchemeNotConfigured {
        /// The reference.
        uri: String,
        /// Its scheme.
        scheme: String,
    },
    /// The reference is outside of the locations that the configuration allows.
    #[error(
        "storage reference {uri:?} is outside of the allowed locations ({allowed}); \
         add its directory to storage.allowed-prefixes to use it"
    )]
    OutsideBoundary {
        /// The reference.
        uri: String,
        /// The allowed locations.
        allowed: String,
    },
    /// The store in the memory of the process is full.
    #[error("failed to write {uri}: the store in memory has a limit of {limit} bytes; use another storage.type")]
    MemoryFull {
        /// The reference.
        uri: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The blob is larger than the download limit.
    #[error(
        "limit exceeded. {:.6}mb > {limit_mb}mb. You can increase the limit by setting maxDownloadMBs. ({uri})",
        *size as f64 / MIB as f64
    )]
    ExceedsLimit {
        /// The reference.
        uri: String,
        /// Size of the blob in bytes.
        size: u64,
        /// The limit in mebibytes.
        limit_mb: u64,
    },
    /// The settings of a backend are incomplete or contradict each other.
    #[error("storage settings for {subject} are not usable: {detail}")]
    Settings {
        /// What the settings are for.
        subject: String,
        /// What is wrong, and what to set.
        detail: String,
    },
    /// The backend failed.
    #[error("failed to {action} {uri}")]
    Backend {
        /// What was tried.
        action: &'static str,
        /// The reference.
        uri: String,
        /// The error of the backend.
        #[source]
        source: object_store::Error,
    },
    /// The file system failed.
    #[error("failed to {action} {uri}")]
    Files {
        /// What was tried.
        action: &'static str,
        /// The reference.
        uri: String,
        /// The error of the file system.
        #[source]
        source: std::io::Error,
    },
}

/// Upstream's `maxDownloadMBs` counts binary megabytes.
pub(crate) const MIB: u64 = 1 << 20;

/// Refuses a blob above the limit; zero means no limit. Mirrors the check in `StowStore.ReadRaw`.
fn check_limit(uri: &str, size: u64, limit_mb: u64) -> Result<(), StorageError> {
    if limit_mb != 0 && size > limit_mb.saturating_mul(MIB) {
        return Err(StorageError::ExceedsLimit { uri: uri.to_owned(), size, limit_mb });
    }
    Ok(())
}
