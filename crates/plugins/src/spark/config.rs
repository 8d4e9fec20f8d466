//! The `plugins.spark` section.

use std::collections::BTreeMap;

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::config::LogConfig;
use aileron_machinery::config::schema::{self, null_if_empty};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Spark applications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SparkConfig {
    /// Spark settings for every application; the task's own settings win. Write a list of one-entry maps to keep the
    /// letter case of names.
    #[serde(serialize_with = "null_if_empty")]
    pub spark_config_default: BTreeMap<String, String>,
    /// Address of the Spark history server; when set, finished applications link to it.
    pub spark_history_server_url: String,
    /// Named bundles of Spark settings that a task can ask for.
    #[serde(serialize_with = "null_if_empty")]
    pub features: Vec<SparkFeature>,
    /// Log links of Spark applications.
    pub logs: SparkLogConfig,
    /// Hands the whole pod to the Spark operator as pod templates when its CRD knows them. Switch off to go back to the
    /// single fields.
    pub enable_pod_template: bool,
    /// Time limit for reading the CRD of SparkApplications to find out whether it supports pod templates.
    #[schemars(
        schema_with = "schema::duration",
        extend("x-no-effect" = "the executor watches the CRD, so nothing waits for it")
    )]
    pub pod_template_detection_timeout: GoDuration,
}

/// A named bundle of Spark settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SparkFeature {
    /// The name a task asks for.
    pub name: String,
    /// The Spark settings of the bundle.
    #[serde(serialize_with = "null_if_empty")]
    pub spark_config: BTreeMap<String, String>,
}

/// Log links of Spark applications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SparkLogConfig {
    /// Links to the driver's logs, user and system together.
    pub mixed: LogConfig,
    /// Links to the driver's user logs.
    pub user: LogConfig,
    /// Links to Spark's own logs.
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
