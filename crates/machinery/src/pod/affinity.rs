//! Where pods may be placed: node affinity and node selectors.

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, PreferredSchedulingTerm,
};

use super::fields::{collect, extend};
use super::tolerations::add_toleration;
use crate::config::K8sConfig;

/// Adds requirements that every node must meet.
///
/// A node must match one of the terms, and all requirements of that term. So each requirement is added to every term
/// that does not have it yet. Mirrors `flytek8s.AddRequiredNodeSelectorRequirements`.
///
/// ```
/// use aileron_machinery::k8s_openapi::api::core::v1::{Affinity, NodeSelectorRequirement};
/// use aileron_machinery::pod::affinity::add_required_requirements;
///
/// let ssd = NodeSelectorRequirement { key: "disk".into(), operator: "In".into(), values: Some(vec!["ssd".into()]) };
/// let mut affinity = Affinity::default();
/// add_required_requirements(&mut affinity, std::slice::from_ref(&ssd));
/// let required = affinity.node_affinity.unwrap().required_during_scheduling_ignored_during_execution.unwrap();
/// assert_eq!(required.node_selector_terms[0].match_expressions, Some(vec![ssd]));
/// ```
pub fn add_required_requirements(affinity: &mut Affinity, requirements: &[NodeSelectorRequirement]) {
    let node_affinity = affinity.node_affinity.get_or_insert_default();
    let selector = node_affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
    if selector.node_selector_terms.is_empty() {
        selector.node_selector_terms.push(term(requirements));
        return;
    }
    for term in &mut selector.node_selector_terms {
        for requirement in requirements {
            if !term.match_expressions.iter().flatten().any(|other| same(other, requirement)) {
                term.match_expressions.get_or_insert_default().push(requirement.clone());
            }
        }
    }
}

/// Adds a preference for nodes that meet the requirements. Mirrors `flytek8s.AddPreferredNodeSelectorRequirements`.
///
/// ```
/// use aileron_machinery::k8s_openapi::api::core::v1::{Affinity, NodeSelectorRequirement};
/// use aileron_machinery::pod::affinity::add_preferred_requirements;
///
/// let ssd = NodeSelectorRequirement { key: "ssd".into(), operator: "Exists".into(), values: None };
/// let mut affinity = Affinity::default();
/// add_preferred_requirements(&mut affinity, 10, &[ssd]);
/// let preferred = affinity.node_affinity.unwrap().preferred_during_scheduling_ignored_during_execution.unwrap();
/// assert_eq!(preferred[0].weight, 10);
/// ```
pub fn add_preferred_requirements(affinity: &mut Affinity, weight: i32, requirements: &[NodeSelectorRequirement]) {
    let node_affinity = affinity.node_affinity.get_or_insert_default();
    node_affinity
        .preferred_during_scheduling_ignored_during_execution
        .get_or_insert_default()
        .push(PreferredSchedulingTerm { weight, preference: term(requirements) });
}

/// Adds the configured requirement for interruptible pods, or the one for all others. Mirrors
/// `flytek8s.ApplyInterruptibleNodeAffinity`.
///
/// ```
/// use aileron_machinery::config::K8sConfig;
/// use aileron_machinery::k8s_openapi::api::core::v1::{NodeSelectorRequirement, PodSpec};
/// use aileron_machinery::pod::affinity::apply_interruptible_node_affinity;
///
/// let spot = NodeSelectorRequirement { key: "spot".into(), operator: "Exists".into(), values: None };
/// let config = K8sConfig { interruptible_node_selector_requirement: Some(spot), ..K8sConfig::default() };
/// let mut spec = PodSpec::default();
/// apply_interruptible_node_affinity(&mut spec, false, &config);
/// assert_eq!(spec.affinity, None);
/// apply_interruptible_node_affinity(&mut spec, true, &config);
/// assert!(spec.affinity.is_some());
/// ```
pub fn apply_interruptible_node_affinity(spec: &mut PodSpec, interruptible: bool, config: &K8sConfig) {
    let requirement = if interruptible {
        &config.interruptible_node_selector_requirement
    } else {
        &config.non_interruptible_node_selector_requirement
    };
    if let Some(requirement) = requirement {
        add_required_requirements(spec.affinity.get_or_insert_default(), std::slice::from_ref(requirement));
    }
}

