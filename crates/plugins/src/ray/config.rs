//! The `plugins.ray` section.

use std::collections::BTreeMap;

use aileron_machinery::PluginSection;
use aileron_machinery::config::schema::is_default;
use aileron_machinery::config::{LogConfig, LogTemplate};
use k8s_openapi::api::core::v1::Container;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The Ray plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RayConfig {
    /// Deletes the Ray cluster when its job has ended.
    #[serde(skip_serializing_if = "is_default")]
    pub shutdown_after_job_finishes: bool,
    /// How many seconds after the end of its job the Ray cluster is deleted. Used only with `shutdownAfterJobFinishes`.
    #[serde(skip_serializing_if = "is_default")]
    pub ttl_seconds_after_finished: i32,
    /// Type of the Kubernetes Service of the head node: `ClusterIP`, `NodePort` or `LoadBalancer`.
    #[serde(skip_serializing_if = "is_default")]
    pub service_type: String,
    /// How the operator submits a job: `K8sJobMode` (a submitter pod), `HTTPMode` (a request to the head node) or
    /// `SidecarMode` (a container in the head pod).
    #[serde(skip_serializing_if = "is_default")]
    pub submission_mode: String,
    /// Starts the Ray dashboard.
    #[serde(skip_serializing_if = "is_default")]
    pub include_dashboard: bool,
    /// Address that the Ray dashboard listens on.
    #[serde(skip_serializing_if = "is_default")]
    pub dashboard_host: String,
    /// IP address of nodes whose `ipAddress` is empty. Deprecated: use `defaults.headNode.ipAddress` and
    /// `defaults.workerNode.ipAddress`.
    #[serde(rename = "nodeIPAddress", skip_serializing_if = "is_default")]
    pub node_ip_address: String,
    /// The cluster of Ray jobs, if it is another one.
    #[schemars(extend("x-no-effect" = "Ray jobs always run in the cluster of the executor"))]
    pub remote_cluster_config: RemoteClusterConfig,
    /// Log links of Ray jobs.
    pub logs: LogConfig,
    /// Container added to head pods to collect job logs.
    pub logs_sidecar: Option<Box<Container>>,
    /// Link to the Ray dashboard.
    #[schemars(extend("x-no-effect" = {"linkType": "the link is always a dashboard link"}))]
    #[serde(rename = "dashboardURLTemplate")]
    pub dashboard_url_template: Option<LogTemplate>,
    /// Defaults for the nodes of a Ray cluster.
    pub defaults: RayNodeDefaults,
    /// Allows Ray to send usage statistics to its developers.
    pub enable_usage_stats: bool,
    /// Kubernetes service account of tasks that do not name one.
    pub service_account: String,
}

impl PluginSection for RayConfig {
    const KEY: &'static str = "ray";
}

/// The cluster Ray jobs run in, when it is another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RemoteClusterConfig {
    /// A name for people.
    pub name: String,
    /// Address of the cluster's API server.
    pub endpoint: String,
    /// Credentials for that cluster.
    pub auth: RemoteClusterAuth,
    /// Uses the remote cluster.
    pub enabled: bool,
}

/// Credentials for a remote cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoteClusterAuth {
    /// File with the bearer token.
    pub token_path: String,
    /// File with the certificate of the cluster's authority.
    pub ca_cert_path: String,
}

/// Defaults for the nodes of a Ray cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RayNodeDefaults {
    /// The head node.
    pub head_node: RayNodeConfig,
    /// The worker nodes.
    pub worker_node: RayNodeConfig,
}

/// Defaults for one kind of Ray node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RayNodeConfig {
    /// Parameters of `ray start`. Setting this replaces the default parameters.
    #[serde(skip_serializing_if = "is_default")]
    pub start_parameters: BTreeMap<String, String>,
    /// IP address that the node announces. It may be an environment variable such as `$MY_POD_IP`.
    #[serde(skip_serializing_if = "is_default")]
    pub ip_address: String,
}

/// An hour to look at the dashboard of a finished job.
const TTL_SECONDS: i32 = 3600;

impl Default for RayConfig {
    fn default() -> Self {
        Self {
            shutdown_after_job_finishes: true,
            ttl_seconds_after_finished: TTL_SECONDS,
            service_type: "NodePort".into(),
            submission_mode: "K8sJobMode".into(),
            include_dashboard: true,
            dashboard_host: "0.0.0.0".into(),
            node_ip_address: String::new(),
            remote_cluster_config: RemoteClusterConfig::default(),
            logs: LogConfig::default(),
            logs_sidecar: None,
            dashboard_url_template: None,
            defaults: RayNodeDefaults::default(),
            enable_usage_stats: false,
            service_account: "default".into(),
        }
    }
}

impl Default for RayNodeDefaults {
    fn default() -> Self {
        Self { head_node: RayNodeConfig::standard(), worker_node: RayNodeConfig::standard() }
    }
}

impl RayConfig {
    /// Gives nodes without an IP address the deprecated common one, which is what happens to a configuration once it is
    /// read. Mirrors the update handler of the `ray` section.
    pub fn apply_deprecated_node_ip_address(&mut self) {
        for node in [&mut self.defaults.head_node, &mut self.defaults.worker_node] {
            if node.ip_address.is_empty() {
                node.ip_address.clone_from(&self.node_ip_address);
            }
        }
    }
}

impl RayNodeConfig {
    /// A node that announces its pod's address and sends no usage statistics.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            start_parameters: BTreeMap::from([("disable-usage-stats".to_owned(), "true".to_owned())]),
            ip_address: "$MY_POD_IP".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deprecated_address_fills_only_missing_addresses() {
        let mut config = RayConfig { node_ip_address: "$OLD".into(), ..RayConfig::default() };
        config.defaults.worker_node.ip_address.clear();
        config.apply_deprecated_node_ip_address();
        assert_eq!(config.defaults.head_node.ip_address, "$MY_POD_IP");
        assert_eq!(config.defaults.worker_node.ip_address, "$OLD");
    }
}
