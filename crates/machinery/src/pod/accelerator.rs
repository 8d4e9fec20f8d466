//! Accelerators: the resource names and node labels of a class of devices, and the placement of pods that use them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use aileron_idl::flyteidl2::core::GpuAccelerator;
use aileron_idl::flyteidl2::core::gpu_accelerator::{DeviceClass, PartitionSizeValue};
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, PodSpec, PodTemplate, Toleration};

use super::affinity::add_required_requirements;
use super::tolerations::add_toleration;
use crate::config::{AcceleratorDeviceClass, K8sConfig};

/// The label with the number of compute slices of a partitioned device that a pod uses. Billing reads it.
pub(super) const PARTITION_SLICES_LABEL: &str = "platform.union.ai/gpu-partition-slices";

/// The settings for one accelerator: those of its class, and the global ones where the class has none.
///
/// Mirrors `flytek8s.getAcceleratorConfig`.
#[derive(Clone, Debug)]
pub(super) struct AcceleratorSettings<'a> {
    /// The resource by which containers request the devices.
    pub resource_name: &'a str,
    /// Node label that names the device.
    pub device_label: &'a str,
    /// Node label that names the partition size.
    pub partition_size_label: &'a str,
    /// Requirement that selects nodes with whole devices.
    pub unpartitioned_requirement: Option<&'a NodeSelectorRequirement>,
    /// Toleration for nodes with whole devices.
    pub unpartitioned_toleration: Option<&'a Toleration>,
    /// Pod template for tasks on such devices.
    pub pod_template: Option<&'a PodTemplate>,
}

impl<'a> AcceleratorSettings<'a> {
    /// The settings for an accelerator.
    pub fn of(accelerator: &GpuAccelerator, config: &'a K8sConfig) -> Self {
        let class = class_settings(accelerator, config);
        let own = |value: Option<&'a String>| value.filter(|value| !value.is_empty());
        Self {
            resource_name: own(class.map(|c| &c.resource_name)).unwrap_or(&config.gpu_resource_name),
            device_label: own(class.map(|c| &c.device_node_label)).unwrap_or(&config.gpu_device_node_label),
            partition_size_label: own(class.map(|c| &c.partition_size_node_label))
                .unwrap_or(&config.gpu_partition_size_node_label),
            unpartitioned_requirement: class
                .and_then(|c| c.unpartitioned_node_selector_requirement.as_ref())
                .or(config.gpu_unpartitioned_node_selector_requirement.as_ref()),
            unpartitioned_toleration: class
                .and_then(|c| c.unpartitioned_toleration.as_ref())
                .or(config.gpu_unpartitioned_toleration.as_ref()),
            pod_template: class.and_then(|c| c.pod_template.as_deref()),
        }
    }
}

/// The name of an accelerator's class, as configuration spells it.
pub(super) fn class_name(accelerator: &GpuAccelerator) -> Cow<'static, str> {
    match DeviceClass::try_from(accelerator.device_class) {
        Ok(class) => Cow::Borrowed(class.as_str_name()),
        Err(_) => Cow::Owned(accelerator.device_class.to_string()),
    }
}

fn class_settings<'a>(accelerator: &GpuAccelerator, config: &'a K8sConfig) -> Option<&'a AcceleratorDeviceClass> {
    let name = class_name(accelerator);
    let classes = &config.accelerator_device_classes;
    classes
        .get(name.as_ref())
        .or_else(|| classes.iter().find(|(key, _)| key.eq_ignore_ascii_case(&name)).map(|(_, class)| class))
}

/// The resource names of all accelerators that the configuration knows.
pub(super) fn all_resource_names(config: &K8sConfig) -> BTreeSet<&str> {
    let classes = config.accelerator_device_classes.values().map(|class| class.resource_name.as_str());
    std::iter::once(config.gpu_resource_name.as_str()).chain(classes).filter(|name| !name.is_empty()).collect()
}

/// The value of the node label for a device. It is the name of the device unless the configuration has another one.
///
/// Mirrors `flytek8s.GetNormalizedAcceleratorDevice`.
///
/// # Differs from upstream
///
/// A configured device name with letters of both cases is found (upstream never finds `L40s`). A configured name in
/// lower case is not used, as upstream: the loader writes the keys of plain maps in lower case, so it is unknown what
/// the file had. Using such a name would move tasks of existing installations to other nodes.
fn normalized_device<'a>(device: &'a str, config: &'a K8sConfig) -> &'a str {
    let wanted = device.to_uppercase();
    let devices = &config.accelerator_devices;
    let mixed_case = |key: &str| key.chars().any(char::is_uppercase) && key.to_uppercase() == wanted;
    devices
        .get(&wanted)
        .or_else(|| devices.iter().find(|(key, _)| mixed_case(key)).map(|(_, label)| label))
        .map_or(device, String::as_str)
}

