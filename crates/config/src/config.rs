//! The whole configuration: all sections in one type.

use std::collections::BTreeMap;

use aileron_machinery::SectionValues;
use aileron_machinery::config::{IoUtilsConfig, K8sConfig, LogConfig, LoggerConfig, StorageConfig};
use aileron_plugins::connector::config::ConnectorConfig;
use aileron_plugins::dask::config::DaskConfig;
use aileron_plugins::kubeflow::config::KubeflowConfig;
use aileron_plugins::ray::config::RayConfig;
use aileron_plugins::spark::config::SparkConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sections::cache::CacheConfig;
use crate::sections::catalog::CatalogCacheConfig;
use crate::sections::executor::ExecutorConfig;
use crate::sections::otel::OtelConfig;
use crate::sections::secrets::SecretsConfig;
use crate::sections::tasks::TasksConfig;
use crate::sections::webhook::WebhookConfig;

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The executor itself: its HTTP servers, the services it calls, its limits and intervals.
    pub executor: ExecutorConfig,
    /// Settings of plugins: defaults for all plugins, and one section for each plugin.
    pub plugins: PluginsConfig,
    /// Which plugin runs which task type, and when the executor may create the objects of tasks.
    pub tasks: TasksConfig,
    /// The object store with the inputs, outputs and error documents of tasks.
    pub storage: StorageConfig,
    /// The webhook that adds secrets to the pods of tasks.
    #[schemars(extend("x-no-effect" = "Aileron has no pod webhook; in Flyte 2 the Go executor serves it in its own process"))]
    pub webhook: WebhookConfig,
    /// The secrets that core plugins ask the executor for. No built-in plugin asks for one.
    pub secrets: SecretsConfig,
    /// A general cache of the executor process.
    #[schemars(extend("x-no-effect" = "no part of the executor uses this cache"))]
    pub cache: CacheConfig,
    /// The log output of the executor.
    pub logger: LoggerConfig,
    /// Traces (OpenTelemetry).
    #[schemars(extend("x-no-effect" = "the executor writes no traces"))]
    pub otel: OtelConfig,
}

/// Settings of plugins: defaults for all plugins, and one section for each plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(extend("additionalProperties" = false))]
pub struct PluginsConfig {
    /// Defaults for the pods and other objects of all tasks.
    pub k8s: K8sConfig,
    /// Log links of tasks whose plugin has no `logs` section of its own.
    pub logs: LogConfig,
    /// Names of files that tasks write.
    #[schemars(extend("x-no-effect" = "the report of a task is always expected in `report.html`"))]
    pub ioutils: IoUtilsConfig,
    /// The use of cached outputs.
    #[serde(rename = "catalogcache")]
    pub catalog_cache: CatalogCacheConfig,
    /// The Spark plugin.
    pub spark: SparkConfig,
    /// The Ray plugin.
    pub ray: RayConfig,
    /// The Dask plugin.
    pub dask: DaskConfig,
    /// The PyTorch, TensorFlow and MPI plugins, which create jobs of the Kubeflow training operator.
    pub kf_operator: KubeflowConfig,
    /// Tasks that run outside the cluster and are controlled through connectors.
    #[schemars(extend("x-no-effect" = "the executor has no connector plugin"))]
    pub connector_service: ConnectorConfig,
    /// The sections of plugins that are not built in, by their key. The loader knows their keys
    /// ([`Loader::with_sections`](crate::Loader::with_sections)) and has checked them.
    #[serde(flatten)]
    #[schemars(skip)]
    pub sections: BTreeMap<String, Value>,
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
            sections: BTreeMap::new(),
        }
    }
}

impl PluginsConfig {
    /// The values of the sections that plugins own, for [`PluginSources::build`](aileron_machinery::PluginSources::build).
    #[must_use]
    pub fn section_values(&self) -> SectionValues {
        SectionValues::new(self.sections.clone())
            .with(self.spark.clone())
            .with(self.ray.clone())
            .with(self.dask.clone())
            .with(self.kf_operator.clone())
    }
}
