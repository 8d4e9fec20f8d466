//! The `tasks` section.

use std::collections::BTreeMap;

use aileron_machinery::config::schema::null_if_empty;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which plugin runs which task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TasksConfig {
    /// The plugins and their task types.
    pub task_plugins: TaskPluginsConfig,
}

/// The plugins and their task types.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TaskPluginsConfig {
    /// The plugin of each task type, where it is not the usual one: task type, plugin id.
    #[serde(serialize_with = "null_if_empty")]
    pub default_for_task_types: BTreeMap<String, String>,
    /// Ids of the plugins that are switched on; empty means all.
    #[schemars(extend("x-aileron" = true))]
    pub enabled_plugins: Vec<String>,
}
