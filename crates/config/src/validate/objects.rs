//! Values of `plugins.k8s` that become parts of objects and that the API server would refuse: labels, annotations, node
//! selectors, tolerations. A task cannot run with such a value, so it is a mistake of the configuration.
//!
//! Only what the validation of Kubernetes refuses is refused here.

use std::collections::BTreeMap;

use aileron_kubekit::names::{NameProblem, label_key_problems, label_value_problems};
use aileron_machinery::config::K8sConfig;
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, Toleration};

use super::Problems;

/// The effects of a taint.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// The pull policies of an image. Empty means the default of Kubernetes.
const PULL_POLICIES: [&str; 4] = ["", "Always", "IfNotPresent", "Never"];

impl Problems {
    /// Checks the section `plugins.k8s`.
    ///
    /// # Differs from upstream
    ///
    /// The executor does not start with labels, annotations, node selectors or tolerations that the API server refuses.
    /// Upstream starts, and the API server refuses the object of every task.
    pub(super) fn check_objects(&mut self, k8s: &K8sConfig) {
        self.below("plugins", |it| it.below("k8s", |it| it.check_k8s(k8s)));
    }

    fn check_k8s(&mut self, k8s: &K8sConfig) {
        self.labels("default-labels", &k8s.default_labels);
        self.labels("default-node-selector", &k8s.default_node_selector);
        self.labels("interruptible-node-selector", &k8s.interruptible_node_selector);
        self.below("default-annotations", |it| {
            for key in k8s.default_annotations.keys() {
                // The API server compares the key of an annotation in lower case.
                it.names(key, "a key", &label_key_problems(&key.to_lowercase()));
            }
        });
        self.tolerations("default-tolerations", &k8s.default_tolerations);
        self.tolerations("interruptible-tolerations", &k8s.interruptible_tolerations);
        self.below("resource-tolerations", |it| {
            for (resource, tolerations) in &k8s.resource_tolerations {
                it.tolerations(resource, tolerations);
            }
        });
        self.optional_toleration("gpu-unpartitioned-toleration", k8s.gpu_unpartitioned_toleration.as_ref());
        for (key, requirement) in [
            ("interruptible-node-selector-requirement", &k8s.interruptible_node_selector_requirement),
            ("non-interruptible-node-selector-requirement", &k8s.non_interruptible_node_selector_requirement),
            ("gpu-unpartitioned-node-selector-requirement", &k8s.gpu_unpartitioned_node_selector_requirement),
        ] {
            self.requirement(key, requirement.as_ref());
        }
        for (key, label) in [
            ("gpu-device-node-label", &k8s.gpu_device_node_label),
            ("gpu-partition-size-node-label", &k8s.gpu_partition_size_node_label),
        ] {
            self.node_label(key, label);
        }
        self.below("accelerator-device-classes", |it| {
            for (name, class) in &k8s.accelerator_device_classes {
                it.below(name, |it| {
                    it.node_label("device-node-label", &class.device_node_label);
                    it.node_label("partition-size-node-label", &class.partition_size_node_label);
                    it.optional_toleration("unpartitioned-toleration", class.unpartitioned_toleration.as_ref());
                    let requirement = class.unpartitioned_node_selector_requirement.as_ref();
                    it.requirement("unpartitioned-node-selector-requirement", requirement);
                });
            }
        });
        if !PULL_POLICIES.contains(&k8s.image_pull_policy.as_str()) {
            let message = format!("{:?} is unknown; use Always, IfNotPresent or Never", k8s.image_pull_policy);
            self.reject("image-pull-policy", message);
        }
    }

    /// A map of labels: keys and values.
    fn labels(&mut self, key: &str, labels: &BTreeMap<String, String>) {
        self.below(key, |it| {
            for (name, value) in labels {
                it.names(name, "a key", &label_key_problems(name));
                it.names(name, "a value", &label_value_problems(value));
            }
        });
    }

    fn node_label(&mut self, key: &str, label: &str) {
        if !label.is_empty() {
            self.names(key, "a label", &label_key_problems(label));
        }
    }

    fn names(&mut self, key: &str, what: &str, problems: &[NameProblem]) {
        if let Some(problem) = problems.first() {
            self.reject(key, format!("Kubernetes does not allow such {what}: {problem}"));
        }
    }

