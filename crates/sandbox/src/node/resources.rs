//! Amounts of resources: what a pod requests.

pub(crate) mod capacity;

use std::collections::BTreeMap;

use aileron_kubekit::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod};

/// Amounts by the name of the resource.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// The effective request of a pod: the maximum of what it needs at the same time. Init containers run one after
/// another, beside the sidecars that started before them. After them, all containers run beside all sidecars.
///
/// Mirrors `resource.PodRequests`.
pub(crate) fn pod_requests(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut together = Amounts::new();
    for container in &spec.containers {
        add(&mut together, &requested(container));
    }
    let mut sidecars = Amounts::new();
    let mut most_before = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let mut moment = sidecars.clone();
        add(&mut moment, &requested(container));
        if is_sidecar(container) {
            add(&mut together, &requested(container));
            sidecars = moment.clone();
        }
        raise(&mut most_before, &moment);
    }
    raise(&mut together, &most_before);
    for (name, amount) in spec.overhead.iter().flatten() {
        add_one(&mut together, name, &amount.0);
    }
    together
}

/// Whether an init container keeps running beside the main containers.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Adds `more` to `sum`, resource by resource.
pub(crate) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let total = sum.entry(name.clone()).or_default();
        *total = total.plus(amount);
    }
}

fn requested(container: &Container) -> Amounts {
    let mut amounts = Amounts::new();
    let resources = container.resources.as_ref();
    for (name, amount) in resources.and_then(|resources| resources.requests.as_ref()).into_iter().flatten() {
        add_one(&mut amounts, name, &amount.0);
    }
    amounts
}

/// Adds one amount. The API server refuses malformed quantities; a malformed one counts as zero here.
fn add_one(sum: &mut Amounts, name: &str, amount: &str) {
    if let Ok(amount) = amount.parse::<Quantity>() {
        let total = sum.entry(name.to_owned()).or_default();
        *total = total.plus(&amount);
    }
}

/// Raises `most` to `other` where `other` is larger.
fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let known = most.entry(name.clone()).or_default();
        if amount > known {
            known.clone_from(amount);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cpu(spec: &Value) -> String {
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        pod_requests(&pod).get("cpu").cloned().unwrap_or_default().to_string()
    }

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        json!({"name": "c", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn containers_run_together_and_init_containers_alone() {
        let two = [container("500m"), container("1")];
        assert_eq!(cpu(&json!({"containers": two})), "1500m");
        assert_eq!(cpu(&json!({"containers": two, "initContainers": [container("1"), container("1")]})), "1500m");
        assert_eq!(cpu(&json!({"containers": two, "initContainers": [container("2")]})), "2");
    }

    #[test]
    fn sidecars_count_beside_what_starts_after_them() {
        let main = [container("1")];
        assert_eq!(cpu(&json!({"containers": main, "initContainers": [sidecar("1"), container("3")]})), "4");
        assert_eq!(cpu(&json!({"containers": main, "initContainers": [container("3"), sidecar("1")]})), "3");
        assert_eq!(cpu(&json!({"containers": main, "initContainers": [container("1"), sidecar("1")]})), "2");
    }

    #[test]
    fn overhead_is_added() {
        assert_eq!(cpu(&json!({"containers": [container("1")], "overhead": {"cpu": "250m"}})), "1250m");
    }
}
