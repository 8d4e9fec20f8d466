//! A ResourceQuota as the gate sees it: what is allowed, what is taken, and whom it means.

pub mod message;

use k8s_openapi::api::core::v1::ResourceQuota;

use crate::amounts::{self, Amounts};
use crate::request::{PodTraits, Request};

/// A quota of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Its name.
    pub name: String,
    /// The version of the object that this was read from.
    pub version: u64,
    /// What may be taken. From the status, by which the server decides.
    pub hard: Amounts,
    /// What is taken.
    pub used: Amounts,
    scopes: Vec<Scope>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

impl Quota {
    /// Reads an object.
    #[must_use]
    pub fn of(object: &ResourceQuota) -> Self {
        let metadata = &object.metadata;
        let spec = object.spec.as_ref();
        let plain = spec.and_then(|spec| spec.scopes.as_ref()).into_iter().flatten();
        let mut scopes: Vec<_> =
            plain.map(|name| Scope { name: name.clone(), operator: "Exists".to_owned(), values: Vec::new() }).collect();
        let selected = spec.and_then(|spec| spec.scope_selector.as_ref()?.match_expressions.as_ref());
        scopes.extend(selected.into_iter().flatten().map(|term| Scope {
            name: term.scope_name.clone(),
            operator: term.operator.clone(),
            values: term.values.clone().unwrap_or_default(),
        }));
        let status = object.status.as_ref();
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            version: metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default(),
            hard: amounts::read(status.and_then(|status| status.hard.as_ref())),
            used: amounts::read(status.and_then(|status| status.used.as_ref())),
            scopes,
        }
    }

    /// A quota without scopes.
    #[cfg(test)]
    pub(super) fn plain(name: &str, version: u64, hard: Amounts, used: Amounts) -> Self {
        Self { name: name.to_owned(), version, hard, used, scopes: Vec::new() }
    }

    /// What a request takes of this quota; nothing if the quota does not mean it.
    #[must_use]
    pub fn share(&self, request: &Request) -> Amounts {
        if !self.means(request) {
            return Amounts::new();
        }
        let limited = request.amounts.iter().filter(|(name, _)| self.hard.contains_key(*name));
        limited.map(|(name, amount)| (name.clone(), amount.clone())).collect()
    }

    /// What is not taken yet; less than nothing if the quota was lowered meanwhile.
    #[must_use]
    pub fn left(&self) -> Amounts {
        let mut left = self.hard.clone();
        amounts::take(&mut left, &self.used);
        left
    }

    /// It means only some objects.
    #[must_use]
    pub fn has_scopes(&self) -> bool {
        !self.scopes.is_empty()
    }

    /// The server does not know yet how much of these is taken, and takes nothing in until it does.
    #[must_use]
    pub fn is_uncounted(&self, share: &Amounts) -> bool {
        share.keys().any(|name| !self.used.contains_key(name))
    }

    fn means(&self, request: &Request) -> bool {
        match &request.traits {
            Some(pod) => self.scopes.iter().all(|scope| scope.means(pod)),
            // Scopes are about pods, so a quota with scopes never means anything else.
            None => self.scopes.is_empty(),
        }
    }
}

impl Scope {
    fn means(&self, pod: &PodTraits) -> bool {
        match self.name.as_str() {
            "Terminating" => pod.terminating,
            "NotTerminating" => !pod.terminating,
            "BestEffort" => pod.best_effort,
            "NotBestEffort" => !pod.best_effort,
            "CrossNamespacePodAffinity" => pod.cross_namespace_affinity,
            "PriorityClass" => {
                let class = pod.priority_class.as_deref();
                let listed = class.is_some_and(|class| self.values.iter().any(|value| value == class));
                match self.operator.as_str() {
                    "In" => listed,
                    "NotIn" => !listed,
                    "DoesNotExist" => class.is_none(),
                    _ => class.is_some(),
                }
            }
            // A scope of a later Kubernetes. If it means the pod after all, the server refuses, which is waited for too.
            _ => false,
        }
    }
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

    fn request(traits: Option<PodTraits>) -> Request {
        Request { kind: ResourceKind::of::<Pod>(), amounts: of(&[("pods", "1"), ("limits.cpu", "1")]), traits }
    }

    #[test]
    fn only_what_is_limited_is_taken() {
        let quota = quota(json!({}));
        assert_eq!((quota.version, quota.left()), (7, of(&[("pods", "1"), ("requests.cpu", "1")])));
        assert_eq!(quota.share(&request(Some(PodTraits::default()))), of(&[("pods", "1")]));
        assert!(!quota.is_uncounted(&of(&[("pods", "1")])) && quota.is_uncounted(&of(&[("requests.cpu", "1")])));
    }

    #[test]
    fn scopes_decide_whom_a_quota_means() {
        let means = |spec: Value, pod: PodTraits| quota(spec).means(&request(Some(pod)));
        let high = || PodTraits { priority_class: Some("high".into()), ..PodTraits::default() };
        let class = |operator: &str| {
            json!({"scopeSelector": {"matchExpressions":
                [{"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}]}})
        };
        assert!(means(class("In"), high()) && !means(class("In"), PodTraits::default()));
        assert!(!means(class("NotIn"), high()) && means(class("NotIn"), PodTraits::default()));
        assert!(means(class("Exists"), high()) && !means(class("DoesNotExist"), high()));
        let both = json!({"scopes": ["Terminating", "NotBestEffort"]});
        assert!(means(both.clone(), PodTraits { terminating: true, ..PodTraits::default() }));
        assert!(!means(both.clone(), PodTraits::default()));
        assert!(!means(both, PodTraits { terminating: true, best_effort: true, ..PodTraits::default() }));
        assert!(
            !quota(json!({"scopes": ["NotTerminating"]})).means(&request(None))
                && quota(json!({})).means(&request(None))
        );
    }
}
