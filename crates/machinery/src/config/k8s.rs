//! The `plugins.k8s` section: what every pod of the platform starts from.

use std::collections::BTreeMap;

use aileron_kubekit::duration::GoDuration;
use aileron_kubekit::quantity::{Format, Quantity};
use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorRequirement, PodDNSConfig, PodSecurityContext, SecurityContext, Toleration,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accelerators::{AcceleratorDeviceClass, default_classes, default_devices};
use super::copilot::CoPilotConfig;
use super::schema::{self, null_if_empty};

/// Defaults for the pods and other objects of all tasks.
///
/// ```
/// use std::sync::Arc;
/// use aileron_machinery::config::K8sConfig;
/// use aileron_machinery::testing::task;
/// # use aileron_machinery::serde_json::Value;
///
/// let mut task = task("batch", &Value::Null);
/// task.platform.k8s = Arc::new(K8sConfig { scheduler_name: "batch-scheduler".into(), ..Default::default() });
/// let pod = aileron_machinery::pod::build_pod(&task, Default::default())?;
/// assert_eq!(pod.spec.scheduler_name.as_deref(), Some("batch-scheduler"));
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct K8sConfig {
    /// Adds a finalizer to every object when it is created. The executor removes it when the end of the task is recorded,
    /// and when it stops or replaces the object.
    pub inject_finalizer: bool,
    /// Annotations for every object. Setting this replaces the default annotations.
    #[serde(serialize_with = "null_if_empty")]
    pub default_annotations: BTreeMap<String, String>,
    /// Labels for every object.
    #[serde(serialize_with = "null_if_empty")]
    pub default_labels: BTreeMap<String, String>,
    /// Environment variables for every container. Write a list of maps with one entry each to keep upper-case names.
    #[serde(serialize_with = "null_if_empty")]
    pub default_env_vars: BTreeMap<String, String>,
    /// Environment variables for every container whose values come from the environment of the executor. The key is the
    /// name in the container, the value is the name in the executor.
    #[serde(serialize_with = "null_if_empty")]
    pub default_env_vars_from_env: BTreeMap<String, String>,
    /// ConfigMaps whose entries become environment variables of every container.
    #[serde(rename = "default-env-from-configmaps", serialize_with = "null_if_empty")]
    pub default_env_from_config_maps: Vec<String>,
    /// Secrets whose entries become environment variables of every container.
    #[serde(serialize_with = "null_if_empty")]
    pub default_env_from_secrets: Vec<String>,
    /// CPU request of a container that requests no CPU.
    #[schemars(schema_with = "schema::quantity")]
    pub default_cpus: Quantity,
    /// Memory request of a container that requests no memory.
    #[schemars(schema_with = "schema::quantity")]
    pub default_memory: Quantity,
    /// Tolerations for every pod.
    #[serde(serialize_with = "null_if_empty")]
    pub default_tolerations: Vec<Toleration>,
    /// Node selector for every pod.
    #[serde(serialize_with = "null_if_empty")]
    pub default_node_selector: BTreeMap<String, String>,
    /// Affinity for every pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_affinity: Option<Affinity>,
    /// Name of the scheduler for every pod. Empty means the default scheduler of the cluster.
    pub scheduler_name: String,
    /// Tolerations for interruptible pods.
    #[serde(serialize_with = "null_if_empty")]
    pub interruptible_tolerations: Vec<Toleration>,
    /// Node selector for interruptible pods. Deprecated: use `interruptible-node-selector-requirement`.
    #[serde(serialize_with = "null_if_empty")]
    pub interruptible_node_selector: BTreeMap<String, String>,
    /// Node selector requirement for interruptible pods.
    pub interruptible_node_selector_requirement: Option<NodeSelectorRequirement>,
    /// Node selector requirement for pods that must not be interrupted.
    pub non_interruptible_node_selector_requirement: Option<NodeSelectorRequirement>,
    /// Tolerations for pods that request a certain resource. The key is the name of the resource.
    #[serde(serialize_with = "null_if_empty")]
    pub resource_tolerations: BTreeMap<String, Vec<Toleration>>,
    /// Co-pilot: containers that download inputs and upload outputs for tasks whose image does not contain the Flyte
    /// SDK.
    pub co_pilot: CoPilotConfig,
    /// Deletes the object of a task as soon as the end of the task is recorded, also an object without an owner reference,
    /// and when its TaskAction is deleted. Log links that lead to the object stop working. `delete-finished` can keep the
    /// objects of failed tasks, or keep all objects for a while; it has no effect beside this key.
    pub delete_resource_on_finalize: bool,
    /// Whether the object of a task is deleted when the task has ended, while its TaskAction still exists: `never`,
    /// `on-success` or `always`. The object of a failed attempt is always deleted when the task is retried.
    #[schemars(extend("x-aileron" = true))]
    pub delete_finished: DeleteFinished,
    /// How long `delete-finished` keeps an object after the task has ended, so that users can read its logs and status.
    #[schemars(schema_with = "schema::duration", extend("x-aileron" = true))]
    pub delete_finished_after: GoDuration,
    /// How long a container may report CreateContainerError before the task fails. 0 means at once.
    #[schemars(schema_with = "schema::duration")]
    pub create_container_error_grace_period: GoDuration,
    /// How long a container may report CreateContainerConfigError before the task fails. 0 means at once.
    #[schemars(schema_with = "schema::duration")]
    pub create_container_config_error_grace_period: GoDuration,
    /// How long a container may report ImagePullBackOff before the task fails. 0 means at once.
    #[schemars(schema_with = "schema::duration")]
    pub image_pull_backoff_grace_period: GoDuration,
    /// Image pull policy of every container: `Always`, `IfNotPresent`, `Never`, or empty for the cluster's default.
    pub image_pull_policy: String,
    /// How long a pod may be pending before the task fails. 0 means without a limit.
    #[schemars(schema_with = "schema::duration")]
    pub pod_pending_timeout: GoDuration,
    /// Node label with the name of the GPU device.
    pub gpu_device_node_label: String,
    /// Node label with the size of the GPU partition.
    pub gpu_partition_size_node_label: String,
    /// Requirement that selects nodes with unpartitioned GPUs. Not set means that the node must not have the label
    /// `gpu-partition-size-node-label`.
    pub gpu_unpartitioned_node_selector_requirement: Option<NodeSelectorRequirement>,
    /// Toleration for nodes with unpartitioned GPUs.
    pub gpu_unpartitioned_toleration: Option<Toleration>,
    /// Resource name of a GPU. Deprecated: use `accelerator-device-classes`.
    pub gpu_resource_name: String,
    /// Device names that users write (key) and the values of the node label that they stand for (value). Setting this
    /// replaces the default list.
    #[serde(serialize_with = "null_if_empty")]
    pub accelerator_devices: BTreeMap<String, String>,
    /// Settings for each class of accelerators: `NVIDIA_GPU`, `GOOGLE_TPU`, `AMAZON_NEURON`, `AMD_GPU`, `HABANA_GAUDI`
    /// in any letter case. Setting this replaces the default list.
    #[serde(serialize_with = "null_if_empty")]
    pub accelerator_device_classes: BTreeMap<String, AcceleratorDeviceClass>,
    /// Security context of every pod.
    pub default_pod_security_context: Option<PodSecurityContext>,
    /// Security context of the main container of every pod.
    pub default_security_context: Option<SecurityContext>,
    /// Runs every pod in the network of its node. Not set leaves the choice to pod templates.
    pub enable_host_networking_pod: Option<bool>,
    /// DNS settings of every pod.
    #[serde(rename = "default-pod-dns-config")]
    pub default_pod_dns_config: Option<PodDNSConfig>,
    /// Name of the PodTemplate that every pod is based on. The executor looks for it in the namespace of the task, then
    /// in its own namespace. Empty means none.
    pub default_pod_template_name: String,
    /// How often PodTemplates are listed again.
    #[schemars(
        schema_with = "schema::duration",
        extend("x-no-effect" = "the executor watches PodTemplates, so it need not list them again")
    )]
    pub default_pod_template_resync: GoDuration,
    /// Sends the Kubernetes events of the objects of a task to the control plane.
    #[schemars(extend("x-no-effect" = "the executor always sends these events"))]
    pub send_object_events: bool,
    /// Delay before the executor repeats a failed removal of a finalizer, in milliseconds. It doubles with every
    /// attempt.
    pub update_base_backoff_duration: i64,
    /// How often the executor tries to remove a finalizer, including the first attempt. 0 means once.
    pub update_backoff_retries: i64,
    /// Names of extended resources. A pod that requests one of them gets a toleration for a taint of the same name.
    pub add_tolerations_for_extended_resources: Vec<String>,
    /// Creates objects without an owner reference to their TaskAction.
    pub disable_inject_owner_references: bool,
}

