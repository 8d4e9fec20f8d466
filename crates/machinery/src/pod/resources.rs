//! Requests and limits of containers: defaults, bounds, overrides.
//!
//! An amount of zero stands for "not set" throughout, as it does in Kubernetes' own defaulting.

use std::collections::{BTreeMap, BTreeSet};

use aileron_idl::flyteidl2::core::resources::{ResourceEntry, ResourceName};
use aileron_idl::flyteidl2::core::{GpuAccelerator, Resources};
use aileron_kubekit::quantity::Quantity;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

use super::accelerator::{AcceleratorSettings, all_resource_names};
use super::fields::extend;
use crate::PluginError;
use crate::config::K8sConfig;

/// Kubernetes' name for CPU time.
///
/// ```
/// use aileron_machinery::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
/// use aileron_machinery::pod::resources::{CPU, ResourceList};
///
/// let requests = ResourceList::from([(CPU.to_owned(), Quantity("500m".into()))]);
/// assert_eq!(requests["cpu"].0, "500m");
/// ```
pub const CPU: &str = "cpu";
/// Kubernetes' name for memory.
///
/// ```
/// use aileron_machinery::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
/// use aileron_machinery::pod::resources::{MEMORY, ResourceList};
///
/// let limits = ResourceList::from([(MEMORY.to_owned(), Quantity("2Gi".into()))]);
/// assert_eq!(limits["memory"].0, "2Gi");
/// ```
pub const MEMORY: &str = "memory";
/// Kubernetes' name for temporary disk space.
///
/// ```
/// use aileron_machinery::pod::resources::EPHEMERAL_STORAGE;
///
/// assert_eq!(EPHEMERAL_STORAGE, "ephemeral-storage");
/// ```
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// The name by which tasks request accelerators of any kind. It is replaced before the pod is created.
///
/// ```
/// use aileron_machinery::pod::resources::{GENERIC_GPU, sanitize_gpu};
/// # use aileron_machinery::config::K8sConfig;
/// # use aileron_machinery::k8s_openapi::api::core::v1::ResourceRequirements;
/// # use aileron_machinery::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
///
/// let limits = [(GENERIC_GPU.to_owned(), Quantity("1".into()))].into();
/// let mut resources = ResourceRequirements { limits: Some(limits), ..ResourceRequirements::default() };
/// sanitize_gpu(&mut resources, None, &K8sConfig::default());
/// assert_eq!(resources.limits.unwrap()["nvidia.com/gpu"].0, "1");
/// ```
pub const GENERIC_GPU: &str = "gpu";

/// Amounts by resource name, as Kubernetes writes them.
///
/// ```
/// use aileron_machinery::k8s_openapi::api::core::v1::ResourceRequirements;
/// use aileron_machinery::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
/// use aileron_machinery::pod::resources::ResourceList;
///
/// let list = ResourceList::from([("nvidia.com/gpu".to_owned(), Quantity("2".into()))]);
/// let resources = ResourceRequirements { limits: Some(list.clone()), requests: Some(list), ..Default::default() };
/// assert_eq!(resources.limits, resources.requests);
/// ```
pub type ResourceList = BTreeMap<String, QuantityText>;

/// What a container reserves of one resource, and the most it may use.
///
/// ```
/// use aileron_machinery::pod::resources::{RequestAndLimit, adjust_or_default};
/// # use aileron_kubekit::quantity::Quantity;
/// # let amount = |text: &str| text.parse::<Quantity>().unwrap();
///
/// // Nothing is requested and the default is 2Gi, but the platform allows only 1Gi.
/// let adjusted = adjust_or_default(&amount("0"), &amount("0"), &amount("2Gi"), &amount("1Gi"));
/// assert_eq!(adjusted, RequestAndLimit { request: amount("1Gi"), limit: amount("1Gi") });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAndLimit {
    /// What is reserved.
    pub request: Quantity,
    /// The most that may be used.
    pub limit: Quantity,
}

/// What happens to requests and limits that are not set.
///
/// ```
/// use aileron_machinery::config::K8sConfig;
/// use aileron_machinery::k8s_openapi::api::core::v1::ResourceRequirements;
/// use aileron_machinery::pod::resources::{Unset, apply_overrides};
///
/// let nothing = ResourceRequirements::default();
/// let primary = apply_overrides(&nothing, &nothing, &K8sConfig::default(), Unset::Assign)?;
/// assert_eq!(primary.requests.unwrap()["memory"].0, "1Gi");
/// let sidecar = apply_overrides(&nothing, &nothing, &K8sConfig::default(), Unset::Leave)?;
/// assert_eq!(sidecar.requests, None);
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unset {
    /// A missing request is set to the limit, and a missing limit to the request. If both are missing, they are set to
    /// the platform's default.
    Assign,
    /// They stay unset. Values that are set are lowered to the platform's limit.
    Leave,
}

