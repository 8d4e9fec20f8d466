//! A ResourceQuota as the gate sees it: limits, usage, and to which objects the quota applies.

pub mod message;

use k8s_openapi::api::core::v1::ResourceQuota;

use crate::amounts::{self, Amounts};
use crate::create_request::{CreateRequest, PodTraits};

/// A ResourceQuota of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.resourceVersion` of the object that this was read from.
    pub resource_version: u64,
    /// `status.hard`: the limit of each resource. The API server decides by the status, not by the spec.
    pub hard: Amounts,
    /// `status.used`: the usage of each resource.
    pub used: Amounts,
    scopes: Vec<Scope>,
}

/// One condition of `spec.scopes` or `spec.scopeSelector`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

impl Quota {
    /// Reads a ResourceQuota object.
    #[must_use]
    pub fn of(object: &ResourceQuota) -> Self {
        let metadata = &object.metadata;
        let version = metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
        let status = object.status.as_ref();
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            resource_version: version.unwrap_or_default(),
            hard: amounts::parse(status.and_then(|status| status.hard.as_ref())),
            used: amounts::parse(status.and_then(|status| status.used.as_ref())),
            scopes: scopes_of(object),
        }
    }

    /// A quota without scopes.
    #[cfg(test)]
    pub(crate) fn without_scopes(name: &str, resource_version: u64, hard: Amounts, used: Amounts) -> Self {
        Self { name: name.to_owned(), resource_version, hard, used, scopes: Vec::new() }
    }

    /// The usage that the API server adds to this quota when it accepts the create request. Empty if the quota does not
    /// apply to the object, or limits none of its resources.
    #[must_use]
    pub fn usage_of(&self, request: &CreateRequest) -> Amounts {
        if !self.applies_to(request) {
            return Amounts::new();
        }
        amounts::filtered(&request.amounts, |name| self.hard.contains_key(name))
    }

    /// `hard` minus `used`. Negative if the quota was lowered below its usage.
    #[must_use]
    pub fn remaining(&self) -> Amounts {
        let mut remaining = self.hard.clone();
        amounts::subtract(&mut remaining, &self.used);
        remaining
    }

    /// Whether the quota applies only to some pods.
    #[must_use]
    pub fn has_scopes(&self) -> bool {
        !self.scopes.is_empty()
    }

    /// Whether `status.used` has an entry for each of these resources. Until the ResourceQuota controller has written
    /// them, the API server refuses every create request that uses the resource.
    #[must_use]
    pub fn knows_usage_of(&self, amounts: &Amounts) -> bool {
        amounts.keys().all(|name| self.used.contains_key(name))
    }

    fn applies_to(&self, request: &CreateRequest) -> bool {
        match &request.pod_traits {
            Some(pod) => self.scopes.iter().all(|scope| scope.matches(pod)),
            // Scopes select pods, so a quota with scopes never applies to other objects.
            None => self.scopes.is_empty(),
        }
    }
}

impl Scope {
    fn matches(&self, pod: &PodTraits) -> bool {
        match self.name.as_str() {
            "Terminating" => pod.has_deadline,
            "NotTerminating" => !pod.has_deadline,
            "BestEffort" => pod.best_effort,
            "NotBestEffort" => !pod.best_effort,
            "CrossNamespacePodAffinity" => pod.cross_namespace_affinity,
            "PriorityClass" => {
                let class = pod.priority_class.as_deref();
                let is_listed = class.is_some_and(|class| self.values.iter().any(|value| value == class));
                match self.operator.as_str() {
                    "In" => is_listed,
                    "NotIn" => !is_listed,
                    "DoesNotExist" => class.is_none(),
                    _ => class.is_some(),
                }
            }
            // A scope of a newer Kubernetes version. If it does match the pod, the API server refuses the create request,
            // and the action waits after that refusal.
            _ => false,
        }
    }
}

fn scopes_of(object: &ResourceQuota) -> Vec<Scope> {
    let Some(spec) = &object.spec else { return Vec::new() };
    let named = spec.scopes.iter().flatten().map(|name| Scope {
        name: name.clone(),
        operator: "Exists".to_owned(),
        values: Vec::new(),
    });
    let selector = spec.scope_selector.as_ref().and_then(|selector| selector.match_expressions.as_ref());
    let selected = selector.into_iter().flatten().map(|term| Scope {
        name: term.scope_name.clone(),
        operator: term.operator.clone(),
        values: term.values.clone().unwrap_or_default(),
    });
    named.chain(selected).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

    use aileron_machinery::ResourceKind;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::amounts::of;

    fn quota(spec: Value) -> Quota {
        let object = json!({"metadata": {"name": "q", "resourceVersion": "7"}, "spec": spec,
            "status": {"hard": {"pods": "2", "requests.cpu": "1"}, "used": {"pods": "1"}}});
        Quota::of(&serde_json::from_value(object).unwrap())
    }

    fn request(pod_traits: Option<PodTraits>) -> CreateRequest {
        CreateRequest {
            kind: ResourceKind::of::<Pod>(),
            amounts: of(&[("pods", "1"), ("limits.cpu", "1")]),
            pod_traits,
        }
    }

    #[test]
    fn a_request_uses_only_the_resources_that_the_quota_limits() {
        let quota = quota(json!({}));
        assert_eq!((quota.resource_version, quota.remaining()), (7, of(&[("pods", "1"), ("requests.cpu", "1")])));
        assert_eq!(quota.usage_of(&request(Some(PodTraits::default()))), of(&[("pods", "1")]));
        assert!(quota.knows_usage_of(&of(&[("pods", "1")])) && !quota.knows_usage_of(&of(&[("requests.cpu", "1")])));
    }

    #[test]
    fn scopes_decide_to_which_pods_a_quota_applies() {
        let applies = |spec: Value, pod: PodTraits| quota(spec).applies_to(&request(Some(pod)));
        let high = || PodTraits { priority_class: Some("high".into()), ..PodTraits::default() };
        let class = |operator: &str| {
            json!({"scopeSelector": {"matchExpressions":
                [{"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}]}})
        };
        assert!(applies(class("In"), high()) && !applies(class("In"), PodTraits::default()));
        assert!(!applies(class("NotIn"), high()) && applies(class("NotIn"), PodTraits::default()));
        assert!(applies(class("Exists"), high()) && !applies(class("DoesNotExist"), high()));
        let both = json!({"scopes": ["Terminating", "NotBestEffort"]});
        assert!(applies(both.clone(), PodTraits { has_deadline: true, ..PodTraits::default() }));
        assert!(!applies(both.clone(), PodTraits::default()));
        assert!(!applies(both, PodTraits { has_deadline: true, best_effort: true, ..PodTraits::default() }));
        assert!(
            !quota(json!({"scopes": ["NotTerminating"]})).applies_to(&request(None))
                && quota(json!({})).applies_to(&request(None))
        );
    }
}
