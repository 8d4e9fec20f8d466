//! The `plugins.connector-service` section.

use std::collections::BTreeMap;

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::config::LogConfig;
use aileron_machinery::config::schema::{self, is_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tasks that run in services outside the cluster, reached through connectors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectorConfig {
    /// How the services are called.
    pub web_api: WebApiConfig,
    /// How many executions may run at a time.
    pub resource_constraints: ResourceConstraints,
    /// The connector for task types that no other connector serves.
    pub default_connector: ConnectorDeployment,
    /// Connectors, keyed by a name of your choice.
    #[serde(skip_serializing_if = "is_default")]
    pub connectors: BTreeMap<String, ConnectorDeployment>,
    /// Connectors deployed as apps, keyed by a name of your choice.
    #[serde(skip_serializing_if = "is_default")]
    pub connector_apps: BTreeMap<String, ConnectorDeployment>,
    /// The connector of each task type: task type, connector name.
    #[serde(skip_serializing_if = "is_default")]
    pub connector_for_task_types: BTreeMap<String, String>,
    /// Task types served even if no connector announces them.
    #[serde(skip_serializing_if = "is_default")]
    pub supported_task_types: Vec<String>,
    /// How often connectors are asked which task types they serve.
    #[schemars(schema_with = "schema::duration")]
    pub poll_interval: GoDuration,
    /// Log links of tasks that run in connector apps.
    pub logs: LogConfig,
}

/// How services are called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WebApiConfig {
    /// Most resources in use at a time, keyed by a name of your choice.
    pub resource_quotas: BTreeMap<String, i64>,
    /// Rate of reading calls.
    pub read_rate_limiter: RateLimiterConfig,
    /// Rate of writing calls.
    pub write_rate_limiter: RateLimiterConfig,
    /// How states of running tasks are kept.
    pub caching: CachingConfig,
    /// Copy of custom state; read for compatibility and without effect.
    pub resource_meta: Option<serde_json::Value>,
}

/// A rate of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimiterConfig {
    /// Calls per second.
    pub qps: i64,
    /// Calls that may come at once.
    pub burst: i64,
}

/// How states of running tasks are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CachingConfig {
    /// Most states kept.
    pub size: i64,
    /// How often a state is asked for again.
    #[schemars(schema_with = "schema::duration")]
    pub resync_interval: GoDuration,
    /// How many states are asked for at a time.
    pub workers: i64,
    /// How often asking may fail before the task fails.
    pub max_system_failures: i64,
}

/// How many executions may run at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "PascalCase", deny_unknown_fields)]
pub struct ResourceConstraints {
    /// Bound for one project.
    pub project_scope_resource_constraint: Option<ResourceConstraint>,
    /// Bound for one namespace.
    pub namespace_scope_resource_constraint: Option<ResourceConstraint>,
}

/// A bound on executions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "PascalCase", deny_unknown_fields)]
pub struct ResourceConstraint {
    /// Most executions.
    pub value: i64,
}

/// One connector: where it listens and how it is called.
///
/// The plain default is an entry of `connectors` before anything is set; [`ConnectorDeployment::standard`] is what
/// `defaultConnector` starts from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectorDeployment {
    /// Address of the connector's gRPC service.
    pub endpoint: String,
    /// Calls without TLS.
    pub insecure: bool,
    /// gRPC service configuration, a JSON text.
    #[serde(skip_serializing_if = "is_default")]
    pub default_service_config: String,
    /// Time limits of single operations: `CreateTask`, `GetTask`, `DeleteTask`. Write a list of one-entry maps to keep
    /// the letter case of names.
    #[schemars(schema_with = "schema::duration_map")]
    #[serde(skip_serializing_if = "is_default")]
    pub timeouts: BTreeMap<String, GoDuration>,
    /// Time limit of operations without one of their own; 0 means none.
    #[schemars(schema_with = "schema::duration")]
    pub default_timeout: GoDuration,
    /// Serves only tasks of this project.
    #[serde(skip_serializing_if = "is_default")]
    pub project: String,
    /// Serves only tasks of this domain.
    #[serde(skip_serializing_if = "is_default")]
    pub domain: String,
}

impl Default for ConnectorConfig {
    fn default() -> Self {
        Self {
            web_api: WebApiConfig::default(),
            resource_constraints: ResourceConstraints::default(),
            default_connector: ConnectorDeployment::standard(),
            connectors: BTreeMap::new(),
            connector_apps: BTreeMap::new(),
            connector_for_task_types: BTreeMap::new(),
            // Upstream's placeholders; they keep the registered task types the same.
            supported_task_types: vec!["task_type_3".into(), "task_type_4".into()],
            poll_interval: GoDuration::from_secs(10),
            logs: LogConfig::default(),
        }
    }
}

impl Default for WebApiConfig {
    fn default() -> Self {
        Self {
            resource_quotas: BTreeMap::from([("default".to_owned(), 1000)]),
            read_rate_limiter: RateLimiterConfig::default(),
            write_rate_limiter: RateLimiterConfig::default(),
            caching: CachingConfig::default(),
            resource_meta: None,
        }
    }
}

impl Default for RateLimiterConfig {
    fn default() -> Self {
        Self { qps: 10, burst: 100 }
    }
}

impl Default for CachingConfig {
    fn default() -> Self {
        Self { size: 500_000, resync_interval: GoDuration::from_secs(30), workers: 10, max_system_failures: 5 }
    }
}

impl Default for ResourceConstraints {
    fn default() -> Self {
        Self {
            project_scope_resource_constraint: Some(ResourceConstraint { value: 100 }),
            namespace_scope_resource_constraint: Some(ResourceConstraint { value: 50 }),
        }
    }
}

impl ConnectorDeployment {
    /// A connector without TLS that spreads calls over its replicas.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            insecure: true,
            default_service_config: r#"{"loadBalancingConfig": [{"round_robin":{}}]}"#.into(),
            default_timeout: GoDuration::from_secs(10),
            ..Self::default()
        }
    }
}
