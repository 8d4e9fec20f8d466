//! The task cache: keys, lookups, reservations, entries.

mod client;
mod hash;
mod key;
#[cfg(test)]
mod tests;

use std::time::Duration;

use aileron_idl::flyteidl2::core::{Identifier, LiteralMap, TaskExecutionIdentifier};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::services::connect::{Code, ConnectError};
use crate::storage::StorageError;
use crate::storage::outputs::OutputsError;

pub use client::CacheServiceClient;
pub use key::{CacheKey, KeyError};

/// The task cache as the reconciler sees it. Mirrors `catalog.Client`.
#[async_trait]
pub trait CatalogClient: Send + Sync {
    /// The outputs stored under a key, if they exist and are not too old.
    async fn lookup(&self, key: &CacheKey) -> Result<Option<CachedOutputs>, CatalogError>;

    /// Requests or extends the reservation of an entry. The result names its owner, which may be another one.
    async fn reserve(&self, key: &CacheKey, owner: &str, heartbeat: Duration) -> Result<Reservation, CatalogError>;

    /// Stores a reference to outputs. An entry that exists is an error with [`Code::AlreadyExists`] unless `overwrite`.
    async fn put(
        &self,
        key: &CacheKey,
        outputs_uri: &str,
        metadata: &CacheMetadata,
        overwrite: bool,
    ) -> Result<(), CatalogError>;

    /// Releases the reservation of an entry.
    async fn release(&self, key: &CacheKey, owner: &str) -> Result<(), CatalogError>;
}

/// A cache hit.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedOutputs {
    /// The outputs.
    pub outputs: LiteralMap,
    /// Where the outputs are stored; `None` if the entry contains them.
    pub output_uri: Option<String>,
    /// The task that the entry belongs to.
    pub dataset: Identifier,
    /// The execution that created the entry.
    pub source: TaskExecutionIdentifier,
}

/// The right of one owner to compute a cached output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The owner of the reservation. It may be another one than the requested owner.
    pub owner_id: String,
    /// When the reservation ends, unless it is extended.
    pub expires_at: Option<Timestamp>,
    /// How often the service expects it to be extended.
    pub heartbeat: Option<Duration>,
}

/// Where an entry comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheMetadata {
    /// The execution that produced the outputs.
    pub execution: Option<TaskExecutionIdentifier>,
    /// When the entry is created.
    pub created_at: Timestamp,
}

/// Why the cache could not be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The key cannot be computed.
    #[error("failed to compute the cache key")]
    Key(#[from] KeyError),
    /// The cache service refused the call, or could not be reached.
    #[error("cache service call {call} failed")]
    Service {
        /// Which call.
        call: &'static str,
        /// What it answered.
        #[source]
        source: ConnectError,
    },
    /// The answer of the cache service is not valid.
    #[error("received malformed response from cache service: {0}")]
    Malformed(&'static str),
    /// The inputs of the task, from which the key is computed, cannot be read.
    #[error("failed to read the inputs for the cache key")]
    Inputs(#[source] OutputsError),
    /// The outputs that an entry refers to are missing or damaged.
    #[error("failed to read output data from {uri:?}")]
    CachedOutputs {
        /// Where the entry says they are.
        uri: String,
        /// What went wrong.
        #[source]
        source: OutputsError,
    },
    /// The outputs to be cached do not exist.
    #[error("output file does not exist for {task}: {uri}")]
    NoOutputs {
        /// The task.
        task: String,
        /// Where the outputs should be.
        uri: String,
    },
    /// The storage failed while checking that the outputs exist.
    #[error("failed to look for the outputs to cache")]
    Storage(#[source] StorageError),
}

impl CatalogError {
    /// The failure as the code of a remote call. Upstream's reconciler decides by this code.
    pub fn code(&self) -> Code {
        match self {
            Self::Service { source, .. } => source.code,
            Self::Malformed(_) => Code::Internal,
            Self::NoOutputs { .. } => Code::NotFound,
            Self::Key(_) | Self::Inputs(_) | Self::CachedOutputs { .. } | Self::Storage(_) => Code::Unknown,
        }
    }

    /// Whether the object store does not work at the moment, which has nothing to do with the cache service.
    pub fn is_storage_outage(&self) -> bool {
        match self {
            Self::Inputs(source) | Self::CachedOutputs { source, .. } => source.is_outage(),
            Self::Storage(source) => source.is_outage(),
            Self::Key(_) | Self::Service { .. } | Self::Malformed(_) | Self::NoOutputs { .. } => false,
        }
    }

    /// Whether the entry already existed. That counts as success.
    pub fn is_already_exists(&self) -> bool {
        self.code() == Code::AlreadyExists
    }
}