/// How the resources of a container are decided. Mirrors `flytek8s.ResourceCustomizationMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceMode {
    /// The overrides are merged with the resources of the container and win. For primary containers.
    Merge,
    /// The resources of the container are only lowered to the platform's limits. For all other containers.
    EnsureInRange,
}

/// Completes and lowers a request and a limit. A missing request is set to the limit, else to the platform's default; a
/// missing limit is set to the request. Both are lowered to the platform's limit, and the request to the limit.
///
/// Mirrors `flytek8s.AdjustOrDefaultResource`.
///
/// ```
/// use aileron_machinery::pod::resources::adjust_or_default;
/// # use aileron_kubekit::quantity::Quantity;
/// # let amount = |text: &str| text.parse::<Quantity>().unwrap();
///
/// // 4 CPUs are requested, and the platform allows 2.
/// let adjusted = adjust_or_default(&amount("4"), &amount("0"), &amount("1"), &amount("2"));
/// assert_eq!((adjusted.request, adjusted.limit), (amount("2"), amount("2")));
/// ```
pub fn adjust_or_default(
    request: &Quantity,
    limit: &Quantity,
    platform_default: &Quantity,
    platform_limit: &Quantity,
) -> RequestAndLimit {
    let request = match (request.is_zero(), limit.is_zero()) {
        (false, _) => request,
        (true, false) => limit,
        (true, true) => platform_default,
    };
    let limit = if limit.is_zero() { request } else { limit };
    ensure_range(request, limit, platform_limit)
}

/// Lowers values that are too high, and sets none that is missing.
fn ensure_range(request: &Quantity, limit: &Quantity, platform_limit: &Quantity) -> RequestAndLimit {
    let limit = at_most(limit, platform_limit);
    let request = at_most(at_most(request, platform_limit), limit);
    RequestAndLimit { request: request.clone(), limit: limit.clone() }
}

fn at_most<'a>(value: &'a Quantity, bound: &'a Quantity) -> &'a Quantity {
    if !value.is_zero() && !bound.is_zero() && value > bound { bound } else { value }
}

/// Sets requests and limits of CPU and memory, and of disk space and accelerators if the container requests them. Other
/// resources do not change.
///
/// Mirrors `flytek8s.ApplyResourceOverrides`.
///
/// ```
/// use aileron_machinery::pod::resources::{Unset, apply_overrides};
/// # use aileron_machinery::config::K8sConfig;
/// # use aileron_machinery::{k8s_openapi::api::core::v1::ResourceRequirements, serde_json::{self, json}};
///
/// let wanted: ResourceRequirements = serde_json::from_value(json!({"requests": {"memory": "8Gi"}}))?;
/// let platform: ResourceRequirements = serde_json::from_value(json!({"limits": {"memory": "4Gi"}}))?;
/// let given = apply_overrides(&wanted, &platform, &K8sConfig::default(), Unset::Leave)?;
/// assert_eq!(given.requests.unwrap()["memory"].0, "4Gi");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Differs from upstream
///
/// With [`Unset::Leave`] a request or limit that was not set stays absent. Upstream writes it as zero, which for
/// limits is below the request and is refused by the API server. A zero also hides the amount of a pod template, which
/// applies here.
pub fn apply_overrides(
    resources: &ResourceRequirements,
    platform: &ResourceRequirements,
    config: &K8sConfig,
    unset: Unset,
) -> Result<ResourceRequirements, PluginError> {
    bounded(resources.clone(), platform, config, unset)
}

