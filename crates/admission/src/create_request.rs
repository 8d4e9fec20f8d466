//! The quota usage of creating an object, computed as the API server computes it.

use aileron_kubekit::quantity::Quantity;
use aileron_machinery::{AnyResource, ResourceKind};
use k8s_openapi::api::core::v1::{Affinity, Container, Pod, PodAffinityTerm, PodSpec, ResourceRequirements};

use crate::amounts::{self, Amounts};

/// The part of a create request that matters for admission. The gate treats two actions with equal create requests alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CreateRequest {
    /// The kind of the object.
    pub kind: ResourceKind,
    /// The quota usage of the object, under every name that a ResourceQuota may limit.
    pub amounts: Amounts,
    /// The properties that quota scopes select by. `None` for objects other than pods.
    pub pod_traits: Option<PodTraits>,
}

/// The properties of a pod that decide which quota scopes match it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodTraits {
    /// The pod sets `activeDeadlineSeconds`. Kubernetes calls the matching scope `Terminating`.
    pub has_deadline: bool,
    /// No container has a request or limit of CPU or memory.
    pub best_effort: bool,
    /// The priority class, if the pod names one.
    pub priority_class: Option<String>,
    /// An affinity or anti-affinity term of the pod selects pods of other namespaces.
    pub cross_namespace_affinity: bool,
}

/// Resources whose limits can be restricted by a quota, under the name `limits.<resource>`.
const WITH_QUOTA_FOR_LIMITS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Prefix of the resources for huge pages, which quotas name with and without `requests.`.
const HUGE_PAGES: &str = "hugepages-";

/// Which of the two maps of `resources` is meant.
#[derive(Clone, Copy)]
enum Requirement {
    Requests,
    Limits,
}

impl CreateRequest {
    /// The create request for an object. For a custom resource only the object itself counts; the pods that its operator
    /// creates later are requests of the operator.
    #[must_use]
    pub fn of(kind: &ResourceKind, object: &dyn AnyResource) -> Self {
        let qualified =
            if kind.group.is_empty() { kind.plural.to_string() } else { format!("{}.{}", kind.plural, kind.group) };
        let mut amounts = Amounts::from([(format!("count/{qualified}"), amounts::one())]);
        let pod = object.as_any().downcast_ref::<Pod>();
        if let Some(spec) = pod.and_then(|pod| pod.spec.as_ref()) {
            amounts.extend(pod_usage(spec));
            // A request of zero uses nothing of a quota.
            amounts.retain(|_, amount| !amount.is_zero());
        }
        let pod_traits = pod.map(|pod| pod.spec.as_ref().map(traits_of).unwrap_or_default());
        Self { kind: kind.clone(), amounts, pod_traits }
    }

    /// The same create request with at least these amounts. An admission webhook or a LimitRange may add to the object
    /// that the executor sends; the refusal then names larger amounts than the object.
    #[must_use]
    pub fn with_at_least(&self, minimum: &Amounts) -> Self {
        let mut raised = self.clone();
        amounts::raise_to(&mut raised.amounts, minimum);
        raised
    }
}

/// The quota usage of a pod, under every name that a ResourceQuota may limit. Mirrors `core.PodUsageFunc`.
fn pod_usage(pod: &PodSpec) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), amounts::one())]);
    for (name, amount) in pod_total(pod, Requirement::Requests) {
        if WITH_QUOTA_FOR_LIMITS.contains(&name.as_str()) || name.starts_with(HUGE_PAGES) {
            usage.insert(name.clone(), amount.clone());
        }
        usage.insert(format!("requests.{name}"), amount);
    }
    let limits = pod_total(pod, Requirement::Limits);
    for name in WITH_QUOTA_FOR_LIMITS {
        if let Some(amount) = limits.get(name) {
            usage.insert(format!("limits.{name}"), amount.clone());
        }
    }
    usage
}

/// The requests or limits of a whole pod: the sum of its containers, or the maximum during initialisation if that is more.
fn pod_total(pod: &PodSpec, requirement: Requirement) -> Amounts {
    let mut total = Amounts::new();
    for container in &pod.containers {
        amounts::add(&mut total, &container_amounts(container, requirement));
    }
    // Init containers with `restartPolicy: Always` keep running, so they add to everything that starts after them.
    let (mut sidecars, mut initialising) = (Amounts::new(), Amounts::new());
    for container in pod.init_containers.iter().flatten() {
        let own = container_amounts(container, requirement);
        if container.restart_policy.as_deref() == Some("Always") {
            amounts::add(&mut total, &own);
            amounts::add(&mut sidecars, &own);
            amounts::raise_to(&mut initialising, &sidecars);
        } else {
            let mut together = own;
            amounts::add(&mut together, &sidecars);
            amounts::raise_to(&mut initialising, &together);
        }
    }
    amounts::raise_to(&mut total, &initialising);
    // Resources at the level of the pod replace the sum of its containers.
    if let Some(resources) = &pod.resources {
        total.extend(resource_amounts(resources, requirement));
    }
    add_overhead(&mut total, &amounts::parse(pod.overhead.as_ref()), requirement);
    total
}

/// Adds `spec.overhead`. It raises existing limits, but does not add a limit where there is none.
fn add_overhead(total: &mut Amounts, overhead: &Amounts, requirement: Requirement) {
    match requirement {
        Requirement::Requests => amounts::add(total, overhead),
        Requirement::Limits => {
            for (name, own) in total {
                if let Some(more) = overhead.get(name) {
                    *own = own.plus(more);
                }
            }
        }
    }
}

