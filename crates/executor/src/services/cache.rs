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
    /// The outputs stored under a key, if there are any that are not too old.
    async fn lookup(&self, key: &CacheKey) -> Result<Option<CachedOutputs>, CatalogError>;

    /// Asks for the right to fill an entry, or extends it; the answer says who has it.
    async fn reserve(&self, key: &CacheKey, owner: &str, heartbeat: Duration) -> Result<Reservation, CatalogError>;

    /// Stores a reference to outputs. An entry that exists is an error with [`Code::AlreadyExists`] unless `overwrite`.
    async fn put(
        &self,
        key: &CacheKey,
        outputs_uri: &str,
        metadata: &CacheMetadata,
        overwrite: bool,
    ) -> Result<(), CatalogError>;

    /// Gives the right to fill an entry back.
    async fn release(&self, key: &CacheKey, owner: &str) -> Result<(), CatalogError>;
}

/// A cache hit.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedOutputs {
    /// The outputs.
    pub outputs: LiteralMap,
    /// Where the entry says they are stored; nothing if the entry holds them itself.
    pub output_uri: Option<String>,
    /// The task that the entry was made for.
    pub dataset: Identifier,
    /// The execution that made the entry.
    pub source: TaskExecutionIdentifier,
}

/// Who may fill an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The owner, perhaps another one than asked for.
    pub owner_id: String,
    /// When the right ends unless extended.
    pub expires_at: Option<Timestamp>,
    /// How often the service wants it extended.
    pub heartbeat: Option<Duration>,
}

/// Where an entry comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheMetadata {
    /// The execution that produced the outputs.
    pub execution: Option<TaskExecutionIdentifier>,
    /// When the entry is made.
    pub created_at: Timestamp,
}

/// Why the cache could not be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The key cannot be computed.
    #[error("failed to compute the cache key")]
    Key(#[from] KeyError),
    /// The cache service refused or could not be reached.
    #[error("cache service call {call} failed")]
    Service {
        /// Which call.
        call: &'static str,
        /// What it answered.
        #[source]
        source: ConnectError,
    },
    /// The cache service answered with something unusable.
    #[error("received malformed response from cache service: {0}")]
    Malformed(&'static str),
    /// The inputs of the task, from which the key is computed, cannot be read.
    #[error("failed to read the inputs for the cache key")]
    Inputs(#[source] OutputsError),
    /// The outputs an entry refers to are gone or damaged.
    #[error("failed to read output data from {uri:?}")]
    CachedOutputs {
        /// Where the entry says they are.
        uri: String,
        /// What went wrong.
        #[source]
        source: OutputsError,
    },
    /// There is nothing to refer to.
    #[error("output file does not exist for {task}: {uri}")]
    NoOutputs {
        /// The task.
        task: String,
        /// Where the outputs should be.
        uri: String,
    },
    /// The storage failed.
    #[error("failed to look for the outputs to cache")]
    Storage(#[source] StorageError),
}

impl CatalogError {
    /// The kind of failure in the terms of remote calls, which upstream's reconciler decides by.
    pub fn code(&self) -> Code {
        match self {
            Self::Service { source, .. } => source.code,
            Self::Malformed(_) => Code::Internal,
            Self::NoOutputs { .. } => Code::NotFound,
            Self::Key(_) | Self::Inputs(_) | Self::CachedOutputs { .. } | Self::Storage(_) => Code::Unknown,
        }
    }

    /// Whether the entry was there already, which is as good as having made it.
    pub fn is_already_exists(&self) -> bool {
        self.code() == Code::AlreadyExists
    }
}
