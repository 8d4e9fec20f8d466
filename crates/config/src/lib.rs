//! Configuration: its sections, and how they are found, merged, checked and explained.
//!
//! Sections, keys and defaults are upstream's, so an existing file works unchanged. Several files are merged (a later
//! one wins, maps are merged entry by entry), then environment variables and then flags lie over them. Every key must
//! be known and every value must fit; all mistakes are reported at once, each with its file, line and key.
//!
//! | module | question it answers |
//! | --- | --- |
//! | [`sections`] | which keys exist |
//! | [`files`] | which files count |
//! | [`load`] | what the configuration is, given texts, environment and flags |
//! | [`explain`] | schema, example, reference page, and where each value came from |

pub mod error;
pub mod explain;
pub mod files;
pub mod load;
pub mod sections;

mod environment;
mod flags;
pub mod node;
mod overlay;
mod resolve;
mod scalar;
mod shape;
pub mod suggest;
mod tree;
mod validate;
pub mod yaml;

use aileron_machinery::config::{IoUtilsConfig, K8sConfig, LogConfig, LoggerConfig, StorageConfig};
use aileron_plugins::PluginConfigs;
use aileron_plugins::connector::config::ConnectorConfig;
use aileron_plugins::dask::config::DaskConfig;
use aileron_plugins::kubeflow::config::KubeflowConfig;
use aileron_plugins::ray::config::RayConfig;
use aileron_plugins::spark::config::SparkConfig;
use aileron_plugins::spark::crd::PodTemplateSupport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::{ConfigError, ConfigErrors, Origin, Problem, Warning};
pub use explain::{Report, Selection, check, dump, example, markdown, schema, show};
pub use flags::parse_arguments;
pub use load::{Loaded, Loader, SourceFile, Sources};
pub use suggest::nearest;

use self::sections::cache::CacheConfig;
use self::sections::catalog::CatalogCacheConfig;
use self::sections::executor::ExecutorConfig;
use self::sections::otel::OtelConfig;
use self::sections::secrets::SecretsConfig;
use self::sections::tasks::TasksConfig;
use self::sections::webhook::WebhookConfig;

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The executor itself: its servers, its control plane and its pace.
    pub executor: ExecutorConfig,
    /// What plugins start from, and each plugin's own settings.
    pub plugins: PluginsConfig,
    /// Which plugin runs which task.
    pub tasks: TasksConfig,
    /// Where inputs, outputs and error documents are kept.
    pub storage: StorageConfig,
    /// The webhook that puts secrets into task pods.
    pub webhook: WebhookConfig,
    /// Where the executor itself finds secrets.
    pub secrets: SecretsConfig,
    /// Values the executor itself remembers.
    pub cache: CacheConfig,
    /// What is logged and how.
    pub logger: LoggerConfig,
    /// Where traces go.
    pub otel: OtelConfig,
}

/// What plugins start from, and each plugin's own settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct PluginsConfig {
    /// Defaults for every pod the platform starts.
    pub k8s: K8sConfig,
    /// Log links of tasks whose plugin has none of its own.
    pub logs: LogConfig,
    /// Names of files the tasks write.
    pub ioutils: IoUtilsConfig,
    /// Cached outputs of tasks.
    #[serde(rename = "catalogcache")]
    pub catalog_cache: CatalogCacheConfig,
    /// Spark applications.
    pub spark: SparkConfig,
    /// Ray jobs.
    pub ray: RayConfig,
    /// Dask clusters.
    pub dask: DaskConfig,
    /// Jobs of the Kubeflow training operator.
    pub kf_operator: KubeflowConfig,
    /// Tasks that run in services outside the cluster, reached through connectors.
    pub connector_service: ConnectorConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            executor: ExecutorConfig::default(),
            plugins: PluginsConfig::default(),
            tasks: TasksConfig::default(),
            storage: StorageConfig::standard(),
            webhook: WebhookConfig::default(),
            secrets: SecretsConfig::default(),
            cache: CacheConfig::default(),
            logger: LoggerConfig::default(),
            otel: OtelConfig::default(),
        }
    }
}

impl Default for PluginsConfig {
    fn default() -> Self {
        Self {
            k8s: K8sConfig::default(),
            logs: LogConfig::kubernetes(),
            ioutils: IoUtilsConfig::default(),
            catalog_cache: CatalogCacheConfig::default(),
            spark: SparkConfig::default(),
            ray: RayConfig::default(),
            dask: DaskConfig::default(),
            kf_operator: KubeflowConfig::default(),
            connector_service: ConnectorConfig::default(),
        }
    }
}

impl From<&PluginsConfig> for PluginConfigs {
    fn from(config: &PluginsConfig) -> Self {
        Self {
            dask: config.dask.clone(),
            kubeflow: config.kf_operator.clone(),
            ray: config.ray.clone(),
            spark: config.spark.clone(),
            spark_pod_templates: PodTemplateSupport::default(),
        }
    }
}

impl Config {
    /// The configuration that these sources describe.
    ///
    /// # Errors
    ///
    /// All unknown keys, misfit values and bad combinations of all sources together.
    pub fn load(sources: &Sources) -> Result<Self, ConfigErrors> {
        Loader::new().load(sources).map(|loaded| loaded.config)
    }
}

#[cfg(test)]
mod tests;
