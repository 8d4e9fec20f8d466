//! Limit ranges: default, minimum and maximum resources of the containers and pods of a namespace.

use aileron_kubekit::quantity::Quantity;
use serde_json::{Value, json};

use crate::errors::ApiError;
use crate::kinds::Kind;
use crate::object::amounts::{self, Amounts};
use crate::object::{meta, metadata_of};
use crate::store::Transaction;

/// Annotation of a pod that lists the defaults that were filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

fn ranges(transaction: &Transaction<'_>, object: &Value) -> Vec<Value> {
    transaction.list("limitranges", meta(object, "namespace")).iter().map(|stored| stored.body()).collect()
}

/// Fills in the default requests and limits of the namespace.
pub(crate) fn fill_in_defaults(transaction: &Transaction<'_>, kind: &Kind, object: &mut Value) {
    if !kind.is("pods") {
        return;
    }
    for range in ranges(transaction, object) {
        let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
        for limit in range["spec"]["limits"].as_array().into_iter().flatten() {
            if limit["type"] == "Container" {
                requests.extend(amounts::read(&limit["defaultRequest"]));
                limits.extend(amounts::read(&limit["default"]));
            }
        }
        let mut filled_in = Vec::new();
        for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
            let containers = object["spec"].get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                let name = container["name"].as_str().unwrap_or_default().to_owned();
                for (which, what, defaults) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                    let set = merge(&mut container["resources"], which, defaults);
                    if !set.is_empty() {
                        filled_in.push(format!("{} {what} for {word} {name}", set.join(", ")));
                    }
                }
            }
        }
        if !filled_in.is_empty()
            && let Some(metadata) = metadata_of(object)
        {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            annotations[ANNOTATION] = format!("LimitRanger plugin set: {}", filled_in.join("; ")).into();
        }
    }
}

fn merge(resources: &mut Value, which: &str, defaults: &Amounts) -> Vec<String> {
    let own = amounts::read(&resources[which]);
    let missing: Vec<_> = defaults.iter().filter(|(name, _)| !own.contains_key(*name)).collect();
    for (name, amount) in &missing {
        resources[which][name.as_str()] = amount.to_string().into();
    }
    missing.into_iter().map(|(name, _)| name.clone()).collect()
}

/// Refuses a pod whose resources are outside of the limits.
pub(crate) fn check(transaction: &Transaction<'_>, kind: &Kind, object: &Value) -> Result<(), ApiError> {
    if !kind.is("pods") {
        return Ok(());
    }
    for range in ranges(transaction, object) {
        let mut problems = Vec::new();
        for limit in range["spec"]["limits"].as_array().into_iter().flatten() {
            match limit["type"].as_str() {
                Some("Container") => {
                    for list in ["containers", "initContainers"] {
                        for container in object["spec"][list].as_array().into_iter().flatten() {
                            let read = |which: &str| amounts::read(&container["resources"][which]);
                            constrain(limit, "Container", &read("requests"), &read("limits"), &mut problems);
                        }
                    }
                }
                Some("Pod") => {
                    let (requests, limits) = (amounts::of_pod(object, "requests"), amounts::of_pod(object, "limits"));
                    constrain(limit, "Pod", &requests, &limits, &mut problems);
                }
                _ => {}
            }
        }
        if !problems.is_empty() {
            let mut distinct: Vec<String> = Vec::new();
            problems.into_iter().for_each(|text| {
                if !distinct.contains(&text) {
                    distinct.push(text);
                }
            });
            let text = if distinct.len() == 1 { distinct.concat() } else { format!("[{}]", distinct.join(", ")) };
            return Err(ApiError::forbidden(kind, meta(object, "name"), &text));
        }
    }
    Ok(())
}

/// Checks against one limit. The texts are those of the LimitRanger plugin of kube-apiserver.
fn constrain(limit: &Value, of: &str, requests: &Amounts, limits: &Amounts, problems: &mut Vec<String>) {
    for (name, least) in amounts::read(&limit["min"]) {
        let begin = format!("minimum {name} usage per {of} is {least}");
        match (requests.get(&name), limits.get(&name)) {
            (None, _) => problems.push(format!("{begin}.  No request is specified")),
            (Some(request), _) if *request < least => problems.push(format!("{begin}, but request is {request}")),
            (_, Some(limit)) if *limit < least => problems.push(format!("{begin}, but limit is {limit}")),
            _ => {}
        }
    }
    for (name, most) in amounts::read(&limit["max"]) {
        let begin = format!("maximum {name} usage per {of} is {most}");
        match (requests.get(&name), limits.get(&name)) {
            (_, None) => problems.push(format!("{begin}.  No limit is specified")),
            (_, Some(limit)) if *limit > most => problems.push(format!("{begin}, but limit is {limit}")),
            (Some(request), _) if *request > most => problems.push(format!("{begin}, but request is {request}")),
            _ => {}
        }
    }
    for (name, most) in amounts::read(&limit["maxLimitRequestRatio"]) {
        let begin = format!("{name} max limit to request ratio per {of} is {most}");
        let is_none = |amount: Option<&Quantity>| amount.is_none_or(Quantity::is_zero);
        let (request, limit) = (requests.get(&name), limits.get(&name));
        if is_none(request) {
            problems.push(format!("{begin}, but no request is specified or request is 0"));
        } else if is_none(limit) {
            problems.push(format!("{begin}, but no limit is specified or limit is 0"));
        } else if let (Some(request), Some(limit)) = (request, limit) {
            let ratio = number(limit) / number(request);
            if ratio * 1000.0 > number(&most) {
                problems.push(format!("{begin}, but provided ratio is {ratio:.6}"));
            }
        }
    }
}

/// The amount as a floating-point number, which is precise enough for a ratio.
#[allow(clippy::cast_precision_loss)]
fn number(amount: &Quantity) -> f64 {
    amount.milli_value() as f64
}