/// Whether any container has a limit for accelerators. Mirrors `flytek8s.podRequiresAccelerator`.
fn requires_accelerator(spec: &PodSpec, config: &K8sConfig) -> bool {
    let names = all_resource_names(config);
    let limits = spec.containers.iter().filter_map(|container| container.resources.as_ref()?.limits.as_ref());
    limits.flat_map(|limits| limits.keys()).any(|name| names.contains(name.as_str()))
}

/// Places a pod on nodes with the wanted device and partition size. Applying it again changes nothing.
///
/// Mirrors `flytek8s.ApplyGPUNodeSelectors`.
///
/// ```
/// use aileron_machinery::config::K8sConfig;
/// use aileron_machinery::idl::flyteidl2::core::GpuAccelerator;
/// use aileron_machinery::pod::accelerator::apply_node_selectors;
/// # use aileron_machinery::k8s_openapi::api::core::v1::PodSpec;
/// # use aileron_machinery::serde_json::{self, json};
///
/// let limits = json!({"nvidia.com/gpu": "1"});
/// let mut spec: PodSpec =
///     serde_json::from_value(json!({"containers": [{"name": "main", "resources": {"limits": limits}}]}))?;
/// let accelerator = GpuAccelerator { device: "A100".into(), ..GpuAccelerator::default() };
/// apply_node_selectors(&mut spec, &accelerator, &K8sConfig::default());
/// assert_eq!(spec.tolerations.unwrap()[0].value.as_deref(), Some("nvidia-tesla-a100"));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn apply_node_selectors(spec: &mut PodSpec, accelerator: &GpuAccelerator, config: &K8sConfig) {
    if !requires_accelerator(spec, config) {
        return;
    }
    let settings = AcceleratorSettings::of(accelerator, config);
    let mut requirements = Vec::new();
    let mut tolerations = Vec::new();
    if !accelerator.device.is_empty() {
        let device = normalized_device(&accelerator.device, config);
        requirements.push(is_in(settings.device_label, device));
        tolerations.push(tolerates(settings.device_label, device));
    }
    match &accelerator.partition_size_value {
        Some(PartitionSizeValue::Unpartitioned(true)) => {
            let whole = settings.unpartitioned_requirement.cloned();
            requirements.push(whole.unwrap_or_else(|| NodeSelectorRequirement {
                key: settings.partition_size_label.to_owned(),
                operator: "DoesNotExist".to_owned(),
                values: None,
            }));
            tolerations.extend(settings.unpartitioned_toleration.cloned());
        }
        Some(PartitionSizeValue::PartitionSize(size)) => {
            requirements.push(is_in(settings.partition_size_label, size));
            tolerations.push(tolerates(settings.partition_size_label, size));
        }
        Some(PartitionSizeValue::Unpartitioned(false)) | None => {}
    }
    if !requirements.is_empty() {
        add_required_requirements(spec.affinity.get_or_insert_default(), &requirements);
    }
    for toleration in tolerations {
        add_toleration(spec, toleration);
    }
}

/// The number of compute slices in a partition size such as `3g.20gb`; `None` for sizes of another form.
///
/// Mirrors `flytek8s.parseMigSlices`.
pub(super) fn partition_slices(size: &str) -> Option<&str> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (slices, memory) = size.split_once("g.")?;
    (digits(slices) && digits(memory.strip_suffix("gb")?)).then_some(slices)
}

fn is_in(label: &str, value: &str) -> NodeSelectorRequirement {
    NodeSelectorRequirement { key: label.to_owned(), operator: "In".to_owned(), values: Some(vec![value.to_owned()]) }
}

fn tolerates(label: &str, value: &str) -> Toleration {
    Toleration {
        key: Some(label.to_owned()),
        value: Some(value.to_owned()),
        operator: Some("Equal".to_owned()),
        effect: Some("NoSchedule".to_owned()),
        toleration_seconds: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_read_from_partition_sizes_only() {
        assert_eq!(partition_slices("3g.20gb"), Some("3"));
        for other in ["", "3g.gb", "g.20gb", "3g.20gb+me", "x3g.20gb", "3.20gb", "2x2"] {
            assert_eq!(partition_slices(other), None, "{other}");
        }
    }

    #[test]
    fn a_device_is_found_whatever_the_case_its_user_wrote() {
        let config = K8sConfig::default();
        for spelling in ["l40s", "L40S", "L40s"] {
            assert_eq!(normalized_device(spelling, &config), "nvidia-l40s");
        }
        assert_eq!(normalized_device("a100", &config), "nvidia-tesla-a100");
        assert_eq!(normalized_device("unheard-of", &config), "unheard-of");
    }
}
