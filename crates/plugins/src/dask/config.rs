//! The `plugins.dask` section.

use aileron_machinery::PluginSection;
use aileron_machinery::config::LogConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The Dask plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DaskConfig {
    /// Log links of Dask jobs.
    pub logs: LogConfig,
}

impl PluginSection for DaskConfig {
    const KEY: &'static str = "dask";
}

impl Default for DaskConfig {
    fn default() -> Self {
        Self { logs: LogConfig::kubernetes() }
    }
}
