//! Rules for pods: defaults, validation, allowed changes, grace period, binding.

use aileron_kubekit::names::label_problems;
use aileron_kubekit::quantity::Quantity;
use serde_json::{Value, json};

use crate::errors::Cause;
use crate::object::set;

/// The text of kube-apiserver for a change that is not allowed.
const ALLOWED_CHANGES: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
     `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
     tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Sets what admission plugins of kube-apiserver set on every new pod: tolerations for unreachable nodes, priority,
/// quality of service and the phase `Pending`.
pub(crate) fn prepare_new(pod: &mut Value) {
    let spec = &mut pod["spec"];
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|one| {
            let matches_key = one["key"] == key || one["key"].as_str().unwrap_or_default().is_empty();
            matches_key && (one["effect"] == "NoExecute" || one["effect"].as_str().unwrap_or_default().is_empty())
        });
        if !tolerated {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    spec["tolerations"] = tolerations.into();
    if spec["priority"].is_null() {
        spec["priority"] = 0.into();
    }
    if spec["preemptionPolicy"].is_null() {
        spec["preemptionPolicy"] = "PreemptLowerPriority".into();
    }
    let qos = qos_class(pod);
    set(pod, "status", json!({"phase": "Pending", "qosClass": qos}));
}

fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    pod["spec"][list].as_array().into_iter().flatten()
}

/// The quality-of-service class.
fn qos_class(pod: &Value) -> &'static str {
    let (mut any, mut all) = (false, true);
    for container in containers(pod, "containers").chain(containers(pod, "initContainers")) {
        let resources = &container["resources"];
        for name in ["cpu", "memory"] {
            let (request, limit) = (&resources["requests"][name], &resources["limits"][name]);
            any |= request.is_string() || limit.is_string();
            all &= limit.is_string() && request == limit;
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Validation errors of a new pod.
pub(crate) fn problems(pod: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut volumes = Vec::new();
    for (index, volume) in pod["spec"]["volumes"].as_array().into_iter().flatten().enumerate() {
        let (known, found) = (volumes.len(), causes.len());
        check_name(volume, &format!("spec.volumes[{index}]"), &mut volumes, &mut causes);
        if causes.len() > found {
            // As in kube-apiserver, a mount cannot refer to an invalid volume.
            volumes.truncate(known);
        }
    }
    if containers(pod, "containers").next().is_none() {
        causes.push(Cause::required("spec.containers", ""));
    }
    let mut names = Vec::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in containers(pod, list).enumerate() {
            let path = format!("spec.{list}[{index}]");
            check_name(container, &path, &mut names, &mut causes);
            if container["image"].as_str().unwrap_or_default().is_empty() {
                causes.push(Cause::required(format!("{path}.image"), ""));
            }
            causes.extend(mount_problems(&container["volumeMounts"], &volumes, &path));
            causes.extend(resource_problems(&container["resources"], &path));
        }
    }
    let policies = ["Always", "OnFailure", "Never"];
    let policy = &pod["spec"]["restartPolicy"];
    if !policies.iter().any(|known| policy == known) {
        causes.push(Cause::unsupported("spec.restartPolicy", policy, &policies.map(Value::from)));
    }
    causes
}

/// Checks the name of a container or volume: a DNS label that no earlier one in `names` has. Nodes use these names as
/// names of files.
fn check_name<'a>(named: &'a Value, path: &str, names: &mut Vec<&'a str>, causes: &mut Vec<Cause>) {
    let name = named["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return causes.push(Cause::required(format!("{path}.name"), ""));
    }
    let value = Value::from(name);
    for problem in label_problems(name) {
        causes.push(Cause::invalid(format!("{path}.name"), &value, &problem.to_string()));
    }
    if names.contains(&name) {
        causes.push(Cause::duplicate(format!("{path}.name"), &value));
    }
    names.push(name);
}

/// Validation errors of the volume mounts of a container. `volumes` are the names of the valid volumes of the pod.
fn mount_problems(mounts: &Value, volumes: &[&str], path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut paths = Vec::new();
    for (index, mount) in mounts.as_array().into_iter().flatten().enumerate() {
        let text = |field: &str| mount[field].as_str().unwrap_or_default();
        let field = |name: &str| format!("{path}.volumeMounts[{index}].{name}");
        let (name, mount_path) = (text("name"), text("mountPath"));
        if name.is_empty() {
            causes.push(Cause::required(field("name"), ""));
        }
        if !volumes.contains(&name) {
            causes.push(Cause::not_found(field("name"), &name.into()));
        }
        if mount_path.is_empty() {
            causes.push(Cause::required(field("mountPath"), ""));
        }
        if paths.contains(&mount_path) {
            causes.push(Cause::invalid(field("mountPath"), &mount_path.into(), "must be unique"));
        }
        paths.push(mount_path);
        let (sub_path, expression) = (text("subPath"), text("subPathExpr"));
        if !sub_path.is_empty() && !expression.is_empty() {
            let both = "subPathExpr and subPath are mutually exclusive";
            causes.push(Cause::invalid(field("subPathExpr"), &expression.into(), both));
        }
        for (name, given) in [("subPath", sub_path), ("subPathExpr", expression)] {
            // kube-apiserver leaves out the index here.
            let field = format!("{path}.volumeMounts.{name}");
            if given.starts_with('/') {
                causes.push(Cause::invalid(field.clone(), &given.into(), "must be a relative path"));
            }
            if given.split('/').any(|part| part == "..") {
                causes.push(Cause::invalid(field, &given.into(), "must not contain '..'"));
            }
        }
    }
    causes
}

fn resource_problems(resources: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let (Some(request), limit) = (amount(request), amount(&resources["limits"][name])) else { continue };
        if request.signum() < 0 {
            let field = format!("{path}.resources.requests[{name}]");
            causes.push(Cause::invalid(field, &request.to_string().into(), "must be greater than or equal to 0"));
        }
        if let Some(limit) = limit.filter(|limit| request > *limit) {
            let text = format!("must be less than or equal to {name} limit of {limit}");
            causes.push(Cause::invalid(format!("{path}.resources.requests"), &request.to_string().into(), &text));
        }
    }
    causes
}

/// Validation errors of a change from `current` to `pod`.
pub(crate) fn update_problems(pod: &Value, current: &Value) -> Vec<Cause> {
    let mut allowed = current["spec"].clone();
    let wanted = &pod["spec"];
    for list in ["containers", "initContainers"] {
        let (old, new) = (allowed[list].as_array().map_or(0, Vec::len), wanted[list].as_array().map_or(0, Vec::len));
        if old != new {
            return vec![Cause::forbidden(format!("spec.{list}"), "pod updates may not add or remove containers")];
        }
        for index in 0..old {
            allowed[list][index]["image"] = wanted[list][index]["image"].clone();
        }
    }
    let (old, new) = (&allowed["activeDeadlineSeconds"], &wanted["activeDeadlineSeconds"]);
    let shortened = match (old.as_i64(), new.as_i64()) {
        (None, Some(_)) => true,
        (Some(old), Some(new)) => new <= old,
        _ => false,
    };
    if shortened {
        allowed["activeDeadlineSeconds"] = new.clone();
    }
    let tolerations = |spec: &Value| spec["tolerations"].as_array().cloned().unwrap_or_default();
    let (old, new) = (tolerations(&allowed), tolerations(wanted));
    if old.iter().all(|one| new.contains(one)) && !new.is_empty() {
        allowed["tolerations"] = new.into();
    }
    if &allowed == wanted { Vec::new() } else { vec![Cause::forbidden("spec", ALLOWED_CHANGES)] }
}

/// The grace period of a deletion in seconds. Mirrors `CheckGracefulDelete` of the pod strategy.
pub(crate) fn grace(pod: &Value, requested: Option<i64>) -> i64 {
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let seconds = match requested.unwrap_or(own) {
        negative if negative < 0 => 1,
        seconds => seconds,
    };
    let unscheduled = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if unscheduled || ended { 0 } else { seconds }
}

/// Assigns a pod to a node. `None` if it is already assigned.
pub(crate) fn bind(pod: &mut Value, node: &str, now: &Value) -> Option<()> {
    if !pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        return None;
    }
    pod["spec"]["nodeName"] = node.into();
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions: Vec<_> = conditions.into_iter().filter(|one| one["type"] != "PodScheduled").collect();
    conditions
        .push(json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}));
    pod["status"]["conditions"] = conditions.into();
    Some(())
}
