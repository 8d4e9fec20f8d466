//! Resource quotas: refuses a new object that would exceed a quota of its namespace.

use std::collections::BTreeMap;

use aileron_kubekit::quantity::{Format, Quantity};
use serde_json::Value;

use crate::errors::ApiError;
use crate::kinds::Kind;
use crate::object::amounts::{self, Amounts};
use crate::object::{Key, meta, set, strings};
use crate::state::ServerState;
use crate::store::Transaction;

/// Kinds that a quota may count by their plural name. All kinds can be counted as `count/<resource>`.
const COUNTED_BY_NAME: [&str; 6] =
    ["configmaps", "secrets", "services", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas"];
/// If a quota limits one of these resources, every container must set it.
const MUST_BE_SET: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// The usage of a quota including a new object.
pub(crate) struct NewUsage {
    key: Key,
    used: Amounts,
}

/// Checks a new object against the quotas of its namespace and returns the new usage of each quota.
///
/// Mirrors `CheckRequest` of the quota admission plugin.
pub(crate) fn check(transaction: &Transaction<'_>, kind: &Kind, object: &Value) -> Result<Vec<NewUsage>, ApiError> {
    let name = meta(object, "name");
    let refused = |text: String| ApiError::forbidden(kind, name, &text);
    let mut relevant = Vec::new();
    for stored in transaction.list("resourcequotas", meta(object, "namespace")) {
        let quota = stored.body();
        let hard = amounts::read(&quota["status"]["hard"]);
        let restricted: Vec<&str> = hard.keys().map(String::as_str).filter(|name| concerns(kind, name)).collect();
        if restricted.is_empty() || !in_scope(kind, object, &quota["spec"]) {
            continue;
        }
        let named = &stored.key.name;
        if kind.is("pods") {
            check_all_set(object, &restricted).map_err(|text| refused(format!("failed quota: {named}: {text}")))?;
        }
        let used = amounts::read(&quota["status"]["used"]);
        if !restricted.iter().all(|name| used.contains_key(*name)) {
            let list = restricted.join(",");
            return Err(refused(format!("status unknown for quota: {named}, resources: {list}")));
        }
        relevant.push((stored.key.clone(), hard, used));
    }
    let mut usage = usage(kind, object);
    usage.retain(|_, amount| !amount.is_zero());
    let mut new_usages = Vec::new();
    for (key, hard, mut used) in relevant {
        let mut requested = usage.clone();
        requested.retain(|name, _| hard.contains_key(name));
        let before = used.clone();
        amounts::add(&mut used, &requested);
        let over = |name: &&str| used.get(*name) > hard.get(*name);
        let exceeded: Vec<&str> = requested.keys().map(String::as_str).filter(over).collect();
        if !exceeded.is_empty() {
            return Err(refused(format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                key.name,
                amounts::pretty(&requested, &exceeded),
                amounts::pretty(&before, &exceeded),
                amounts::pretty(&hard, &exceeded)
            )));
        }
        if !requested.is_empty() {
            new_usages.push(NewUsage { key, used });
        }
    }
    Ok(new_usages)
}

/// Writes the new usage into the status of each quota.
pub(crate) fn write_usage(state: &ServerState, transaction: &mut Transaction<'_>, new_usages: Vec<NewUsage>) {
    for new in new_usages {
        update_status(state, transaction, &new.key, |status| set(status, "used", amounts::write(&new.used)));
    }
}

/// Changes the status of a quota, unless the change has no effect.
pub(crate) fn update_status(
    state: &ServerState,
    transaction: &mut Transaction<'_>,
    key: &Key,
    change: impl FnOnce(&mut Value),
) {
    let Some(kind) = state.registry.by_resource("resourcequotas") else { return };
    let Some(stored) = transaction.get("resourcequotas", key) else { return };
    let before = stored.body();
    let mut quota = before.clone();
    change(&mut quota["status"]);
    if quota != before {
        transaction.put(&kind, quota);
    }
}