/// [`apply_overrides`] without a copy.
fn bounded(
    resources: ResourceRequirements,
    platform: &ResourceRequirements,
    config: &K8sConfig,
    unset: Unset,
) -> Result<ResourceRequirements, PluginError> {
    let mut requests = resources.requests.unwrap_or_default();
    let mut limits = resources.limits.unwrap_or_default();

    let mut names = vec![CPU, MEMORY];
    let optional = std::iter::once(EPHEMERAL_STORAGE).chain(all_resource_names(config));
    names.extend(optional.filter(|name| requests.contains_key(*name) || limits.contains_key(*name)));

    for name in names {
        let request = amount(Some(&requests), name)?;
        let limit = amount(Some(&limits), name)?;
        let platform_limit = amount(platform.limits.as_ref(), name)?.unwrap_or_default();
        let (has_request, has_limit) = (request.is_some(), limit.is_some());
        let (request, limit) = (request.unwrap_or_default(), limit.unwrap_or_default());
        let adjusted = match unset {
            Unset::Assign => {
                let given = amount(platform.requests.as_ref(), name)?;
                let nothing = Quantity::default();
                let default = given.as_ref().unwrap_or(match name {
                    CPU => &config.default_cpus,
                    MEMORY => &config.default_memory,
                    _ => &nothing,
                });
                adjust_or_default(&request, &limit, default, &platform_limit)
            }
            Unset::Leave => ensure_range(&request, &limit, &platform_limit),
        };
        if has_request || unset == Unset::Assign {
            set(&mut requests, name, &adjusted.request);
        }
        if has_limit || unset == Unset::Assign {
            set(&mut limits, name, &adjusted.limit);
        }
    }
    Ok(ResourceRequirements { requests: non_empty(requests), limits: non_empty(limits), claims: resources.claims })
}

/// Writes an amount in its canonical form.
fn set(list: &mut ResourceList, name: &str, amount: &Quantity) {
    match list.get_mut(name) {
        Some(present) => *present = text(amount),
        None => {
            list.insert(name.to_owned(), text(amount));
        }
    }
}

fn non_empty(list: ResourceList) -> Option<ResourceList> {
    (!list.is_empty()).then_some(list)
}

/// Requests and limits for pods that are not made from the task's container. Mirrors
/// `flytek8s.ApplyK8sResourceOverrides`.
///
/// ```
/// use aileron_machinery::pod::resources::{apply_platform_resources, from_proto};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// // The resources of a worker group, as the settings of the task have them: none here.
/// let task = task("batch", &Value::Null);
/// let own = from_proto(None)?;
/// let settled = apply_platform_resources(&own, &task.metadata.platform_resources, &task.platform.k8s)?;
/// assert_eq!(settled.limits.unwrap()["cpu"].0, "1");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn apply_platform_resources(
    resources: &ResourceRequirements,
    platform: &ResourceRequirements,
    config: &K8sConfig,
) -> Result<ResourceRequirements, PluginError> {
    apply_overrides(resources, platform, config, Unset::Assign)
}

/// Copies the entries of `over` into `under`. They replace entries of the same name. Mirrors `flytek8s.MergeResources`.
///
/// ```
/// use aileron_machinery::pod::resources::merge;
/// # use aileron_machinery::{k8s_openapi::api::core::v1::ResourceRequirements, serde_json::{self, json}};
///
/// let mut resources: ResourceRequirements =
///     serde_json::from_value(json!({"requests": {"cpu": "1", "memory": "1Gi"}}))?;
/// merge(&serde_json::from_value(json!({"requests": {"cpu": "2"}}))?, &mut resources);
/// assert_eq!(serde_json::to_value(&resources)?, json!({"requests": {"cpu": "2", "memory": "1Gi"}}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn merge(over: &ResourceRequirements, under: &mut ResourceRequirements) {
    lay_over(over.clone(), under);
}

fn lay_over(over: ResourceRequirements, under: &mut ResourceRequirements) {
    extend(&mut under.limits, over.limits.into_iter().flatten());
    extend(&mut under.requests, over.requests.into_iter().flatten());
}

/// Replaces [`GENERIC_GPU`] by the resource name of the accelerator. Mirrors
/// `flytek8s.SanitizeGPUResourceRequirements`.
///
/// ```
/// use aileron_machinery::config::K8sConfig;
/// use aileron_machinery::idl::flyteidl2::core::{GpuAccelerator, gpu_accelerator::DeviceClass};
/// use aileron_machinery::pod::resources::sanitize_gpu;
/// # use aileron_machinery::{k8s_openapi::api::core::v1::ResourceRequirements, serde_json::{self, json}};
///
/// let mut resources: ResourceRequirements = serde_json::from_value(json!({"limits": {"gpu": "1"}}))?;
/// let accelerator = GpuAccelerator { device_class: DeviceClass::GoogleTpu.into(), ..GpuAccelerator::default() };
/// sanitize_gpu(&mut resources, Some(&accelerator), &K8sConfig::default());
/// assert!(resources.limits.unwrap().contains_key("google.com/tpu"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sanitize_gpu(resources: &mut ResourceRequirements, accelerator: Option<&GpuAccelerator>, config: &K8sConfig) {
    let name = match accelerator {
        Some(accelerator) => AcceleratorSettings::of(accelerator, config).resource_name,
        None => config.gpu_resource_name.as_str(),
    };
    for list in [&mut resources.requests, &mut resources.limits].into_iter().flatten() {
        if let Some(amount) = list.remove(GENERIC_GPU) {
            list.insert(name.to_owned(), amount);
        }
    }
}

