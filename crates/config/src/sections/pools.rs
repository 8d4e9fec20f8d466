//! The `tasks.pools` section.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool of tokens, such as licences: a task that needs one waits until one is free, and holds it until it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct PoolConfig {
    /// How many tokens there are.
    pub quota: u32,
    /// How many of them one project may hold; 0 means all.
    pub project_cap: u32,
    /// How many of them one domain of a project may hold; 0 means all.
    pub domain_cap: u32,
    /// Task types whose tasks need a token; plugins may ask for others. Only tasks with a Kubernetes object hold tokens.
    pub task_types: Vec<String>,
}
