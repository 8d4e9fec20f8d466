//! The definition of `TaskAction` for the API server, made from the types.
//!
//! What the derived schema cannot say the way controller-gen says it is adjusted here, so that the result has exactly
//! the structure of the definition a Flyte installation already has.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;
use serde_json::{Value, json};

use super::TaskAction;

/// The definition could not be put together; a defect of this program.
#[derive(Debug, thiserror::Error)]
#[error("failed to put the TaskAction definition together")]
pub struct CrdError(#[from] serde_json::Error);

/// The definition of `taskactions.flyte.org`.
pub fn crd() -> Result<CustomResourceDefinition, CrdError> {
    let mut crd = serde_json::to_value(TaskAction::crd())?;
    crd["spec"]["names"] = json!({
        "kind": "TaskAction", "listKind": "TaskActionList", "plural": "taskactions", "singular": "taskaction",
    });
    let version = &mut crd["spec"]["versions"][0];
    version["additionalPrinterColumns"] = printer_columns();
    let schema = &mut version["schema"]["openAPIV3Schema"];
    plain(schema);
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    schema["properties"]["metadata"] = json!({"type": "object"});
    let spec = &mut schema["properties"]["spec"];
    spec["required"] = json!(["actionName", "domain", "project", "runName"]);
    spec["properties"]["actionType"]["enum"] = json!(["task", "condition"]);
    let conditions = &mut schema["properties"]["status"]["properties"]["conditions"];
    conditions["x-kubernetes-list-type"] = json!("map");
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    conditions["items"]["properties"] = condition_properties(&conditions["items"]["properties"]);
    Ok(serde_json::from_value(crd)?)
}

/// Takes out what controller-gen does not write: `nullable`, `default`, lower bounds of unsigned numbers, and the
/// formats it does not know.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("type").is_some_and(Value::is_string) {
                map.remove("nullable");
                map.remove("default");
                map.remove("title");
                map.remove("minimum");
                map.remove("maximum");
                match map.get("format").and_then(Value::as_str) {
                    Some("uint8") => {
                        map.remove("format");
                    }
                    Some("uint32") => {
                        map.insert("format".into(), json!("int32"));
                    }
                    _ => {}
                }
            }
            map.values_mut().for_each(plain);
        }
        Value::Array(list) => list.iter_mut().for_each(plain),
        _ => {}
    }
}

/// The bounds that `metav1.Condition` carries upstream, with our descriptions.
fn condition_properties(described: &Value) -> Value {
    let bounds = json!({
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0.0},
        "reason": {
            "type": "string", "minLength": 1, "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {
            "type": "string", "maxLength": 316,
            "pattern": concat!(
                r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
            ),
        },
    });
    let mut properties = bounds;
    if let (Some(properties), Some(described)) = (properties.as_object_mut(), described.as_object()) {
        for (name, property) in properties {
            if let Some(description) = described.get(name).and_then(|field| field.get("description")) {
                property["description"] = description.clone();
            }
        }
    }
    properties
}

