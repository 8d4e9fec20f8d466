//! Rules for CustomResourceDefinition objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::errors::Cause;
use crate::object::{meta, set, strings, timestamp};

/// Replaces the status of a new definition, which only the server writes. [`establish`] completes it if the definition
/// is stored.
pub(crate) fn prepare_new(object: &mut Value) {
    let status = json!({"storedVersions": storage_versions(object)});
    set(object, "status", status);
}

/// Updates the accepted names and the stored versions in the status of a changed definition.
pub(crate) fn prepare_update(object: &mut Value) {
    let names = object["spec"]["names"].clone();
    set(&mut object["status"], "acceptedNames", names);
    let mut stored = strings(&object["status"]["storedVersions"]);
    let new: Vec<_> = storage_versions(object).into_iter().filter(|name| !stored.contains(name)).collect();
    stored.extend(new);
    set(&mut object["status"], "storedVersions", stored.into());
}

/// Sets the status of a definition that is accepted and established. This server establishes definitions at once.
pub(crate) fn establish(object: &mut Value, now: Timestamp) {
    let condition = |name: &str, reason: &str, message: &str| json!({"type": name, "status": "True", "lastTransitionTime": timestamp(now), "reason": reason, "message": message});
    let status = json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": object["spec"]["names"],
        "storedVersions": storage_versions(object),
    });
    set(object, "status", status);
}

fn storage_versions(object: &Value) -> Vec<String> {
    let versions = object["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["storage"] == true)
        .filter_map(|version| version["name"].as_str().map(str::to_owned))
        .collect()
}

/// Validation errors of a definition.
pub(crate) fn problems(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &object["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    if meta(object, "name") != format!("{plural}.{group}") {
        let name = Value::from(meta(object, "name"));
        causes.push(Cause::invalid("metadata.name", &name, "must be spec.names.plural+\".\"+spec.group"));
    }
    for (field, value) in
        [("group", &spec["group"]), ("names.plural", &spec["names"]["plural"]), ("names.kind", &spec["names"]["kind"])]
    {
        if value.as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(format!("spec.{field}"), ""));
        }
    }
    if !["Namespaced", "Cluster"].iter().any(|known| spec["scope"] == *known) {
        causes.push(Cause::unsupported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"].map(Value::from)));
    }
    if storage_versions(object).len() != 1 {
        let text = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &spec["versions"], text));
    }
    for (index, version) in spec["versions"].as_array().into_iter().flatten().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            causes.push(Cause::required(
                format!("spec.versions[{index}].schema.openAPIV3Schema"),
                "schemas are required",
            ));
        }
    }
    causes
}
