//! What a pod takes of a node.

use std::collections::BTreeMap;

use aileron_kubekit::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod};

/// Amounts by the name of the resource.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// What a pod requests in effect: the most it needs at any moment of its life. Init containers run one after another
/// beside the sidecars that started before them; then all containers run beside all sidecars.
///
/// Mirrors `resource.PodRequests`.
pub(crate) fn effective(pod: &Pod) -> Amounts {
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

/// Whether an init container stays beside the containers.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Adds amounts to others.
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

/// The API server admits no quantity that cannot be read, so one that cannot counts as nothing.
fn add_one(sum: &mut Amounts, name: &str, amount: &str) {
    if let Ok(amount) = amount.parse::<Quantity>() {
        let total = sum.entry(name.to_owned()).or_default();
        *total = total.plus(&amount);
    }
}

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
        effective(&pod).get("cpu").cloned().unwrap_or_default().to_string()
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
    fn overhead_comes_on_top() {
        assert_eq!(cpu(&json!({"containers": [container("1")], "overhead": {"cpu": "250m"}})), "1250m");
    }
}