    fn tolerations(&mut self, key: &str, tolerations: &[Toleration]) {
        self.below(key, |it| {
            for (index, toleration) in tolerations.iter().enumerate() {
                it.optional_toleration(&index.to_string(), Some(toleration));
            }
        });
    }

    fn optional_toleration(&mut self, key: &str, toleration: Option<&Toleration>) {
        if let Some(problem) = toleration.and_then(toleration_problem) {
            self.reject(key, problem);
        }
    }

    fn requirement(&mut self, key: &str, requirement: Option<&NodeSelectorRequirement>) {
        if let Some(problem) = requirement.and_then(requirement_problem) {
            self.reject(key, problem);
        }
    }
}

/// Why Kubernetes would refuse a toleration. Operators that only some versions know are accepted.
fn toleration_problem(toleration: &Toleration) -> Option<String> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (key, operator, value) = (text(&toleration.key), text(&toleration.operator), text(&toleration.value));
    let effect = text(&toleration.effect);
    if !key.is_empty()
        && let Some(problem) = label_key_problems(&key).first()
    {
        return Some(format!("key {key:?} is not allowed: {problem}"));
    }
    if key.is_empty() && operator != "Exists" {
        return Some("a toleration without a key needs the operator Exists".into());
    }
    if operator == "Exists" && !value.is_empty() {
        return Some("the operator Exists takes no value; remove the value, or use Equal".into());
    }
    if let Some(problem) = label_value_problems(&value).first() {
        return Some(format!("value {value:?} is not allowed: {problem}"));
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect.as_str()) {
        return Some(format!("effect {effect:?} is unknown; use one of {}", EFFECTS.join(", ")));
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        return Some("tolerationSeconds needs the effect NoExecute".into());
    }
    None
}

/// Why Kubernetes would refuse a requirement.
fn requirement_problem(requirement: &NodeSelectorRequirement) -> Option<String> {
    if let Some(problem) = label_key_problems(&requirement.key).first() {
        return Some(format!("key {:?} is not allowed: {problem}", requirement.key));
    }
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => Some(format!("the operator {} needs values", requirement.operator)),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            Some(format!("the operator {} takes no values", requirement.operator))
        }
        "Gt" | "Lt" if values.len() != 1 => Some(format!("the operator {} needs one value", requirement.operator)),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => None,
        other => Some(format!("operator {other:?} is unknown; use In, NotIn, Exists, DoesNotExist, Gt or Lt")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn a_toleration_that_kubernetes_would_refuse_is_found() {
        let plain = Toleration { key: some("gpu"), ..Toleration::default() };
        for accepted in [
            plain.clone(),
            Toleration { operator: some("Exists"), ..Toleration::default() },
            Toleration { value: some("yes"), effect: some("NoSchedule"), ..plain.clone() },
            Toleration { toleration_seconds: Some(5), effect: some("NoExecute"), ..plain.clone() },
        ] {
            assert_eq!(toleration_problem(&accepted), None, "{accepted:?}");
        }
        for (refused, words) in [
            (Toleration::default(), "needs the operator Exists"),
            (Toleration { key: some("a b"), ..plain.clone() }, "key \"a b\" is not allowed"),
            (Toleration { operator: some("Exists"), value: some("x"), ..plain.clone() }, "takes no value"),
            (Toleration { value: some("a b"), ..plain.clone() }, "value \"a b\" is not allowed"),
            (Toleration { effect: some("noschedule"), ..plain.clone() }, "use one of NoSchedule"),
            (Toleration { toleration_seconds: Some(5), ..plain.clone() }, "needs the effect NoExecute"),
        ] {
            let problem = toleration_problem(&refused).unwrap_or_default();
            assert!(problem.contains(words), "{refused:?}: {problem}");
        }
    }

    #[test]
    fn the_values_of_a_requirement_depend_on_its_operator() {
        let problem = |operator: &str, values: &[&str]| {
            let values = Some(values.iter().map(ToString::to_string).collect());
            requirement_problem(&NodeSelectorRequirement { key: "pool".into(), operator: operator.into(), values })
        };
        assert_eq!(problem("In", &["a", "b"]), None);
        assert_eq!(problem("DoesNotExist", &[]), None);
        assert_eq!(problem("Gt", &["3"]), None);
        for (operator, values) in [("In", &[][..]), ("Exists", &["a"]), ("Lt", &["1", "2"]), ("in", &["a"])] {
            assert!(problem(operator, values).is_some(), "{operator} {values:?}");
        }
    }
}
