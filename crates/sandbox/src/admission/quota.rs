//! Resource quotas: what a namespace may take, and what it takes.

use std::collections::BTreeMap;

use aileron_kubekit::quantity::{Format, Quantity};
use serde_json::Value;

use super::amounts::{self, Amounts};
use super::tally::Tally;
use crate::crd;
use crate::kind::Kind;
use crate::object::{meta, set, texts};
use crate::server::ApiServer;
use crate::status::ApiError;
use crate::store::{Key, Transaction};

/// Kinds that a quota may count by their plain name; all others are `count/…`.
const PLAIN: [&str; 6] =
    ["configmaps", "secrets", "services", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas"];
/// If a quota limits these, every container must say what it takes of them.
const MUST_SAY: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// A quota, and its usage with a new object counted in.
pub(crate) struct Charge {
    key: Key,
    used: Amounts,
}

/// Checks a new object against the quotas of its namespace. Mirrors the admission plugin's `CheckRequest`.
pub(crate) fn charge(transaction: &Transaction<'_>, kind: &Kind, object: &Value) -> Result<Vec<Charge>, ApiError> {
    let name = meta(object, "name");
    let refused = |text: String| ApiError::forbidden(kind, name, &text);
    let mut interesting = Vec::new();
    for stored in transaction.list("resourcequotas", meta(object, "namespace")) {
        let quota = stored.body();
        let hard = amounts::read(&quota["status"]["hard"]);
        let restricted: Vec<&str> = hard.keys().map(String::as_str).filter(|name| concerns(kind, name)).collect();
        if restricted.is_empty() || !in_scope(kind, object, &quota["spec"]) {
            continue;
        }
        let named = &stored.key.name;
        if kind.is("pods") {
            unsaid(object, &restricted).map_err(|text| refused(format!("failed quota: {named}: {text}")))?;
        }
        let used = amounts::read(&quota["status"]["used"]);
        if !restricted.iter().all(|name| used.contains_key(*name)) {
            let list = restricted.join(",");
            return Err(refused(format!("status unknown for quota: {named}, resources: {list}")));
        }
        interesting.push((stored.key.clone(), hard, used));
    }
    let mut usage = usage(kind, object);
    usage.retain(|_, amount| !amount.is_zero());
    let mut charges = Vec::new();
    for (key, hard, mut used) in interesting {
        let mut requested = usage.clone();
        requested.retain(|name, _| hard.contains_key(name));
        let before = used.clone();
        amounts::plus(&mut used, &requested);
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
            charges.push(Charge { key, used });
        }
    }
    Ok(charges)
}

/// Writes the new usage down.
pub(crate) fn book(server: &ApiServer, transaction: &mut Transaction<'_>, charges: Vec<Charge>) {
    for charge in charges {
        write(server, transaction, &charge.key, |status| set(status, "used", amounts::write(&charge.used)));
    }
}

fn write(server: &ApiServer, transaction: &mut Transaction<'_>, key: &Key, change: impl FnOnce(&mut Value)) {
    let Some(kind) = server.inner.registry.at("resourcequotas") else { return };
    let Some(stored) = transaction.get("resourcequotas", key) else { return };
    let before = stored.body();
    let mut quota = before.clone();
    change(&mut quota["status"]);
    if quota != before {
        transaction.put(&kind, quota);
    }
}

