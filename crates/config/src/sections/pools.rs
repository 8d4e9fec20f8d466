//! The `tasks.pools` section.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool of tokens, for example licences. A task that needs a token waits until one is free, and holds it until the
/// task has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct PoolConfig {
    /// The number of tokens of the pool. It must be at least 1.
    pub quota: u32,
    /// How many tokens one project may hold at the same time. 0 means no limit for projects.
    pub project_cap: u32,
    /// How many tokens one domain of a project may hold at the same time. 0 means no limit for domains.
    pub domain_cap: u32,
    /// The task types that need a token. A plugin may request a token for other tasks too. Only tasks for which the
    /// executor creates a Kubernetes object can hold tokens.
    pub task_types: Vec<String>,
}