fn printer_columns() -> Value {
    let condition = |kind: &str, field: &str| format!(".status.conditions[?(@.type=='{kind}')].{field}");
    json!([
        {"name": "Run", "type": "string", "jsonPath": ".spec.runName"},
        {"name": "Action", "type": "string", "jsonPath": ".spec.actionName"},
        {"name": "TaskType", "type": "string", "jsonPath": ".spec.taskType"},
        {"name": "Status", "type": "string", "jsonPath": condition("Progressing", "reason")},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Progressing", "type": "string", "jsonPath": condition("Progressing", "status"), "priority": 1},
        {"name": "Succeeded", "type": "string", "jsonPath": condition("Succeeded", "status"), "priority": 1},
        {"name": "Failed", "type": "string", "jsonPath": condition("Failed", "status"), "priority": 1},
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn without_descriptions(value: &Value) -> Value {
        match value {
            Value::Object(map) => map
                .iter()
                .filter(|(key, value)| !(key.as_str() == "description" && value.is_string()))
                .map(|(key, value)| (key.clone(), without_descriptions(value)))
                .collect(),
            Value::Array(list) => list.iter().map(without_descriptions).collect(),
            other => other.clone(),
        }
    }

    /// The structure of the definition that a Flyte 2 installation has, without its prose.
    #[test]
    fn the_definition_has_upstreams_structure() {
        let text = |bounds: Value| {
            let mut field = json!({"type": "string"});
            field.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
            field
        };
        let plain_text = json!({"type": "string"});
        let bytes = json!({"type": "string", "format": "byte"});
        let time = json!({"type": "string", "format": "date-time"});
        let number = json!({"type": "integer", "format": "int32"});
        let expected = json!({
            "type": "object",
            "required": ["spec"],
            "properties": {
                "apiVersion": plain_text, "kind": plain_text, "metadata": {"type": "object"},
                "spec": {
                    "type": "object",
                    "required": ["actionName", "domain", "project", "runName"],
                    "properties": {
                        "actionName": text(json!({"minLength": 1, "maxLength": 30})),
                        "actionType": text(json!({"enum": ["task", "condition"]})),
                        "cacheKey": text(json!({"maxLength": 256})),
                        "conditionSpec": bytes,
                        "domain": text(json!({"minLength": 1, "maxLength": 63})),
                        "envVars": {"type": "object", "additionalProperties": plain_text},
                        "group": text(json!({"maxLength": 256})),
                        "inputUri": plain_text,
                        "interruptible": {"type": "boolean"},
                        "parentActionName": text(json!({"minLength": 1, "maxLength": 30})),
                        "project": text(json!({"minLength": 1, "maxLength": 63})),
                        "runName": text(json!({"minLength": 1, "maxLength": 30})),
                        "runOutputBase": plain_text,
                        "shortName": text(json!({"maxLength": 63})),
                        "taskTemplate": bytes,
                        "taskType": text(json!({"maxLength": 63})),
                    },
                },
                "status": {
                    "type": "object",
                    "properties": {
                        "attempts": number, "cacheStatus": number,
                        "conditions": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["type"],
                            "items": {
                                "type": "object",
                                "required": ["lastTransitionTime", "message", "reason", "status", "type"],
                                "properties": condition_properties(&Value::Null),
                            },
                        },
                        "errorState": {
                            "type": "object",
                            "properties": {"code": plain_text, "kind": plain_text, "message": plain_text},
                        },
                        "phaseHistory": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["occurredAt", "phase"],
                                "properties": {"message": plain_text, "occurredAt": time, "phase": plain_text},
                            },
                        },
                        "pluginPhase": plain_text, "pluginPhaseVersion": number, "pluginState": bytes,
                        "pluginStateVersion": {"type": "integer"}, "signalValue": bytes, "signalledAt": time,
                        "signalledBy": plain_text, "stateJson": plain_text, "systemFailures": number,
                    },
                },
            },
        });
        let crd = serde_json::to_value(crd().unwrap()).unwrap();
        let version = &crd["spec"]["versions"][0];
        let mut schema = without_descriptions(&version["schema"]["openAPIV3Schema"]);
        sort_required(&mut schema);
        assert_eq!(schema, expected);
        assert_eq!(crd["metadata"]["name"], "taskactions.flyte.org");
        assert_eq!(crd["spec"]["scope"], "Namespaced");
        assert_eq!(version["subresources"], json!({"status": {}}));
        assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)));
    }

    fn sort_required(value: &mut Value) {
        match value {
            Value::Object(map) => {
                if let Some(Value::Array(required)) = map.get_mut("required") {
                    required.sort_by_key(ToString::to_string);
                }
                map.values_mut().for_each(sort_required);
            }
            Value::Array(list) => list.iter_mut().for_each(sort_required),
            _ => {}
        }
    }
}