/// Whether objects of this kind use the resource of a quota.
pub(crate) fn concerns(kind: &Kind, resource: &str) -> bool {
    if let Some(counted) = resource.strip_prefix("count/") {
        return counted == kind.qualified();
    }
    match &*kind.resource {
        "pods" => {
            let bare =
                resource.strip_prefix("requests.").or_else(|| resource.strip_prefix("limits.")).unwrap_or(resource);
            let native = ["cpu", "memory", "ephemeral-storage"].contains(&bare) || bare.starts_with("hugepages-");
            resource == "pods" || native || (resource.starts_with("requests.") && bare != "storage")
        }
        "persistentvolumeclaims" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        counted => COUNTED_BY_NAME.contains(&counted) && counted == resource,
    }
}

/// What an object uses of each resource.
pub(crate) fn usage(kind: &Kind, object: &Value) -> Amounts {
    let one = || Quantity::new(1, Format::DecimalSi);
    let mut usage = BTreeMap::from([(format!("count/{}", kind.qualified()), one())]);
    if COUNTED_BY_NAME.contains(&&*kind.resource) {
        usage.insert(kind.plural.clone(), one());
    }
    if kind.is("persistentvolumeclaims") {
        for (name, amount) in amounts::read(&object["spec"]["resources"]["requests"]) {
            usage.insert(format!("requests.{name}"), amount);
        }
    }
    if !kind.is("pods") {
        return usage;
    }
    // A terminated pod is counted as an object, but uses no resources.
    if matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return usage;
    }
    usage.extend(compute_resources(&amounts::of_pod(object, "requests"), &amounts::of_pod(object, "limits")));
    usage
}

/// Resources of a quota that follow from the requests and limits of a pod.
fn compute_resources(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), Quantity::new(1, Format::DecimalSi))]);
    for (name, amount) in requests {
        let native = ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str()) || name.starts_with("hugepages-");
        if native {
            usage.insert(name.clone(), amount.clone());
        }
        usage.insert(format!("requests.{name}"), amount.clone());
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            usage.insert(format!("limits.{name}"), amount.clone());
        }
    }
    usage
}

/// The error text if a container does not set a resource that the quota limits.
fn check_all_set(pod: &Value, restricted: &[&str]) -> Result<(), String> {
    let mut missing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            let resources = &container["resources"];
            let set = compute_resources(&amounts::read(&resources["requests"]), &amounts::read(&resources["limits"]));
            let name = container["name"].as_str().unwrap_or_default();
            for resource in restricted.iter().filter(|name| MUST_BE_SET.contains(name) && !set.contains_key(**name)) {
                let names = missing.entry(resource).or_default();
                names.push(name.to_owned());
                names.sort();
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let parts: Vec<_> =
        missing.iter().map(|(resource, names)| format!("{resource} for: {}", names.join(","))).collect();
    Err(format!("must specify {}", parts.join("; ")))
}

/// Whether the scopes of a quota include this object.
pub(crate) fn in_scope(kind: &Kind, object: &Value, spec: &Value) -> bool {
    let mut scopes: Vec<(String, String, Vec<String>)> =
        strings(&spec["scopes"]).into_iter().map(|name| (name, "Exists".to_owned(), Vec::new())).collect();
    for term in spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten() {
        let text = |name: &str| term[name].as_str().unwrap_or_default().to_owned();
        scopes.push((text("scopeName"), text("operator"), strings(&term["values"])));
    }
    if !kind.is("pods") {
        return scopes.is_empty();
    }
    scopes.iter().all(|(name, operator, values)| {
        let has_deadline = object["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
        let best_effort = object["status"]["qosClass"] == "BestEffort";
        match name.as_str() {
            "Terminating" => has_deadline,
            "NotTerminating" => !has_deadline,
            "BestEffort" => best_effort,
            "NotBestEffort" => !best_effort,
            "PriorityClass" => {
                let class = object["spec"]["priorityClassName"].as_str().unwrap_or_default();
                match operator.as_str() {
                    "In" => values.iter().any(|value| value == class),
                    "NotIn" => !values.iter().any(|value| value == class),
                    "DoesNotExist" => class.is_empty(),
                    _ => !class.is_empty(),
                }
            }
            _ => false,
        }
    })
}