/// Adds the platform's constraints again after a custom pod spec was merged into a pod: the merge may have added terms
/// without these constraints. A pod that has them in all terms does not change.
///
/// Mirrors `flytek8s.ApplyPlatformSchedulingConstraints`.
///
/// ```
/// use aileron_machinery::config::K8sConfig;
/// use aileron_machinery::k8s_openapi::api::core::v1::{PodSpec, Toleration};
/// use aileron_machinery::pod::affinity::apply_platform_scheduling_constraints;
///
/// let spot = Toleration { key: Some("spot".into()), ..Toleration::default() };
/// let config = K8sConfig { interruptible_tolerations: vec![spot.clone()], ..K8sConfig::default() };
/// // A pod spec of the user that was merged into the pod of the task.
/// let mut spec = PodSpec::default();
/// apply_platform_scheduling_constraints(&mut spec, true, &config);
/// assert_eq!(spec.tolerations, Some(vec![spot]));
/// ```
pub fn apply_platform_scheduling_constraints(spec: &mut PodSpec, interruptible: bool, config: &K8sConfig) {
    let required = config
        .default_affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    for term in required.iter().flat_map(|selector| &selector.node_selector_terms) {
        let affinity = spec.affinity.get_or_insert_default();
        add_required_requirements(affinity, term.match_expressions.as_deref().unwrap_or_default());
    }
    apply_interruptible_node_affinity(spec, interruptible, config);
    if interruptible {
        apply_interruptible_node_selector(spec, config);
        for toleration in &config.interruptible_tolerations {
            add_toleration(spec, toleration.clone());
        }
    }
}

/// Adds the node selector for interruptible pods. Its entries win over those of the pod.
pub(super) fn apply_interruptible_node_selector(spec: &mut PodSpec, config: &K8sConfig) {
    extend(&mut spec.node_selector, config.interruptible_node_selector.clone());
}

fn term(requirements: &[NodeSelectorRequirement]) -> NodeSelectorTerm {
    NodeSelectorTerm { match_expressions: collect(requirements.iter().cloned()), match_fields: None }
}

/// Whether two requirements are equal. An absent list of values equals an empty one.
fn same(one: &NodeSelectorRequirement, other: &NodeSelectorRequirement) -> bool {
    let values = |requirement: &NodeSelectorRequirement| requirement.values.clone().unwrap_or_default();
    one.key == other.key && one.operator == other.operator && values(one) == values(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str) -> NodeSelectorRequirement {
        NodeSelectorRequirement { key: key.into(), operator: "Exists".into(), values: None }
    }

    fn keys(affinity: &Affinity) -> Vec<Vec<String>> {
        let node = affinity.node_affinity.clone().unwrap_or_default();
        let selector = node.required_during_scheduling_ignored_during_execution.unwrap_or_default();
        let keys = |term: NodeSelectorTerm| term.match_expressions.unwrap_or_default().into_iter().map(|r| r.key);
        selector.node_selector_terms.into_iter().map(|term| keys(term).collect()).collect()
    }

    #[test]
    fn a_requirement_goes_into_every_alternative_once() {
        let mut affinity = Affinity::default();
        add_required_requirements(&mut affinity, &[requirement("a")]);
        let node = affinity.node_affinity.get_or_insert_default();
        let selector = node.required_during_scheduling_ignored_during_execution.get_or_insert_default();
        selector.node_selector_terms.push(term(&[requirement("b")]));
        add_required_requirements(&mut affinity, &[requirement("a"), requirement("c")]);
        add_required_requirements(&mut affinity, &[requirement("c")]);
        assert_eq!(keys(&affinity), [vec!["a", "c"], vec!["b", "a", "c"]]);
    }

    #[test]
    fn the_platforms_constraints_cover_merged_alternatives_and_are_applied_once() {
        let mut default_affinity = Affinity::default();
        add_required_requirements(&mut default_affinity, &[requirement("pool")]);
        let config = K8sConfig {
            default_affinity: Some(default_affinity.clone()),
            interruptible_node_selector_requirement: Some(requirement("spot")),
            interruptible_tolerations: vec![Default::default()],
            ..Default::default()
        };
        let mut affinity = default_affinity;
        let node = affinity.node_affinity.get_or_insert_default();
        let selector = node.required_during_scheduling_ignored_during_execution.get_or_insert_default();
        selector.node_selector_terms.push(term(&[requirement("custom")]));
        let mut spec = PodSpec { affinity: Some(affinity), ..Default::default() };

        apply_platform_scheduling_constraints(&mut spec, true, &config);
        let affinity = spec.affinity.clone().unwrap_or_default();
        assert_eq!(keys(&affinity), [vec!["pool", "spot"], vec!["custom", "pool", "spot"]]);
        let once = spec.clone();
        apply_platform_scheduling_constraints(&mut spec, true, &config);
        assert_eq!(spec, once);
    }
}
