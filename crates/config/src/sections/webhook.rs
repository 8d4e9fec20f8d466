//! The `webhook` section: how secrets reach task pods.

pub mod managers;

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::config::schema::{self, null_if_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::managers::{
    EmbeddedSecretManagerConfig, INIT_CONTAINER_NAME, SecretManagerType, SidecarSecretManagerConfig, VaultConfig,
};

/// The webhook that puts secrets into task pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookConfig {
    /// Prefix of the webhook's metrics.
    #[serde(rename = "metrics-prefix")]
    pub metrics_prefix: String,
    /// Directory generated certificates are written to; environment variables in it are replaced.
    pub cert_dir: String,
    /// Writes certificates to the directory instead of reading the mounted ones.
    pub local_cert: bool,
    /// Port the webhook listens at.
    pub listen_port: i64,
    /// Port at which other services can drop remembered secrets; 0 switches it off.
    pub cache_invalidation_port: i64,
    /// Name of the webhook's service.
    pub service_name: String,
    /// Port of the webhook's service.
    pub service_port: i32,
    /// Secret that generated certificates are written to.
    pub secret_name: String,
    /// Where secrets are looked for. Deprecated: use `secretManagerTypes`.
    pub secret_manager_type: SecretManagerType,
    /// Where secrets are looked for, in this order. Replaces `secretManagerType` when set.
    #[serde(serialize_with = "null_if_empty")]
    pub secret_manager_types: Vec<SecretManagerType>,
    /// AWS Secrets Manager by sidecar.
    pub aws_secret_manager: SidecarSecretManagerConfig,
    /// Google Secret Manager by sidecar.
    pub gcp_secret_manager: SidecarSecretManagerConfig,
    /// HashiCorp Vault.
    pub vault_secret_manager: VaultConfig,
    /// Secret stores the webhook asks itself, without sidecar.
    pub embedded_secret_manager_config: EmbeddedSecretManagerConfig,
    /// Azure Key Vault by sidecar.
    pub azure_secret_manager: SidecarSecretManagerConfig,
    /// Images whose host name is replaced.
    pub image_builder_config: ImageBuilderConfig,
    /// Seconds the API server waits for the webhook.
    pub webhook_timeout: i32,
    /// Leaves registering the webhook to someone else.
    pub disable_create_mutating_webhook_config: bool,
    /// Namespaces the webhook acts in; absent means all.
    pub namespace_selector: Option<LabelSelector>,
    /// The webhook's Kubernetes client.
    pub kube_client_config: KubeClientConfig,
    /// Prefix of environment variables with secrets.
    pub secret_env_var_prefix: String,
}

/// Images whose host name is replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageBuilderConfig {
    /// Switches the replacement on.
    pub enabled: bool,
    /// What is replaced by what.
    pub hostname_replacement: HostnameReplacement,
    /// Pods whose images are looked at.
    pub label_selector: LabelSelector,
    /// Containers that are left alone.
    #[serde(serialize_with = "null_if_empty")]
    pub excluded_container_names: Vec<String>,
    /// Images that are left alone, by their beginning.
    #[serde(serialize_with = "null_if_empty")]
    pub excluded_image_prefixes: Vec<String>,
}

/// What is replaced by what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct HostnameReplacement {
    /// The host name to replace.
    pub existing: String,
    /// The host name to put in.
    pub replacement: String,
    /// Does not check that the result is an address. For development.
    pub disable_verification: bool,
}

/// A Kubernetes client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KubeClientConfig {
    /// Requests per second; 0 means the client's own default.
    pub qps: i32,
    /// Requests that may come at once; 0 means the client's own default.
    pub burst: i64,
    /// Time limit of a request; 0 means none.
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
