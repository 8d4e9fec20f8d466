//! The `plugins.spark` section.

use std::collections::BTreeMap;

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::PluginSection;
use aileron_machinery::config::LogConfig;
use aileron_machinery::config::schema::{self, null_if_empty};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The Spark plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SparkConfig {
    /// Spark settings for every application. The settings of the task win. Write a list of maps with one entry each to
    /// keep the letter case of names.
    #[serde(serialize_with = "null_if_empty")]
    pub spark_config_default: BTreeMap<String, String>,
    /// URL of the Spark history server. If set, finished applications get a link to it.
    pub spark_history_server_url: String,
    /// Named groups of Spark settings that a task can request.
    #[serde(serialize_with = "null_if_empty")]
    pub features: Vec<SparkFeature>,
    /// Log links of Spark applications.
    pub logs: SparkLogConfig,
    /// Passes the complete pods to the Spark operator as pod templates, if the CRD of SparkApplications supports them.
    /// With `false`, or without that support, only the fields of the SparkApplication are set.
    pub enable_pod_template: bool,
    /// Time limit for reading the CRD of SparkApplications to find out whether it supports pod templates.
    #[schemars(
        schema_with = "schema::duration",
        extend("x-no-effect" = "the executor watches the CRD, so nothing waits for it")
    )]
    pub pod_template_detection_timeout: GoDuration,
}

impl PluginSection for SparkConfig {
    const KEY: &'static str = "spark";
}

/// A named group of Spark settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SparkFeature {
    /// The name by which a task requests the group.
    pub name: String,
    /// The Spark settings of the group.
    #[serde(serialize_with = "null_if_empty")]
    pub spark_config: BTreeMap<String, String>,
}

/// Log links of Spark applications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SparkLogConfig {
    /// Links to the logs of the driver, both user and system logs.
    pub mixed: LogConfig,
    /// Links to the user logs of the driver.
    pub user: LogConfig,
    /// Links to the system logs of Spark.
    pub system: LogConfig,
    /// Links to the user logs of driver and executors together.
    pub all_user: LogConfig,
}

impl Default for SparkConfig {
    fn default() -> Self {
        Self {
            spark_config_default: BTreeMap::new(),
            spark_history_server_url: String::new(),
            features: Vec::new(),
            logs: SparkLogConfig::default(),
            enable_pod_template: true,
            pod_template_detection_timeout: GoDuration::from_secs(30),
        }
    }
}

impl Default for SparkLogConfig {
    fn default() -> Self {
        Self {
            mixed: LogConfig::kubernetes(),
            user: LogConfig::default(),
            system: LogConfig::default(),
            all_user: LogConfig::default(),
        }
    }
}
