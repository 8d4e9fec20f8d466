//! The fields that field selectors may use, by kind.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Kind;
use crate::object::at;

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

/// Fields of events in the group `events.k8s.io`, and the name of the same field in the core group.
const EVENTS_GROUP_EVENT: &[(&str, &str)] = &[
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

fn names(resource: &str) -> &'static [&'static str] {
    match resource {
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

/// Whether a field selector of this kind may use this field.
pub(crate) fn is_supported(kind: &Kind, field: &str) -> bool {
    field == "metadata.name"
        || (field == "metadata.namespace" && kind.namespaced)
        || (kind.group == "events.k8s.io" && EVENTS_GROUP_EVENT.iter().any(|(name, _)| *name == field))
        || (kind.group != "events.k8s.io" && names(&kind.resource).contains(&field))
        || kind.definition().is_some_and(|definition| definition.selectable(&kind.version).any(|name| name == field))
}

/// Whether field selectors of this kind may use only the name and the namespace.
pub(crate) fn has_only_metadata(kind: &Kind) -> bool {
    names(&kind.resource).is_empty() && kind.definition().is_none()
}

/// The values of the selectable fields of an object, without empty ones.
pub(crate) fn extract(kind: &Kind, object: &Value) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let custom = kind.definition().into_iter().flat_map(|definition| definition.selectable(&kind.version));
    for name in names(&kind.resource).iter().copied().chain(custom) {
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
        for (name, core) in EVENTS_GROUP_EVENT {
            if let Some(value) = fields.get(*core).cloned() {
                fields.insert((*name).to_owned(), value);
            }
        }
    }
    fields
}
