//! What creating an object takes of quotas, counted as the API server counts it.

use aileron_kubekit::quantity::Quantity;
use aileron_machinery::{AnyResource, ResourceKind};
use k8s_openapi::api::core::v1::{Affinity, Container, Pod, PodAffinityTerm, PodSpec, ResourceRequirements};

use crate::amounts::{self, Amounts};

/// A wish to create an object. Two tasks with equal requests are alike to the gate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The kind of object.
    pub kind: ResourceKind,
    /// What it takes, by the names that quotas use.
    pub amounts: Amounts,
    /// What scopes of quotas look at; nothing for objects other than pods.
    pub traits: Option<PodTraits>,
}

/// Properties of a pod that decide which quotas mean it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodTraits {
    /// Has a deadline of its own.
    pub terminating: bool,
    /// Asks for neither CPU nor memory.
    pub best_effort: bool,
    /// Its priority class, if it names one.
    pub priority_class: Option<String>,
    /// Wants to be near or far from pods of other namespaces.
    pub cross_namespace_affinity: bool,
}

/// Resources with a quota name for limits too.
const LIMITED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

const HUGE_PAGES: &str = "hugepages-";

#[derive(Clone, Copy)]
enum Side {
    Requests,
    Limits,
}

impl Request {
    /// The request of an object. Pods that an operator makes later are the operator's requests, not ours.
    #[must_use]
    pub fn of(kind: &ResourceKind, object: &dyn AnyResource) -> Self {
        let qualified =
            if kind.group.is_empty() { kind.plural.to_string() } else { format!("{}.{}", kind.plural, kind.group) };
        let mut amounts = Amounts::from([(format!("count/{qualified}"), amounts::one())]);
        let pod = object.as_any().downcast_ref::<Pod>();
        if let Some(spec) = pod.and_then(|pod| pod.spec.as_ref()) {
            amounts.extend(usage(spec));
            // Asking for nothing is not asking.
            amounts.retain(|_, amount| !amount.is_zero());
        }
        Self { kind: kind.clone(), amounts, traits: pod.map(|pod| pod.spec.as_ref().map(traits).unwrap_or_default()) }
    }

    /// The same with at least these amounts: an admission webhook or a LimitRange may add to what we send, and the
    /// refusal tells.
    #[must_use]
    pub fn raised(&self, learned: &Amounts) -> Self {
        let mut raised = self.clone();
        amounts::raise(&mut raised.amounts, learned);
        raised
    }
}

/// What a pod takes under all the names that a quota may use. Mirrors `core.PodUsageFunc`.
fn usage(pod: &PodSpec) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), amounts::one())]);
    for (name, amount) in total(pod, Side::Requests) {
        if LIMITED.contains(&name.as_str()) || name.starts_with(HUGE_PAGES) {
            usage.insert(name.clone(), amount.clone());
        }
        usage.insert(format!("requests.{name}"), amount);
    }
    let limits = total(pod, Side::Limits);
    for name in LIMITED {
        if let Some(amount) = limits.get(name) {
            usage.insert(format!("limits.{name}"), amount.clone());
        }
    }
    usage
}