fn container_amounts(container: &Container, requirement: Requirement) -> Amounts {
    container.resources.as_ref().map(|resources| resource_amounts(resources, requirement)).unwrap_or_default()
}

/// The requests or limits of a `resources` section. Where a request is missing, the API server sets it to the limit.
fn resource_amounts(resources: &ResourceRequirements, requirement: Requirement) -> Amounts {
    let limits = amounts::parse(resources.limits.as_ref());
    match requirement {
        Requirement::Limits => limits,
        Requirement::Requests => {
            let mut requests = limits;
            requests.extend(amounts::parse(resources.requests.as_ref()));
            requests
        }
    }
}

fn traits_of(pod: &PodSpec) -> PodTraits {
    let has_resources = |container: &Container| {
        let is_positive = |amount: Option<&Quantity>| amount.is_some_and(|amount| amount.signum() > 0);
        [Requirement::Requests, Requirement::Limits].into_iter().any(|requirement| {
            let amounts = container_amounts(container, requirement);
            is_positive(amounts.get("cpu")) || is_positive(amounts.get("memory"))
        })
    };
    PodTraits {
        has_deadline: pod.active_deadline_seconds.is_some_and(|seconds| seconds >= 0),
        best_effort: !pod.containers.iter().chain(pod.init_containers.iter().flatten()).any(has_resources),
        priority_class: pod.priority_class_name.clone().filter(|name| !name.is_empty()),
        cross_namespace_affinity: pod.affinity.as_ref().is_some_and(selects_other_namespaces),
    }
}

fn selects_other_namespaces(affinity: &Affinity) -> bool {
    let names_namespaces = |term: &PodAffinityTerm| {
        term.namespace_selector.is_some() || term.namespaces.as_ref().is_some_and(|names| !names.is_empty())
    };
    let in_affinity = affinity.pod_affinity.as_ref().is_some_and(|affinity| {
        let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        let required = affinity.required_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|weighted| &weighted.pod_affinity_term)).any(names_namespaces)
    });
    let in_anti_affinity = affinity.pod_anti_affinity.as_ref().is_some_and(|affinity| {
        let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        let required = affinity.required_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|weighted| &weighted.pod_affinity_term)).any(names_namespaces)
    });
    in_affinity || in_anti_affinity
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

    use serde_json::{Value, json};

    use super::*;
    use crate::amounts::of;

    fn request(spec: Value) -> CreateRequest {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
        CreateRequest::of(&ResourceKind::of::<Pod>(), &pod)
    }

    fn container(resources: Value) -> Value {
        json!({"name": "c", "resources": resources})
    }

    #[test]
    fn a_pod_is_counted_under_every_name_that_a_quota_may_limit() {
        let resources = json!({
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "limits": {"cpu": "1", "memory": "1.5Gi", "ephemeral-storage": "2Gi", "nvidia.com/gpu": "2"},
        });
        let amounts = request(json!({"containers": [container(resources)]})).amounts;
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
        assert_eq!(amounts, expected);
    }

    #[test]
    fn init_containers_are_counted_at_the_maximum_during_initialisation() {
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
        let sidecar = |amount: &str| json!({"name": "s", "restartPolicy": "Always", "resources": cpu(amount)});
        let requested_cpu = |init: Value| {
            request(json!({"containers": [container(cpu("1")), container(cpu("1"))], "initContainers": init,
                "overhead": {"cpu": "100m"}}))
            .amounts["requests.cpu"]
                .to_string()
        };
        assert_eq!(requested_cpu(json!([container(cpu("1500m"))])), "2100m");
        assert_eq!(requested_cpu(json!([container(cpu("3"))])), "3100m");
        assert_eq!(requested_cpu(json!([sidecar("1")])), "3100m");
        assert_eq!(requested_cpu(json!([sidecar("1"), container(cpu("3")), sidecar("1")])), "4100m");
        assert_eq!(requested_cpu(json!([container(cpu("3")), sidecar("1")])), "3100m");
    }

    #[test]
    fn a_custom_resource_uses_only_its_object_count() {
        let kind = ResourceKind {
            group: "ray.io".into(),
            version: "v1".into(),
            kind: "RayJob".into(),
            plural: "rayjobs".into(),
        };
        let request = CreateRequest::of(&kind, &k8s_openapi::api::core::v1::ConfigMap::default());
        assert_eq!((request.amounts, request.pod_traits), (of(&[("count/rayjobs.ray.io", "1")]), None));
    }

    #[test]
    fn the_properties_for_quota_scopes_are_read_from_the_pod() {
        let plain = request(json!({"containers": [container(json!({}))]})).pod_traits.unwrap();
        assert_eq!(plain, PodTraits { best_effort: true, ..PodTraits::default() });
        let term = json!({"topologyKey": "zone", "namespaces": ["other"]});
        let special = request(json!({
            "containers": [container(json!({"limits": {"memory": "1"}}))], "activeDeadlineSeconds": 3,
            "priorityClassName": "high",
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        }));
        let expected = PodTraits {
            has_deadline: true,
            best_effort: false,
            priority_class: Some("high".into()),
            cross_namespace_affinity: true,
        };
        assert_eq!(special.pod_traits, Some(expected));
    }
}
