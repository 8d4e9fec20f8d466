//! The `plugins.catalogcache` section.

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::config::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The use of cached outputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CatalogCacheConfig {
    /// Work queue of cache look-ups.
    #[schemars(extend("x-no-effect" = "the executor sends cache requests directly, without a work queue"))]
    pub reader: WorkqueueConfig,
    /// Work queue of writes to the cache.
    #[schemars(extend("x-no-effect" = "the executor sends cache requests directly, without a work queue"))]
    pub writer: WorkqueueConfig,
    /// Parts of the cache key.
    #[schemars(extend("x-no-effect" = "the cache key always contains the project and domain of the task"))]
    pub cache_key: CacheKeyConfig,
    /// A cached output that is older than this is not used. 0 means that there is no age limit.
    #[schemars(schema_with = "schema::duration")]
    pub max_cache_age: GoDuration,
}

/// A work queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkqueueConfig {
    /// How many items are processed at the same time.
    pub workers: i64,
    /// How often a failed item is repeated.
    pub max_retries: i64,
    /// How many items the queue remembers.
    pub max_items: i64,
}

/// Parts of the cache key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CacheKeyConfig {
    /// Uses the project and domain of the execution instead of those of the task.
    pub enforce_execution_project_domain: bool,
}

impl Default for WorkqueueConfig {
    fn default() -> Self {
        Self { workers: 10, max_retries: 3, max_items: 10_000 }
    }
}
