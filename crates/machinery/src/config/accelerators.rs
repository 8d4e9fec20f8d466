//! Accelerators: which node label a device goes by, and how each class of devices is requested and placed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, PodTemplate, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// How one class of accelerators is requested and placed.
///
/// ```
/// use aileron_machinery::config::{AcceleratorDeviceClass, K8sConfig};
///
/// let mut config = K8sConfig::default();
/// assert_eq!(config.accelerator_device_classes["GOOGLE_TPU"].resource_name, "google.com/tpu");
/// let own = AcceleratorDeviceClass { resource_name: "example.com/npu".into(), ..Default::default() };
/// config.accelerator_device_classes.insert("AMAZON_NEURON".into(), own);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct AcceleratorDeviceClass {
    /// Name of the Kubernetes resource for these devices. Empty means `gpu-resource-name`.
    pub resource_name: String,
    /// Node label with the name of the device. Empty means `gpu-device-node-label`.
    pub device_node_label: String,
    /// Node label with the size of the partition. Empty means `gpu-partition-size-node-label`.
    pub partition_size_node_label: String,
    /// Requirement that selects nodes with unpartitioned devices. Not set means
    /// `gpu-unpartitioned-node-selector-requirement`.
    pub unpartitioned_node_selector_requirement: Option<NodeSelectorRequirement>,
    /// Toleration for nodes with unpartitioned devices. Not set means `gpu-unpartitioned-toleration`.
    pub unpartitioned_toleration: Option<Toleration>,
    /// Pod template for tasks that use these devices. It is applied after the PodTemplate of the namespace and before
    /// the task: single values of the task win, lists are joined, maps are merged. A container named `default` is a
    /// template for all containers, and one named `primary` for the main container.
    pub pod_template: Option<Box<PodTemplate>>,
}

/// Device names as users write them, and the node label values they stand for.
const DEVICES: [(&str, &str); 40] = [
    ("A10", "nvidia-a10"),
    ("A100", "nvidia-tesla-a100"),
    ("A100 80G", "nvidia-a100-80gb"),
    ("A100G", "nvidia-a100g"),
    ("A10G", "nvidia-a10g"),
    ("B200", "nvidia-b200"),
    ("GAUDI1", "habana-gaudi-dl1"),
    ("GB200", "nvidia-gb200"),
    ("H100", "nvidia-h100"),
    ("H100 80G", "nvidia-h100-80gb"),
    ("H100 MEGA 80G", "nvidia-h100-mega-80gb"),
    ("H200", "nvidia-h200"),
    ("INF1", "aws-neuron-inf1"),
    ("INF2", "aws-neuron-inf2"),
    ("K80", "nvidia-tesla-k80"),
    ("L4", "nvidia-l4"),
    ("L40s", "nvidia-l40s"),
    ("L4_VWS", "nvidia-l4-vws"),
    ("M60", "nvidia-tesla-m60"),
    ("MI100", "amd-mi100"),
    ("MI210", "amd-mi210"),
    ("MI250", "amd-mi250"),
    ("MI250X", "amd-mi250x"),
    ("MI300A", "amd-mi300a"),
    ("MI300X", "amd-mi300x"),
    ("MI325X", "amd-mi325x"),
    ("MI350X", "amd-mi350x"),
    ("MI355X", "amd-mi355x"),
    ("P100", "nvidia-tesla-p100"),
    ("P4", "nvidia-tesla-p4"),
    ("RTX PRO 6000", "nvidia-rtx-pro-6000"),
    ("T4", "nvidia-tesla-t4"),
    ("TRN1", "aws-neuron-trn1"),
    ("TRN1N", "aws-neuron-trn1n"),
    ("TRN2", "aws-neuron-trn2"),
    ("TRN2U", "aws-neuron-trn2u"),
    ("V100", "nvidia-tesla-v100"),
    ("V5E", "tpu-v5-lite-podslice"),
    ("V5P", "tpu-v5p-slice"),
    ("V6E", "tpu-v6e-slice"),
];

/// Class, resource name, device label, partition label.
const CLASSES: [(&str, &str, &str, &str); 5] = [
    ("AMAZON_NEURON", "aws.amazon.com/neuron", "", ""),
    ("AMD_GPU", "amd.com/gpu", "", ""),
    ("GOOGLE_TPU", "google.com/tpu", "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"),
    ("HABANA_GAUDI", "habana.ai/gaudi", "", ""),
    ("NVIDIA_GPU", "nvidia.com/gpu", "", ""),
];

/// The devices known without configuration.
#[must_use]
pub(super) fn default_devices() -> BTreeMap<String, String> {
    DEVICES.iter().map(|(name, label)| ((*name).to_owned(), (*label).to_owned())).collect()
}

/// The device classes known without configuration.
#[must_use]
pub(super) fn default_classes() -> BTreeMap<String, AcceleratorDeviceClass> {
    CLASSES
        .iter()
        .map(|(class, resource, device, partition)| {
            let config = AcceleratorDeviceClass {
                resource_name: (*resource).to_owned(),
                device_node_label: (*device).to_owned(),
                partition_size_node_label: (*partition).to_owned(),
                ..AcceleratorDeviceClass::default()
            };
            ((*class).to_owned(), config)
        })
        .collect()
}
