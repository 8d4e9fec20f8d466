//! Tolerations: the tainted nodes on which pods may run.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements, Toleration};

use super::resources;
use crate::config::K8sConfig;

/// The configured tolerations for a pod: those of the resources it asks for, in the order of the resources' names, then
/// those of interruptible pods, then those of all pods. Mirrors `flytek8s.GetPodTolerations`.
///
/// ```
/// use aileron_machinery::config::K8sConfig;
/// use aileron_machinery::k8s_openapi::api::core::v1::Toleration;
/// use aileron_machinery::pod::tolerations::pod_tolerations;
///
/// let spot = Toleration { key: Some("spot".into()), ..Toleration::default() };
/// let config = K8sConfig { interruptible_tolerations: vec![spot.clone()], ..K8sConfig::default() };
/// assert_eq!(pod_tolerations(true, [], &config), [spot]);
/// assert!(pod_tolerations(false, [], &config).is_empty());
/// ```
pub fn pod_tolerations<'a>(
    interruptible: bool,
    requirements: impl IntoIterator<Item = &'a ResourceRequirements>,
    config: &K8sConfig,
) -> Vec<Toleration> {
    let names = resources::names(requirements);
    let mut tolerations: Vec<_> =
        names.iter().filter_map(|name| config.resource_tolerations.get(*name)).flatten().cloned().collect();
    if interruptible {
        tolerations.extend_from_slice(&config.interruptible_tolerations);
    }
    tolerations.extend_from_slice(&config.default_tolerations);
    tolerations
}

/// Adds a toleration unless the pod has it. Mirrors `flytek8s.addTolerationInPodSpec`.
///
/// ```
/// use aileron_machinery::k8s_openapi::api::core::v1::{PodSpec, Toleration};
/// use aileron_machinery::pod::tolerations::add_toleration;
///
/// let gpu = Toleration { key: Some("gpu".into()), operator: Some("Exists".into()), ..Toleration::default() };
/// let mut spec = PodSpec::default();
/// add_toleration(&mut spec, gpu.clone());
/// add_toleration(&mut spec, gpu.clone());
/// assert_eq!(spec.tolerations, Some(vec![gpu]));
/// ```
pub fn add_toleration(spec: &mut PodSpec, toleration: Toleration) {
    let present = spec.tolerations.get_or_insert_default();
    if !present.iter().any(|other| same(other, &toleration)) {
        present.push(toleration);
    }
}

/// Adds a toleration of the same name for every configured extended resource that a container requests. Mirrors
/// `flytek8s.AddTolerationsForExtendedResources`.
///
/// ```
/// use aileron_machinery::config::K8sConfig;
/// use aileron_machinery::pod::tolerations::add_tolerations_for_extended_resources;
/// # use aileron_machinery::k8s_openapi::api::core::v1::PodSpec;
/// # use aileron_machinery::serde_json::{self, json};
///
/// let requests = json!({"nvidia.com/gpu": "1"});
/// let mut spec: PodSpec =
///     serde_json::from_value(json!({"containers": [{"name": "main", "resources": {"requests": requests}}]}))?;
/// let config =
///     K8sConfig { add_tolerations_for_extended_resources: vec!["nvidia.com/gpu".into()], ..K8sConfig::default() };
/// add_tolerations_for_extended_resources(&mut spec, &config);
/// assert_eq!(spec.tolerations.unwrap()[0].key.as_deref(), Some("nvidia.com/gpu"));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn add_tolerations_for_extended_resources(spec: &mut PodSpec, config: &K8sConfig) {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let requested: BTreeSet<String> = containers
        .filter_map(|container| container.resources.as_ref()?.requests.as_ref())
        .flat_map(|requests| requests.keys())
        .filter(|name| config.add_tolerations_for_extended_resources.contains(name))
        .cloned()
        .collect();
    for name in requested {
        let exists = Toleration {
            key: Some(name),
            operator: Some("Exists".to_owned()),
            effect: Some("NoSchedule".to_owned()),
            ..Default::default()
        };
        add_toleration(spec, exists);
    }
}

/// Whether two tolerations are equal by the rule of Kubernetes: the seconds are not compared, and absent equals empty.
fn same(one: &Toleration, other: &Toleration) -> bool {
    fn parts(toleration: &Toleration) -> [&str; 4] {
        [&toleration.key, &toleration.effect, &toleration.operator, &toleration.value]
            .map(|part| part.as_deref().unwrap_or_default())
    }
    parts(one) == parts(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toleration_that_differs_only_in_seconds_is_present_already() {
        let mut spec = PodSpec::default();
        let first = Toleration { key: Some("k".into()), value: Some(String::new()), ..Default::default() };
        let second = Toleration { key: Some("k".into()), toleration_seconds: Some(5), ..Default::default() };
        add_toleration(&mut spec, first.clone());
        add_toleration(&mut spec, second);
        assert_eq!(spec.tolerations, Some(vec![first]));
    }
}
