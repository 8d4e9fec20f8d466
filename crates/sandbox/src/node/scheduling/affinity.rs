//! Node selectors and required node affinity of pods.

use std::collections::BTreeMap;

use aileron_kubekit::selector::{LabelSelector, Operator, Requirement};
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Pod};

/// Whether the node selector and the required node affinity of a pod match the node.
pub(crate) fn matches(pod: &Pod, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let selector = spec.node_selector.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    if !LabelSelector::from_labels(selector).matches(labels) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| term_matches(term, name, labels)))
}

/// Whether all requirements of a term hold. A term without requirements matches no node.
fn term_matches(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let by_labels = term.match_expressions.as_deref().unwrap_or_default();
    let by_fields = term.match_fields.as_deref().unwrap_or_default();
    let fields = BTreeMap::from([("metadata.name".to_owned(), name.to_owned())]);
    !(by_labels.is_empty() && by_fields.is_empty())
        && by_labels.iter().all(|requirement| holds(requirement, labels))
        && by_fields.iter().all(|requirement| holds(requirement, &fields))
}

fn holds(requirement: &NodeSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let set = || values.iter().cloned().collect();
    let operator = match requirement.operator.as_str() {
        "In" => Operator::In(set()),
        "NotIn" => Operator::NotIn(set()),
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        order @ ("Gt" | "Lt") => {
            let number = |text: Option<&String>| text.and_then(|text| text.parse::<i64>().ok());
            let (Some(own), Some(bound)) = (number(labels.get(&requirement.key)), number(values.first())) else {
                return false;
            };
            return if order == "Gt" { own > bound } else { own < bound };
        }
        _ => return false,
    };
    LabelSelector::new([Requirement { key: requirement.key.clone(), operator }]).matches(labels)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn is_accepted(terms: &Value) -> bool {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let spec = json!({"containers": [], "affinity": {"nodeAffinity": required}});
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned()), ("cores".to_owned(), "8".to_owned())]);
        matches(&pod, "n", &labels)
    }

    fn rule(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"key": key, "operator": operator, "values": values})
    }

    #[test]
    fn all_requirements_of_one_term_must_hold() {
        let both = json!([{"matchExpressions": [rule("zone", "In", &["a"]), rule("cores", "Gt", &["4"])]}]);
        assert!(is_accepted(&both));
        let one = json!([{"matchExpressions": [rule("zone", "In", &["a"]), rule("cores", "Lt", &["4"])]}]);
        assert!(!is_accepted(&one));
        let either = json!([{"matchExpressions": [rule("zone", "NotIn", &["a"])]}, {"matchFields": [rule("metadata.name", "In", &["n"])]}]);
        assert!(is_accepted(&either));
        assert!(!is_accepted(&json!([{}])), "an empty term matches no node");
    }
}
