//! How a co-pilot container reaches the storage of the executor.

use std::collections::BTreeMap;

use crate::config::StorageConfig;

/// The settings with which a co-pilot container reaches the same storage as the executor.
///
/// ```
/// use aileron_machinery::CopilotStorage;
/// use aileron_machinery::config::{LoggerConfig, StorageConfig};
///
/// let storage = StorageConfig { container: "data".into(), ..StorageConfig::standard() };
/// let storage = CopilotStorage::new(&storage, LoggerConfig::default().level);
/// assert_eq!((storage.container.as_str(), storage.stow_kind.as_str()), ("data", "s3"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopilotStorage {
    /// Kind of store: `stow`, `s3`, ...
    pub kind: String,
    /// The bucket that relative references live in.
    pub container: String,
    /// Other buckets may be used too.
    pub multi_container: bool,
    /// Kind of object store behind `stow`.
    pub stow_kind: String,
    /// Settings of that object store.
    pub stow_config: BTreeMap<String, String>,
    /// The executor's log level, in upstream's numbers.
    pub logger_level: i64,
}

impl CopilotStorage {
    /// From the `storage` section and the level of the `logger` section.
    pub fn new(storage: &StorageConfig, logger_level: i64) -> Self {
        Self {
            kind: storage.kind.clone(),
            container: storage.container.clone(),
            multi_container: storage.enable_multicontainer,
            stow_kind: storage.stow.kind.clone(),
            stow_config: storage.stow.config.clone(),
            logger_level,
        }
    }
}
