//! `pod` and `primary-container`: a pod spec around the task's own container, for sidecars, volumes and the like.

use std::collections::BTreeMap;

use aileron_idl::flyteidl2::core::{Container, K8sObjectMetadata, K8sPod, KeyValuePair};
use aileron_idl::json_to_struct;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Map, Value, json};

use super::fields::{Field, Group, Report};
use super::resources::Amounts;

/// What the SDK calls the container of the task, where there are several.
const PRIMARY: &str = "primary";
/// The key under which the executor looks for the name of that container.
pub(super) const PRIMARY_CONTAINER_KEY: &str = "primary_container_name";

/// A pod, and the name of the container whose end is the end of the task.
pub(super) struct Pod {
    pub target: K8sPod,
    pub primary: String,
}

/// The pod of the file, with the container of the file in it, if it has one.
pub(super) fn pod(
    root: &Group<'_>,
    container: Option<(&Container, &Amounts)>,
    metadata: (BTreeMap<String, String>, BTreeMap<String, String>),
    report: &Report,
) -> Option<Pod> {
    let field = root.get("pod");
    let mut spec = match &field {
        Some(field) => as_object(field, report)?,
        None => Map::new(),
    };
    let mut containers = match spec.remove("containers") {
        Some(Value::Array(containers)) => containers,
        None => Vec::new(),
        Some(_) => {
            field.as_ref()?.complain("containers must be a list", report);
            return None;
        }
    };
    let named = root.get("primary-container");
    let name = match &named {
        Some(field) => Some(field.text(report)?),
        None => None,
    };
    let primary = match (container, name) {
        (Some((container, amounts)), name) => {
            let name = name.unwrap_or_else(|| PRIMARY.to_owned());
            let own = as_pod_container(container, amounts, &name);
            match containers.iter_mut().find(|other| other["name"] == name.as_str()) {
                Some(other) => merge(other, own, field.as_ref()?, &name, report),
                // First, because that is where people look.
                None => containers.insert(0, own),
            }
            name
        }
        (None, Some(name)) if containers.iter().any(|container| container["name"] == name.as_str()) => name,
        (None, Some(name)) => {
            let problem = format!("no container of `pod` is called {name:?}; it has {}", names(&containers));
            named.as_ref()?.complain(problem, report);
            return None;
        }
        (None, None) => match containers.as_slice() {
            [only] => only["name"].as_str().unwrap_or_default().to_owned(),
            _ => {
                let problem = "say with `primary-container` whose end is the end of the task, or give the task's own \
                               container with `image` and `command`";
                field.as_ref()?.complain(format!("{problem}; there are {}", names(&containers)), report);
                return None;
            }
        },
    };
    spec.insert("containers".into(), Value::Array(containers));
    let spec = Value::Object(spec);
    if let Err(error) = serde_json::from_value::<PodSpec>(spec.clone()) {
        field.as_ref()?.complain(format!("not a pod spec: {error}"), report);
        return None;
    }
    let target = K8sPod {
        metadata: Some(K8sObjectMetadata { labels: metadata.0, annotations: metadata.1 }),
        pod_spec: json_to_struct(&spec).ok(),
        primary_container_name: primary.clone(),
        ..K8sPod::default()
    };
    Some(Pod { target, primary })
}

fn as_object(field: &Field<'_>, report: &Report) -> Option<Map<String, Value>> {
    match field.json() {
        // People paste whole pods.
        Value::Object(mut object) if object.contains_key("spec") && !object.contains_key("containers") => {
            match object.remove("spec") {
                Some(Value::Object(spec)) => Some(spec),
                _ => None,
            }
        }
        Value::Object(object) => Some(object),
        _ => {
            field.complain("must be the spec of a pod", report);
            None
        }
    }
}

/// Two descriptions of the same container: each field from where it is; twice is a mistake.
fn merge(other: &mut Value, own: Value, field: &Field<'_>, name: &str, report: &Report) {
    let (Value::Object(other), Value::Object(own)) = (other, own) else { return };
    for (key, value) in own {
        if key == "name" {
            continue;
        }
        if other.insert(key.clone(), value).is_some() {
            field.complain(format!("{key} of container {name:?} is given here and at the top; keep one"), report);
        }
    }
}

fn as_pod_container(container: &Container, amounts: &Amounts, name: &str) -> Value {
    let mut object = Map::new();
    object.insert("name".into(), name.into());
    object.insert("image".into(), container.image.as_str().into());
    for (key, list) in [("command", &container.command), ("args", &container.args)] {
        if !list.is_empty() {
            object.insert(key.into(), json!(list));
        }
    }
    if !container.env.is_empty() {
        let variable = |KeyValuePair { key, value }: &KeyValuePair| json!({"name": key, "value": value});
        object.insert("env".into(), container.env.iter().map(variable).collect());
    }
    if !amounts.is_empty() {
        object.insert("resources".into(), amounts.to_pod());
    }
    Value::Object(object)
}

fn names(containers: &[Value]) -> String {
    let names: Vec<_> = containers.iter().filter_map(|container| container["name"].as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