/// Whether the object of a task is deleted when the task has ended.
///
/// ```
/// use aileron_machinery::config::{DeleteFinished, K8sConfig};
/// use aileron_machinery::serde_json::{self, json};
///
/// let config: K8sConfig = serde_json::from_value(json!({"delete-finished": "on-success"}))?;
/// assert_eq!(config.delete_finished, DeleteFinished::OnSuccess);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(transform = schema::without_example)]
pub enum DeleteFinished {
    /// It is not deleted.
    #[default]
    Never,
    /// It is deleted if the task succeeded.
    OnSuccess,
    /// It is deleted.
    Always,
}

/// Three minutes: registries and kubelets recover from most hiccups in that time.
const GRACE_PERIOD_SECONDS: i64 = 180;

/// Bytes in `1Gi`, the memory of a container that asks for none.
const GIBIBYTE: i64 = 1 << 30;

impl Default for K8sConfig {
    fn default() -> Self {
        Self {
            inject_finalizer: false,
            // A pod with work in progress must not be moved by the cluster autoscaler.
            default_annotations: BTreeMap::from([(
                "cluster-autoscaler.kubernetes.io/safe-to-evict".to_owned(),
                "false".to_owned(),
            )]),
            default_labels: BTreeMap::new(),
            default_env_vars: BTreeMap::new(),
            default_env_vars_from_env: BTreeMap::new(),
            default_env_from_config_maps: Vec::new(),
            default_env_from_secrets: Vec::new(),
            default_cpus: Quantity::new(1, Format::DecimalSi),
            default_memory: Quantity::new(GIBIBYTE, Format::BinarySi),
            default_tolerations: Vec::new(),
            default_node_selector: BTreeMap::new(),
            default_affinity: None,
            scheduler_name: String::new(),
            interruptible_tolerations: Vec::new(),
            interruptible_node_selector: BTreeMap::new(),
            interruptible_node_selector_requirement: None,
            non_interruptible_node_selector_requirement: None,
            resource_tolerations: BTreeMap::new(),
            co_pilot: CoPilotConfig::default(),
            delete_resource_on_finalize: false,
            delete_finished: DeleteFinished::default(),
            delete_finished_after: GoDuration::default(),
            create_container_error_grace_period: GoDuration::from_secs(GRACE_PERIOD_SECONDS),
            create_container_config_error_grace_period: GoDuration::default(),
            image_pull_backoff_grace_period: GoDuration::from_secs(GRACE_PERIOD_SECONDS),
            image_pull_policy: String::new(),
            pod_pending_timeout: GoDuration::default(),
            gpu_device_node_label: "k8s.amazonaws.com/accelerator".into(),
            gpu_partition_size_node_label: "k8s.amazonaws.com/gpu-partition-size".into(),
            gpu_unpartitioned_node_selector_requirement: None,
            gpu_unpartitioned_toleration: None,
            gpu_resource_name: "nvidia.com/gpu".into(),
            accelerator_devices: default_devices(),
            accelerator_device_classes: default_classes(),
            default_pod_security_context: None,
            default_security_context: None,
            enable_host_networking_pod: None,
            default_pod_dns_config: None,
            default_pod_template_name: String::new(),
            default_pod_template_resync: GoDuration::from_secs(30),
            send_object_events: false,
            update_base_backoff_duration: 10,
            update_backoff_retries: 5,
            add_tolerations_for_extended_resources: Vec::new(),
            disable_inject_owner_references: false,
        }
    }
}