/// The resources of one container under a [`ResourceMode`].
pub(super) fn settle(
    mut container: ResourceRequirements,
    overrides: Option<&ResourceRequirements>,
    platform: &ResourceRequirements,
    accelerator: Option<&GpuAccelerator>,
    config: &K8sConfig,
    mode: ResourceMode,
) -> Result<ResourceRequirements, PluginError> {
    let overrides = || {
        let mut overrides = overrides.cloned().unwrap_or_default();
        sanitize_gpu(&mut overrides, accelerator, config);
        overrides
    };
    match mode {
        ResourceMode::Merge => {
            sanitize_gpu(&mut container, accelerator, config);
            lay_over(overrides(), &mut container);
            bounded(container, platform, config, Unset::Assign)
        }
        ResourceMode::EnsureInRange => {
            sanitize_gpu(&mut container, accelerator, config);
            bounded(container, platform, config, Unset::Leave)
        }
    }
}

/// The resources of a template in the form of Kubernetes. Quantities of zero, and resources that Kubernetes does not
/// have, are left out.
///
/// Mirrors `flytek8s.ToK8sResourceRequirements`.
///
/// ```
/// use aileron_machinery::idl::flyteidl2::core::Resources;
/// use aileron_machinery::idl::flyteidl2::core::resources::{ResourceEntry, ResourceName};
/// use aileron_machinery::pod::resources::from_proto;
///
/// let requests = vec![ResourceEntry { name: ResourceName::Memory.into(), value: "1024Mi".into() }];
/// let resources = from_proto(Some(&Resources { requests, limits: Vec::new() }))?;
/// assert_eq!(resources.requests.unwrap()["memory"].0, "1Gi");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn from_proto(resources: Option<&Resources>) -> Result<ResourceRequirements, PluginError> {
    let Some(resources) = resources else { return Ok(ResourceRequirements::default()) };
    Ok(ResourceRequirements {
        requests: non_empty(list_from_proto(&resources.requests)?),
        limits: non_empty(list_from_proto(&resources.limits)?),
        ..Default::default()
    })
}

fn list_from_proto(entries: &[ResourceEntry]) -> Result<ResourceList, PluginError> {
    let mut list = ResourceList::new();
    for entry in entries {
        let amount: Quantity = entry
            .value
            .parse()
            .map_err(|error| PluginError::uncoded(format!("Failed to parse resource as a valid quantity.: {error}")))?;
        let name = match ResourceName::try_from(entry.name) {
            Ok(ResourceName::Cpu) => CPU,
            Ok(ResourceName::Memory) => MEMORY,
            Ok(ResourceName::Gpu) => GENERIC_GPU,
            Ok(ResourceName::EphemeralStorage) => EPHEMERAL_STORAGE,
            Ok(ResourceName::Unknown | ResourceName::Storage) | Err(_) => continue,
        };
        if !amount.is_zero() {
            list.insert(name.to_owned(), text(&amount));
        }
    }
    Ok(list)
}

/// The names of all resources with a request or a limit, each once.
pub(super) fn names<'a>(resources: impl IntoIterator<Item = &'a ResourceRequirements>) -> BTreeSet<&'a str> {
    resources
        .into_iter()
        .flat_map(|resources| [&resources.limits, &resources.requests])
        .flatten()
        .flat_map(|list| list.keys().map(String::as_str))
        .collect()
}

/// An amount in Kubernetes' canonical writing.
pub(super) fn text(amount: &Quantity) -> QuantityText {
    QuantityText(amount.to_string())
}

fn amount(list: Option<&ResourceList>, name: &str) -> Result<Option<Quantity>, PluginError> {
    let Some(text) = list.and_then(|list| list.get(name)) else { return Ok(None) };
    let parsed = text.0.parse().map_err(|error| {
        PluginError::bad_task_specification(format!("resource {name} has the amount [{}]: {error}", text.0))
    })?;
    Ok(Some(parsed))
}

#[cfg(test)]
mod tests;
