//! Whether a pod fits on the node, and in which words it does not.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::affinity;
use super::requests::{self, Amounts};

/// What the scheduler knows of the node.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub labels: BTreeMap<String, String>,
    pub name: String,
    pub allocatable: Amounts,
}

/// Why a pod does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    reasons: Vec<String>,
    /// Whether it would fit if nothing else were there.
    resolvable: bool,
}

impl Room {
    /// Whether the pod fits beside what is taken already, `pods` pods with `taken` together.
    ///
    /// Filters in the order of the real scheduler, whose first filter that refuses a node is the one that is heard.
    pub(crate) fn check(&self, pod: &Pod, taken: &Amounts, pods: usize) -> Result<(), Misfit> {
        if !affinity::matches(pod, &self.name, &self.labels) {
            let reasons = vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
            return Err(Misfit { reasons, resolvable: false });
        }
        let mut misfit = Misfit { reasons: Vec::new(), resolvable: true };
        let places = self.allocatable.get("pods").map_or(0, |amount| usize::try_from(amount.value()).unwrap_or(0));
        if pods >= places {
            misfit.reasons.push("Too many pods".to_owned());
        }
        for (name, wanted) in requests::effective(pod) {
            if wanted.signum() <= 0 || name == "pods" {
                continue;
            }
            let there = self.allocatable.get(&name).cloned().unwrap_or_default();
            let free = taken.get(&name).map_or_else(|| there.clone(), |taken| there.minus(taken));
            if wanted > free {
                misfit.reasons.push(format!("Insufficient {name}"));
                misfit.resolvable &= wanted <= there;
            }
        }
        if misfit.reasons.is_empty() { Ok(()) } else { Err(misfit) }
    }
}

impl Misfit {
    /// The sentence of the real scheduler in a cluster of one node.
    pub(crate) fn message(&self) -> String {
        let mut reasons: Vec<_> = self.reasons.iter().map(|reason| format!("1 {reason}")).collect();
        reasons.sort();
        let preemption = if self.resolvable {
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

    fn room() -> Room {
        let allocatable = amounts(&[("cpu", "2"), ("memory", "1Gi"), ("pods", "3"), ("nvidia.com/gpu", "1")]);
        let labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
        Room { labels, name: "n".to_owned(), allocatable }
    }

    fn pod(requests: &[(&str, &str)]) -> Pod {
        let requests: BTreeMap<_, _> = requests.iter().copied().collect();
        let containers = [json!({"name": "c", "resources": {"requests": requests}})];
        serde_json::from_value(json!({"metadata": {}, "spec": {"containers": containers}})).unwrap()
    }

    #[test]
    fn a_pod_fits_while_there_is_enough_of_everything() {
        assert_eq!(room().check(&pod(&[("cpu", "2"), ("memory", "1Gi")]), &Amounts::new(), 0), Ok(()));
        assert_eq!(room().check(&pod(&[("cpu", "500m")]), &amounts(&[("cpu", "1500m")]), 1), Ok(()));
        assert_eq!(room().check(&pod(&[]), &amounts(&[("cpu", "2")]), 2), Ok(()));
    }

    #[test]
    fn what_is_taken_may_be_freed() {
        let misfit = room().check(&pod(&[("nvidia.com/gpu", "1")]), &amounts(&[("nvidia.com/gpu", "1")]), 1);
        assert_eq!(
            misfit.unwrap_err().message(),
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: \
             1 No preemption victims found for incoming pod."
        );
    }

    #[test]
    fn what_the_node_never_had_will_not_come() {
        let misfit = room().check(&pod(&[("amd.com/gpu", "1"), ("cpu", "3")]), &Amounts::new(), 0);
        assert_eq!(
            misfit.unwrap_err().message(),
            "0/1 nodes are available: 1 Insufficient amd.com/gpu, 1 Insufficient cpu. preemption: 0/1 nodes are \
             available: 1 Preemption is not helpful for scheduling."
        );
    }

    #[test]
    fn pods_are_counted_and_nodes_selected() {
        let full = room().check(&pod(&[]), &Amounts::new(), 3).unwrap_err().message();
        assert!(full.starts_with("0/1 nodes are available: 1 Too many pods. preemption"), "{full}");
        let mut choosy = pod(&[("cpu", "9")]);
        choosy.spec.as_mut().unwrap().node_selector = Some(BTreeMap::from([("disk".to_owned(), "tape".to_owned())]));
        let message = room().check(&choosy, &Amounts::new(), 0).unwrap_err().message();
        let expected = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption";
        assert!(message.starts_with(expected), "{message}");
    }
}
