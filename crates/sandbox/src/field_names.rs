//! The fields that field selectors may name, by kind.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::at;
use crate::status::ApiError;

const POD: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];
const EVENT: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// What events of the newer form call those fields; the others have the same name, or cannot be selected by there.
const NEW_EVENT: &[(&str, &str)] = &[
    ("regarding.kind", "involvedObject.kind"),
    ("regarding.namespace", "involvedObject.namespace"),
    ("regarding.name", "involvedObject.name"),
    ("regarding.uid", "involvedObject.uid"),
    ("regarding.apiVersion", "involvedObject.apiVersion"),
    ("regarding.resourceVersion", "involvedObject.resourceVersion"),
    ("regarding.fieldPath", "involvedObject.fieldPath"),
    ("reportingController", "reportingComponent"),
    ("reason", "reason"),
    ("type", "type"),
];

fn names(place: &str) -> &'static [&'static str] {
    match place {
        "pods" => POD,
        "events" => EVENT,
        "namespaces" => &["status.phase"],
        "secrets" => &["type"],
        "nodes" => &["spec.unschedulable"],
        "jobs.batch" => &["status.successful"],
        "replicasets.apps" | "replicationcontrollers" => &["status.replicas"],
        _ => &[],
    }
}

/// Whether objects of this kind can be selected by this field.
pub(crate) fn is_supported(kind: &Kind, field: &str) -> bool {
    field == "metadata.name"
        || (field == "metadata.namespace" && kind.namespaced)
        || (kind.group == "events.k8s.io" && NEW_EVENT.iter().any(|(name, _)| *name == field))
        || (kind.group != "events.k8s.io" && names(&kind.place).contains(&field))
        || kind.definition().is_some_and(|definition| definition.selectable(&kind.version).any(|name| name == field))
}

/// What is said of a field that objects of this kind cannot be selected by.
pub(crate) fn unsupported(kind: &Kind, field: &str) -> ApiError {
    let text = if names(&kind.place).is_empty() && kind.definition().is_none() {
        format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {field}")
    };
    ApiError::bad_request(text)
}

/// The values of those fields that are not empty.
pub(crate) fn extract(kind: &Kind, object: &Value) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let custom = kind.definition().into_iter().flat_map(|definition| definition.selectable(&kind.version));
    for name in names(&kind.place).iter().copied().chain(custom) {
        let value = match (name, at(object, name)) {
            ("source", source) => source["component"].as_str().unwrap_or_default().to_owned(),
            ("spec.unschedulable" | "spec.hostNetwork", value) => value.as_bool().unwrap_or_default().to_string(),
            (_, Value::String(text)) => text.clone(),
            (_, value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            _ => continue,
        };
        if !value.is_empty() {
            fields.insert(name.to_owned(), value);
        }
    }
    if kind.is("events") {
        for (name, core) in NEW_EVENT {
            if let Some(value) = fields.get(*core).cloned() {
                fields.insert((*name).to_owned(), value);
            }
        }
    }
    fields
}
