//! The `tasks` section.

use std::collections::BTreeMap;

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::config::schema::{self, null_if_empty};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plugin_rules::{RuleFor, UnknownTaskTypes};
use super::pools::PoolConfig;
use super::resource_limits::ResourceLimitsConfig;

/// Which plugin runs which task type, and when the executor may create the objects of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TasksConfig {
    /// Which plugins are enabled, and which plugin runs which task type.
    pub task_plugins: TaskPluginsConfig,
    /// Back-off: how long the executor creates no objects of a kind in a namespace after the API server refused one
    /// because of a quota or overload.
    #[schemars(extend("x-aileron" = true))]
    pub backoff: BackoffConfig,
    /// Admission: which waiting task may create its object next if the quotas of a namespace do not have room for all.
    #[schemars(extend("x-aileron" = true))]
    pub launch_gate: LaunchGateConfig,
    /// Pools of tokens, for example licences. The key is the name of the pool: at most 63 lower-case letters, digits
    /// and hyphens.
    #[schemars(extend("x-aileron" = true))]
    pub pools: BTreeMap<String, PoolConfig>,
    /// The most that one container of a task may request and use. A higher request or limit is lowered to it, and the task
    /// runs. 0 means no limit.
    #[schemars(extend("x-aileron" = true))]
    pub resource_limits: ResourceLimitsConfig,
}

/// How long the executor creates no objects of a kind in a namespace after the API server refused one because of a
/// quota or overload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct BackoffConfig {
    /// The n-th pause in a row lasts this number of seconds to the power of n: 2s, 4s, 8s with the default of 2. 0
    /// means that every pause lasts 5s.
    pub base_second: i64,
    /// No pause is longer than this.
    #[schemars(schema_with = "schema::duration")]
    pub max_duration: GoDuration,
}

/// Which waiting task may create its object next if the quotas of a namespace do not have room for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct LaunchGateConfig {
    /// Watches the ResourceQuotas of the cluster, so that the executor does not send an object that a quota would
    /// refuse. If it is `false`, or if the executor may not list and watch ResourceQuotas, the executor sends the
    /// object and waits after a refusal.
    pub local_admission: bool,
    /// If the oldest waiting task of a namespace has waited this long, free quota is reserved for it. Without the
    /// reservation, smaller tasks could use the free quota again and again.
    #[schemars(schema_with = "schema::duration")]
    pub hold_after: GoDuration,
    /// The longest time of such a reservation. The objects that use the rest of the quota may never end, and other
    /// tasks must not wait for them.
    #[schemars(schema_with = "schema::duration")]
    pub hold_for: GoDuration,
    /// How long quota must have been free before the executor uses it. The API server checks quotas against its own
    /// watch, which may be behind that of the executor. Use a longer time if several API servers share the load.
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

/// Which plugins are enabled, and which plugin runs which task type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TaskPluginsConfig {
    /// The plugin for each task type, instead of the plugin that declares the task type. The key is the task type, the
    /// value is the id of the plugin.
    #[serde(serialize_with = "null_if_empty")]
    pub default_for_task_types: BTreeMap<String, String>,
    /// The ids of the plugins that are enabled. Empty means all plugins.
    #[schemars(extend("x-aileron" = true))]
    pub enabled_plugins: Vec<String>,
    /// Rules that choose other plugins for single projects and domains. They win over `default-for-task-types`. The
    /// first rule that matches the project and domain and names the task type is used.
    #[schemars(extend("x-aileron" = true))]
    pub overrides: Vec<RuleFor>,
    /// What happens to tasks whose type no plugin declares: with `default` the default plugin runs them, with `fail`
    /// they fail.
    #[schemars(extend("x-aileron" = true))]
    pub unknown_task_types: UnknownTaskTypes,
}