/// The requests or limits of a whole pod: its containers together, or its most demanding moment of initialisation if
/// that is more. Sidecars that start before the others stay, so they count with all that follows.
fn total(pod: &PodSpec, side: Side) -> Amounts {
    let mut total = Amounts::new();
    for container in &pod.containers {
        amounts::add(&mut total, &said(container, side));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in pod.init_containers.iter().flatten() {
        let own = said(container, side);
        if container.restart_policy.as_deref() == Some("Always") {
            amounts::add(&mut total, &own);
            amounts::add(&mut sidecars, &own);
            amounts::raise(&mut starting, &sidecars);
        } else {
            let mut together = own;
            amounts::add(&mut together, &sidecars);
            amounts::raise(&mut starting, &together);
        }
    }
    amounts::raise(&mut total, &starting);
    // What a pod says for itself as a whole replaces what its containers add up to.
    if let Some(whole) = &pod.resources {
        total.extend(resources(whole, side));
    }
    let overhead = amounts::read(pod.overhead.as_ref());
    match side {
        Side::Requests => amounts::add(&mut total, &overhead),
        // Overhead raises limits that are there, and makes none.
        Side::Limits => {
            for (name, own) in &mut total {
                if let Some(more) = overhead.get(name) {
                    *own = own.plus(more);
                }
            }
        }
    }
    total
}

fn said(container: &Container, side: Side) -> Amounts {
    container.resources.as_ref().map(|said| resources(said, side)).unwrap_or_default()
}

/// The server fills in a request that is missing from the limit.
fn resources(said: &ResourceRequirements, side: Side) -> Amounts {
    let limits = amounts::read(said.limits.as_ref());
    match side {
        Side::Limits => limits,
        Side::Requests => {
            let mut requests = limits;
            requests.extend(amounts::read(said.requests.as_ref()));
            requests
        }
    }
}

fn traits(pod: &PodSpec) -> PodTraits {
    let demands = |container: &Container| {
        let positive = |amount: Option<&Quantity>| amount.is_some_and(|amount| amount.signum() > 0);
        [Side::Requests, Side::Limits].into_iter().any(|side| {
            let said = said(container, side);
            positive(said.get("cpu")) || positive(said.get("memory"))
        })
    };
    PodTraits {
        terminating: pod.active_deadline_seconds.is_some_and(|seconds| seconds >= 0),
        best_effort: !pod.containers.iter().chain(pod.init_containers.iter().flatten()).any(demands),
        priority_class: pod.priority_class_name.clone().filter(|name| !name.is_empty()),
        cross_namespace_affinity: pod.affinity.as_ref().is_some_and(looks_elsewhere),
    }
}

fn looks_elsewhere(affinity: &Affinity) -> bool {
    let term = |term: &PodAffinityTerm| {
        term.namespace_selector.is_some() || term.namespaces.as_ref().is_some_and(|names| !names.is_empty())
    };
    let near = affinity.pod_affinity.as_ref().is_some_and(|near| {
        let preferred = near.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        let required = near.required_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|weighted| &weighted.pod_affinity_term)).any(term)
    });
    let far = affinity.pod_anti_affinity.as_ref().is_some_and(|far| {
        let preferred = far.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        let required = far.required_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|weighted| &weighted.pod_affinity_term)).any(term)
    });
    near || far
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

    use serde_json::{Value, json};

    use super::*;
    use crate::amounts::of;

    fn request(spec: Value) -> Request {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
        Request::of(&ResourceKind::of::<Pod>(), &pod)
    }

    fn container(resources: Value) -> Value {
        json!({"name": "c", "resources": resources})
    }

    #[test]
    fn a_pod_counts_under_every_name_that_a_quota_may_use() {
        let resources = json!({
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "limits": {"cpu": "1", "memory": "1.5Gi", "ephemeral-storage": "2Gi", "nvidia.com/gpu": "2"},
        });
        let asked = request(json!({"containers": [container(resources)]})).amounts;
        let expected = of(&[
            ("pods", "1"),
            ("count/pods", "1"),
            ("cpu", "500m"),
            ("requests.cpu", "500m"),
            ("memory", "1Gi"),
            ("requests.memory", "1Gi"),
            ("ephemeral-storage", "2Gi"),
            ("requests.ephemeral-storage", "2Gi"),
            ("requests.nvidia.com/gpu", "2"),
            ("limits.cpu", "1"),
            ("limits.memory", "1.5Gi"),
            ("limits.ephemeral-storage", "2Gi"),
        ]);
        assert_eq!(asked, expected);
    }

    #[test]
    fn init_containers_count_at_their_most_demanding_moment() {
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
        let sidecar = |amount: &str| json!({"name": "s", "restartPolicy": "Always", "resources": cpu(amount)});
        let asked = |init: Value| {
            request(json!({"containers": [container(cpu("1")), container(cpu("1"))], "initContainers": init,
                "overhead": {"cpu": "100m"}}))
            .amounts["requests.cpu"]
                .to_string()
        };
        assert_eq!(asked(json!([container(cpu("1500m"))])), "2100m");
        assert_eq!(asked(json!([container(cpu("3"))])), "3100m");
        assert_eq!(asked(json!([sidecar("1")])), "3100m");
        assert_eq!(asked(json!([sidecar("1"), container(cpu("3")), sidecar("1")])), "4100m");
        assert_eq!(asked(json!([container(cpu("3")), sidecar("1")])), "3100m");
    }

    #[test]
    fn an_operators_object_is_only_counted() {
        let kind = ResourceKind {
            group: "ray.io".into(),
            version: "v1".into(),
            kind: "RayJob".into(),
            plural: "rayjobs".into(),
        };
        let asked = Request::of(&kind, &k8s_openapi::api::core::v1::ConfigMap::default());
        assert_eq!((asked.amounts, asked.traits), (of(&[("count/rayjobs.ray.io", "1")]), None));
    }

    #[test]
    fn scopes_see_what_kind_of_pod_it_is() {
        let plain = request(json!({"containers": [container(json!({}))]})).traits.unwrap();
        assert_eq!(plain, PodTraits { best_effort: true, ..PodTraits::default() });
        let term = json!({"topologyKey": "zone", "namespaces": ["other"]});
        let special = request(json!({
            "containers": [container(json!({"limits": {"memory": "1"}}))], "activeDeadlineSeconds": 3,
            "priorityClassName": "high",
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        }));
        let expected = PodTraits {
            terminating: true,
            best_effort: false,
            priority_class: Some("high".into()),
            cross_namespace_affinity: true,
        };
        assert_eq!(special.traits, Some(expected));
    }
}
