//! Decides whether a pod fits on the node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::affinity;
use crate::node::resources::{self, Amounts};

/// What the scheduler knows about the node.
#[derive(Clone, Debug)]
pub(crate) struct SchedulableNode {
    pub labels: BTreeMap<String, String>,
    pub name: String,
    pub allocatable: Amounts,
}

/// Why a pod does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unschedulable {
    reasons: Vec<String>,
    /// Whether the pod would fit on the empty node.
    fits_empty_node: bool,
}

impl SchedulableNode {
    /// Whether the pod fits beside the assigned pods: `pods` is their number, `used` the sum of their requests.
    ///
    /// The checks are in the order of kube-scheduler, which reports the first check that fails.
    pub(crate) fn check(&self, pod: &Pod, used: &Amounts, pods: usize) -> Result<(), Unschedulable> {
        if !affinity::matches(pod, &self.name, &self.labels) {
            let reasons = vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
            return Err(Unschedulable { reasons, fits_empty_node: false });
        }
        let mut unschedulable = Unschedulable { reasons: Vec::new(), fits_empty_node: true };
        let max_pods = self.allocatable.get("pods").map_or(0, |amount| usize::try_from(amount.value()).unwrap_or(0));
        if pods >= max_pods {
            unschedulable.reasons.push("Too many pods".to_owned());
        }
        for (name, wanted) in resources::pod_requests(pod) {
            if wanted.signum() <= 0 || name == "pods" {
                continue;
            }
            let allocatable = self.allocatable.get(&name).cloned().unwrap_or_default();
            let free = used.get(&name).map_or_else(|| allocatable.clone(), |used| allocatable.minus(used));
            if wanted > free {
                unschedulable.reasons.push(format!("Insufficient {name}"));
                unschedulable.fits_empty_node &= wanted <= allocatable;
            }
        }
        if unschedulable.reasons.is_empty() { Ok(()) } else { Err(unschedulable) }
    }
}

impl Unschedulable {
    /// The text of kube-scheduler in a cluster with one node.
    pub(crate) fn message(&self) -> String {
        let mut reasons: Vec<_> = self.reasons.iter().map(|reason| format!("1 {reason}")).collect();
        reasons.sort();
        let preemption = if self.fits_empty_node {
            "No preemption victims found for incoming pod"
        } else {
            "Preemption is not helpful for scheduling"
        };
        let reasons = reasons.join(", ");
        format!("0/1 nodes are available: {reasons}. preemption: 0/1 nodes are available: 1 {preemption}.")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn amounts(of: &[(&str, &str)]) -> Amounts {
        of.iter().map(|(name, amount)| ((*name).to_owned(), amount.parse().unwrap())).collect()
    }

    fn node() -> SchedulableNode {
        let allocatable = amounts(&[("cpu", "2"), ("memory", "1Gi"), ("pods", "3"), ("nvidia.com/gpu", "1")]);
        let labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
        SchedulableNode { labels, name: "n".to_owned(), allocatable }
    }

    fn pod(requests: &[(&str, &str)]) -> Pod {
        let requests: BTreeMap<_, _> = requests.iter().copied().collect();
        let containers = [json!({"name": "c", "resources": {"requests": requests}})];
        serde_json::from_value(json!({"metadata": {}, "spec": {"containers": containers}})).unwrap()
    }

    #[test]
    fn a_pod_fits_while_every_resource_is_sufficient() {
        assert_eq!(node().check(&pod(&[("cpu", "2"), ("memory", "1Gi")]), &Amounts::new(), 0), Ok(()));
        assert_eq!(node().check(&pod(&[("cpu", "500m")]), &amounts(&[("cpu", "1500m")]), 1), Ok(()));
        assert_eq!(node().check(&pod(&[]), &amounts(&[("cpu", "2")]), 2), Ok(()));
    }

    #[test]
    fn a_resource_that_other_pods_use_may_become_free() {
        let unschedulable = node().check(&pod(&[("nvidia.com/gpu", "1")]), &amounts(&[("nvidia.com/gpu", "1")]), 1);
        assert_eq!(
            unschedulable.unwrap_err().message(),
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: \
             1 No preemption victims found for incoming pod."
        );
    }

    #[test]
    fn preemption_does_not_help_if_the_node_lacks_the_resource() {
        let unschedulable = node().check(&pod(&[("amd.com/gpu", "1"), ("cpu", "3")]), &Amounts::new(), 0);
        assert_eq!(
            unschedulable.unwrap_err().message(),
            "0/1 nodes are available: 1 Insufficient amd.com/gpu, 1 Insufficient cpu. preemption: 0/1 nodes are \
             available: 1 Preemption is not helpful for scheduling."
        );
    }

    #[test]
    fn the_number_of_pods_and_the_node_selector_are_checked() {
        let full = node().check(&pod(&[]), &Amounts::new(), 3).unwrap_err().message();
        assert!(full.starts_with("0/1 nodes are available: 1 Too many pods. preemption"), "{full}");
        let mut choosy = pod(&[("cpu", "9")]);
        choosy.spec.as_mut().unwrap().node_selector = Some(BTreeMap::from([("disk".to_owned(), "tape".to_owned())]));
        let message = node().check(&choosy, &Amounts::new(), 0).unwrap_err().message();
        let expected = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption";
        assert!(message.starts_with(expected), "{message}");
    }
}
