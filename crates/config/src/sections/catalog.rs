//! The `plugins.catalogcache` section.

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::config::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Cached outputs of tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CatalogCacheConfig {
    /// Look-ups.
    pub reader: WorkqueueConfig,
    /// Entries being written.
    pub writer: WorkqueueConfig,
    /// What makes two tasks the same.
    pub cache_key: CacheKeyConfig,
    /// Entries older than this do not count; 0 means that entries never age.
    #[schemars(schema_with = "schema::duration")]
    pub max_cache_age: GoDuration,
}

/// Work that is done aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkqueueConfig {
    /// How many items are worked on at a time.
    pub workers: i64,
    /// How often an item is tried again.
    pub max_retries: i64,
    /// Most items remembered.
    pub max_items: i64,
}

/// What makes two tasks the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CacheKeyConfig {
    /// Takes project and domain from the execution, not from the task.
    pub enforce_execution_project_domain: bool,
}

impl Default for WorkqueueConfig {
    fn default() -> Self {
        Self { workers: 10, max_retries: 3, max_items: 10_000 }
    }
}
