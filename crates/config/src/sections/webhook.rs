//! The `webhook` section. It has no effect: Aileron has no webhook that adds secrets to pods.

pub mod managers;

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::config::schema::{self, null_if_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::managers::{
    EmbeddedSecretManagerConfig, INIT_CONTAINER_NAME, SecretManagerType, SidecarSecretManagerConfig, VaultConfig,
};

/// The webhook that adds secrets to the pods of tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookConfig {
    /// Prefix of the webhook's metrics.
    #[serde(rename = "metrics-prefix")]
    pub metrics_prefix: String,
    /// Directory for generated certificates. Environment variables in the path are expanded.
    pub cert_dir: String,
    /// Writes certificates to the directory instead of reading the mounted ones.
    pub local_cert: bool,
    /// Port that the webhook listens on.
    pub listen_port: i64,
    /// Port for requests that remove secrets from the cache of the webhook. 0 switches it off.
    pub cache_invalidation_port: i64,
    /// Name of the webhook's service.
    pub service_name: String,
    /// Port of the webhook's service.
    pub service_port: i32,
    /// Secret that generated certificates are written to.
    pub secret_name: String,
    /// The secret store. Deprecated: use `secretManagerTypes`.
    pub secret_manager_type: SecretManagerType,
    /// The secret stores, in the order in which they are searched. If it is set, it replaces `secretManagerType`.
    #[serde(serialize_with = "null_if_empty")]
    pub secret_manager_types: Vec<SecretManagerType>,
    /// AWS Secrets Manager, read by a sidecar container.
    pub aws_secret_manager: SidecarSecretManagerConfig,
    /// Google Secret Manager, read by a sidecar container.
    pub gcp_secret_manager: SidecarSecretManagerConfig,
    /// HashiCorp Vault.
    pub vault_secret_manager: VaultConfig,
    /// Secret stores that the webhook reads itself, without a sidecar container.
    pub embedded_secret_manager_config: EmbeddedSecretManagerConfig,
    /// Azure Key Vault, read by a sidecar container.
    pub azure_secret_manager: SidecarSecretManagerConfig,
    /// Replacement of the host name in image references.
    pub image_builder_config: ImageBuilderConfig,
    /// How many seconds the API server waits for the webhook.
    pub webhook_timeout: i32,
    /// The webhook does not create its MutatingWebhookConfiguration.
    pub disable_create_mutating_webhook_config: bool,
    /// Selects the namespaces of the webhook. Not set means all namespaces.
    pub namespace_selector: Option<LabelSelector>,
    /// The webhook's Kubernetes client.
    pub kube_client_config: KubeClientConfig,
    /// Prefix of environment variables with secrets.
    pub secret_env_var_prefix: String,
}

/// Replacement of the host name in image references.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageBuilderConfig {
    /// Switches the replacement on.
    pub enabled: bool,
    /// The host name to replace and its replacement.
    pub hostname_replacement: HostnameReplacement,
    /// Selects the pods whose images are changed.
    pub label_selector: LabelSelector,
    /// Names of containers whose images are not changed.
    #[serde(serialize_with = "null_if_empty")]
    pub excluded_container_names: Vec<String>,
    /// Images that begin with one of these texts are not changed.
    #[serde(serialize_with = "null_if_empty")]
    pub excluded_image_prefixes: Vec<String>,
}

/// The host name to replace and its replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct HostnameReplacement {
    /// The host name to replace.
    pub existing: String,
    /// The host name that replaces it.
    pub replacement: String,
    /// Does not check that the result is a valid host name. For development.
    pub disable_verification: bool,
}

/// A Kubernetes client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KubeClientConfig {
    /// Requests per second. 0 means the default of the client.
    pub qps: i32,
    /// Number of requests that may be sent at once. 0 means the default of the client.
    pub burst: i64,
    /// Time limit of a request. 0 means no limit.
    #[schemars(schema_with = "schema::duration")]
    pub timeout: GoDuration,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        Self {
            metrics_prefix: "flyte:".into(),
            cert_dir: "/etc/webhook/certs".into(),
            local_cert: false,
            listen_port: 9443,
            cache_invalidation_port: 9444,
            service_name: "flyte-pod-webhook".into(),
            service_port: 443,
            secret_name: "flyte-pod-webhook".into(),
            secret_manager_type: SecretManagerType::default(),
            secret_manager_types: Vec::new(),
            aws_secret_manager: SidecarSecretManagerConfig::aws(),
            gcp_secret_manager: SidecarSecretManagerConfig::gcp(),
            vault_secret_manager: VaultConfig::default(),
            embedded_secret_manager_config: EmbeddedSecretManagerConfig::default(),
            azure_secret_manager: SidecarSecretManagerConfig::azure(),
            image_builder_config: ImageBuilderConfig::default(),
            webhook_timeout: 30,
            disable_create_mutating_webhook_config: false,
            namespace_selector: None,
            kube_client_config: KubeClientConfig { qps: 100, burst: 25, timeout: GoDuration::from_secs(30) },
            secret_env_var_prefix: "_UNION_".into(),
        }
    }
}

impl Default for ImageBuilderConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            hostname_replacement: HostnameReplacement::default(),
            label_selector: LabelSelector::default(),
            excluded_container_names: vec![INIT_CONTAINER_NAME.into()],
            excluded_image_prefixes: Vec::new(),
        }
    }
}
