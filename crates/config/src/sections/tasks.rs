//! The `tasks` section.

use std::collections::BTreeMap;

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::config::schema::{self, null_if_empty};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pools::PoolConfig;
use crate::sections::plugin_rules::{RuleFor, UnknownTaskTypes};

/// Which plugin runs which task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TasksConfig {
    /// The plugins and their task types.
    pub task_plugins: TaskPluginsConfig,
    /// How long the creation of objects pauses after the cluster refused one for quota or overload.
    #[schemars(extend("x-aileron" = true))]
    pub backoff: BackoffConfig,
    /// Who may create its object when there is not room for all.
    #[schemars(extend("x-aileron" = true))]
    pub launch_gate: LaunchGateConfig,
    /// Pools of tokens, such as licences, by name. A name consists of lower-case letters, digits and hyphens.
    #[schemars(extend("x-aileron" = true))]
    pub pools: BTreeMap<String, PoolConfig>,
}

/// How long the creation of objects pauses after the cluster refused one for quota or overload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct BackoffConfig {
    /// The n-th pause in a row is this number of seconds to the power of n; 0 means a fixed pause of 5s.
    pub base_second: i64,
    /// The longest pause.
    #[schemars(schema_with = "schema::duration")]
    pub max_duration: GoDuration,
}

/// Who may create its object when there is not room for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct LaunchGateConfig {
    /// Follows the resource quotas of the cluster, so that an object which a quota would refuse is not sent. Without it,
    /// or without the permission to list and watch them, refusals tell.
    pub local_admission: bool,
    /// When the oldest waiting task of a namespace has waited this long, room is kept for it, so that smaller tasks do
    /// not overtake it for ever.
    #[schemars(schema_with = "schema::duration")]
    pub hold_after: GoDuration,
    /// How long room is kept at most; what takes it may never end.
    #[schemars(schema_with = "schema::duration")]
    pub hold_for: GoDuration,
    /// Room that appears in a quota is used after it has been there so long, because the API server itself hears of it no
    /// sooner than the executor does. Longer where several API servers take turns.
    #[schemars(schema_with = "schema::duration")]
    pub settle: GoDuration,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self { base_second: 2, max_duration: GoDuration::from_secs(20) }
    }
}

impl Default for LaunchGateConfig {
    fn default() -> Self {
        Self {
            local_admission: true,
            hold_after: GoDuration::from_secs(60),
            hold_for: GoDuration::from_secs(600),
            settle: GoDuration::from_nanos(150_000_000),
        }
    }
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
    /// Plugins for single projects and domains, over `default-for-task-types`; the first entry that fits the project and
    /// domain and names the task type counts.
    #[schemars(extend("x-aileron" = true))]
    pub overrides: Vec<RuleFor>,
    /// What becomes of task types that no plugin serves: `default` gives them to the default plugin, `fail` fails them.
    #[schemars(extend("x-aileron" = true))]
    pub unknown_task_types: UnknownTaskTypes,
}