/// Counts what the objects of a namespace take after one of them was written or went, as the controller manager does.
pub(crate) fn recount(server: &ApiServer, transaction: &mut Transaction<'_>, written: &Kind, key: &Key) {
    if written.is(crd::PLACE) {
        // All objects of a kind may have gone with it.
        transaction.tallies().forget_all();
    }
    if key.namespace.is_empty() {
        return;
    }
    let quotas = transaction.list("resourcequotas", &key.namespace);
    if written.is("resourcequotas") {
        transaction.tallies().retain(&key.namespace, |name| quotas.iter().any(|quota| quota.key.name == name));
    }
    if quotas.is_empty() {
        return;
    }
    let object = transaction.get(&written.place, key).map(|stored| stored.body());
    for stored in quotas {
        let quota = stored.body();
        let hard = amounts::read(&quota["spec"]["hard"]);
        if !written.is("resourcequotas") && !hard.keys().any(|name| concerns(written, name)) {
            continue;
        }
        let share = |kind: &Kind, object: &Value| {
            let mut share = if in_scope(kind, object, &quota["spec"]) { usage(kind, object) } else { Amounts::new() };
            share.retain(|name, _| hard.contains_key(name));
            share
        };
        // A tally is about one set of limits.
        let known = transaction.tallies().of(&stored.key).filter(|tally| tally.is_of(&quota["spec"]));
        let used = if let Some(tally) = known {
            let share = object.as_ref().map(|object| share(written, object)).unwrap_or_default();
            tally.put(&written.place, key, share);
            tally.total().clone()
        } else {
            let tally = count_all(server, transaction, &key.namespace, &quota["spec"], &hard, share);
            let used = tally.total().clone();
            transaction.tallies().keep(stored.key.clone(), tally);
            used
        };
        write(server, transaction, &stored.key, |status| {
            set(status, "hard", amounts::write(&hard));
            set(status, "used", amounts::write(&used));
        });
    }
}

/// The tally of a quota, from all objects that there are.
fn count_all(
    server: &ApiServer,
    transaction: &Transaction<'_>,
    namespace: &str,
    spec: &Value,
    hard: &Amounts,
    share: impl Fn(&Kind, &Value) -> Amounts,
) -> Tally {
    let mut tally = Tally::new(spec.clone(), hard.keys());
    for kind in server.inner.registry.all() {
        if !kind.namespaced || kind.group == "events.k8s.io" || !hard.keys().any(|name| concerns(&kind, name)) {
            continue;
        }
        for stored in transaction.list(&kind.place, namespace) {
            tally.put(&kind.place, &stored.key, share(&kind, &stored.body()));
        }
    }
    tally
}

/// Whether objects of this kind take of a resource.
fn concerns(kind: &Kind, resource: &str) -> bool {
    if let Some(counted) = resource.strip_prefix("count/") {
        return counted == kind.qualified();
    }
    match &*kind.place {
        "pods" => {
            let bare =
                resource.strip_prefix("requests.").or_else(|| resource.strip_prefix("limits.")).unwrap_or(resource);
            let native = ["cpu", "memory", "ephemeral-storage"].contains(&bare) || bare.starts_with("hugepages-");
            resource == "pods" || native || (resource.starts_with("requests.") && bare != "storage")
        }
        "persistentvolumeclaims" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        place => PLAIN.contains(&place) && place == resource,
    }
}

/// What an object takes.
fn usage(kind: &Kind, object: &Value) -> Amounts {
    let one = || Quantity::new(1, Format::DecimalSi);
    let mut usage = BTreeMap::from([(format!("count/{}", kind.qualified()), one())]);
    if PLAIN.contains(&&*kind.place) {
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
    // A pod that ended counts, but takes nothing.
    if matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return usage;
    }
    usage.extend(compute(&amounts::of_pod(object, "requests"), &amounts::of_pod(object, "limits")));
    usage
}

fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
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

/// Resources that a quota limits and a container does not mention.
fn unsaid(pod: &Value, restricted: &[&str]) -> Result<(), String> {
    let mut missing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            let resources = &container["resources"];
            let said = compute(&amounts::read(&resources["requests"]), &amounts::read(&resources["limits"]));
            let name = container["name"].as_str().unwrap_or_default();
            for resource in restricted.iter().filter(|name| MUST_SAY.contains(name) && !said.contains_key(**name)) {
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

/// Whether a quota with scopes means this object.
fn in_scope(kind: &Kind, object: &Value, spec: &Value) -> bool {
    let mut scopes: Vec<(String, String, Vec<String>)> =
        texts(&spec["scopes"]).into_iter().map(|name| (name, "Exists".to_owned(), Vec::new())).collect();
    for term in spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten() {
        let text = |name: &str| term[name].as_str().unwrap_or_default().to_owned();
        scopes.push((text("scopeName"), text("operator"), texts(&term["values"])));
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
