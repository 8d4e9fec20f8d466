//! The secret stores of the `webhook` section.

use std::collections::BTreeMap;

use aileron_machinery::config::schema::null_if_empty;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KubeClientConfig;

/// Where secrets are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SecretManagerType {
    /// Environment and files of the executor.
    Global,
    /// Kubernetes secrets.
    K8s,
    /// AWS Secrets Manager by sidecar.
    #[serde(rename = "AWS")]
    Aws,
    /// Google Secret Manager by sidecar.
    #[serde(rename = "GCP")]
    Gcp,
    /// HashiCorp Vault.
    Vault,
    /// A store the webhook asks itself.
    #[default]
    Embedded,
    /// Azure Key Vault by sidecar.
    Azure,
}

/// A store the webhook asks itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EmbeddedSecretManagerType {
    /// AWS Secrets Manager.
    #[serde(rename = "AWS")]
    Aws,
    /// Google Secret Manager.
    #[serde(rename = "GCP")]
    Gcp,
    /// Azure Key Vault.
    Azure,
    /// Kubernetes secrets.
    #[default]
    K8s,
}

/// Version of Vault's key-value engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KvVersion {
    /// Secrets without versions.
    #[serde(rename = "1")]
    One,
    /// Secrets with versions.
    #[default]
    #[serde(rename = "2")]
    Two,
}

/// A store read by a sidecar in the task's pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct SidecarSecretManagerConfig {
    /// Image of the sidecar.
    pub sidecar_image: String,
    /// Resources of the sidecar.
    pub resources: ResourceRequirements,
}

/// HashiCorp Vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct VaultConfig {
    /// The role to take.
    pub role: String,
    /// Version of the key-value engine. Deprecated: secrets name it themselves.
    pub kv_version: KvVersion,
    /// Annotations for task pods; they replace the ones added by default.
    #[serde(serialize_with = "null_if_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Secret stores the webhook asks itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct EmbeddedSecretManagerConfig {
    /// The store.
    #[serde(rename = "type")]
    pub kind: EmbeddedSecretManagerType,
    /// AWS Secrets Manager.
    pub aws_config: AwsConfig,
    /// Google Secret Manager.
    pub gcp_config: GcpConfig,
    /// Azure Key Vault.
    pub azure_config: AzureConfig,
    /// Kubernetes secrets.
    pub k8s_config: K8sSecretsConfig,
    /// The container that writes secrets to files.
    pub file_mount_init_container: FileMountInitContainerConfig,
    /// Secrets for pulling images.
    pub image_pull_secrets: ImagePullSecretsConfig,
}

/// AWS Secrets Manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AwsConfig {
    /// AWS region.
    pub region: String,
}

/// Google Secret Manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GcpConfig {
    /// Google Cloud project.
    pub project: String,
}

/// Azure Key Vault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AzureConfig {
    /// Address of the vault.
    #[serde(rename = "vaultURI")]
    pub vault_uri: String,
}

/// Kubernetes secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct K8sSecretsConfig {
    /// Namespace of the secrets.
    pub namespace: String,
    /// The client that reads them; zero values mean those of `webhook.kubeClientConfig`.
    pub kube_client_config: KubeClientConfig,
}

/// The container that writes secrets to files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FileMountInitContainerConfig {
    /// Image of the container.
    pub image: String,
    /// Resources of the container.
    pub resources: ResourceRequirements,
    /// Name of the container.
    pub container_name: String,
}

/// Secrets for pulling images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImagePullSecretsConfig {
    /// Adds secrets for pulling images to task pods.
    pub enabled: bool,
}

/// Name of the container that writes secrets to files; the image replacement leaves it alone.
pub(super) const INIT_CONTAINER_NAME: &str = "init-embedded-secret";

impl SidecarSecretManagerConfig {
    /// AWS's own sidecar.
    pub(super) fn aws() -> Self {
        Self::new("docker.io/amazon/aws-secrets-manager-secret-sidecar:v0.1.4")
    }

    /// Google's command line tools.
    pub(super) fn gcp() -> Self {
        Self::new("gcr.io/google.com/cloudsdktool/cloud-sdk:alpine")
    }

    /// Azure's command line tools.
    pub(super) fn azure() -> Self {
        Self::new("mcr.microsoft.com/azure-cli:cbl-mariner2.0")
    }

    fn new(image: &str) -> Self {
        Self { sidecar_image: image.into(), resources: same_requests_and_limits("200m", "500Mi") }
    }
}

impl Default for VaultConfig {
    fn default() -> Self {
        Self { role: "flyte".into(), kv_version: KvVersion::default(), annotations: BTreeMap::new() }
    }
}

impl Default for K8sSecretsConfig {
    fn default() -> Self {
        Self { namespace: "flyte".into(), kube_client_config: KubeClientConfig::default() }
    }
}

impl Default for FileMountInitContainerConfig {
    fn default() -> Self {
        Self {
            image: "public.ecr.aws/docker/library/busybox:latest".into(),
            resources: same_requests_and_limits("100m", "100Mi"),
            container_name: INIT_CONTAINER_NAME.into(),
        }
    }
}

fn same_requests_and_limits(cpu: &str, memory: &str) -> ResourceRequirements {
    let amounts = BTreeMap::from([
        ("cpu".to_owned(), Quantity(cpu.to_owned())),
        ("memory".to_owned(), Quantity(memory.to_owned())),
    ]);
    ResourceRequirements { limits: Some(amounts.clone()), requests: Some(amounts), ..ResourceRequirements::default() }
}
