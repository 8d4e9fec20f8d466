//! Defaults of built-in kinds.

mod containers;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::kinds::{Kind, definition};
use crate::object::{meta, set, string_map};

/// Fills in the defaults of a kind.
pub(crate) fn fill_in(kind: &Kind, object: &mut Value) {
    match &*kind.resource {
        "pods" => pod_spec(&mut object["spec"]),
        "podtemplates" => template(&mut object["template"]),
        "replicasets.apps" | "deployments.apps" | "statefulsets.apps" | "jobs.batch" => {
            template(&mut object["spec"]["template"]);
        }
        "namespaces" => namespace(object),
        "secrets" => secret(object),
        "limitranges" => limit_range(object),
        definition::RESOURCE => custom_resource_definition(object),
        "services" => {
            set_default(&mut object["spec"], &[("type", json!("ClusterIP")), ("sessionAffinity", json!("None"))]);
        }
        "mutatingwebhookconfigurations.admissionregistration.k8s.io" => webhooks(object, true),
        "validatingwebhookconfigurations.admissionregistration.k8s.io" => webhooks(object, false),
        // The Go types of these kinds always have a status.
        "resourcequotas" | "nodes" => set_default(object, &[("status", json!({}))]),
        _ => {}
    }
}

/// Sets fields that are absent. A value that is not an object is not changed; validation reports it.
pub(super) fn set_default(value: &mut Value, defaults: &[(&str, Value)]) {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    let Some(fields) = value.as_object_mut() else { return };
    for (name, default) in defaults {
        let field = fields.entry(*name).or_insert(Value::Null);
        if field.is_null() {
            *field = default.clone();
        }
    }
}

fn template(template: &mut Value) {
    if template["spec"].is_object() {
        pod_spec(&mut template["spec"]);
    }
}

fn pod_spec(spec: &mut Value) {
    set_default(
        spec,
        &[
            ("restartPolicy", json!("Always")),
            ("terminationGracePeriodSeconds", json!(30)),
            ("dnsPolicy", json!("ClusterFirst")),
            ("securityContext", json!({})),
            ("schedulerName", json!("default-scheduler")),
            ("enableServiceLinks", json!(true)),
        ],
    );
    let account = match (&spec["serviceAccountName"], &spec["serviceAccount"]) {
        (Value::String(name), _) | (Value::Null, Value::String(name)) => Some(name.clone()),
        _ => None,
    };
    if let Some(account) = account {
        spec["serviceAccountName"] = account.clone().into();
        spec["serviceAccount"] = account.into();
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            containers::container(container);
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        containers::volume(volume);
    }
}

fn namespace(object: &mut Value) {
    set_default(&mut object["spec"], &[]);
    set_default(&mut object["status"], &[("phase", json!("Active"))]);
    let name = meta(object, "name").to_owned();
    if !name.is_empty() {
        set_default(&mut object["metadata"]["labels"], &[]);
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
    }
}

fn secret(object: &mut Value) {
    set_default(object, &[("type", json!("Opaque"))]);
    let plain = string_map(&object["stringData"]);
    if !plain.is_empty() {
        set_default(&mut object["data"], &[]);
        for (key, value) in plain {
            object["data"][key] = STANDARD.encode(value).into();
        }
    }
    set(object, "stringData", Value::Null);
}

/// Absent defaults of a limit range follow from other fields: the default limit is the maximum, and the default request
/// is the default limit or the minimum.
fn limit_range(object: &mut Value) {
    for limit in object["spec"].get_mut("limits").and_then(Value::as_array_mut).into_iter().flatten() {
        if limit["type"] != "Container" {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let amounts = string_map(&limit[from]);
            if !amounts.is_empty() {
                let amounts: Vec<_> = amounts.iter().map(|(name, amount)| (name.as_str(), json!(amount))).collect();
                set_default(&mut limit[to], &amounts);
            }
        }
    }
}

fn custom_resource_definition(object: &mut Value) {
    let kind = object["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    let names = [("singular", json!(kind.to_lowercase())), ("listKind", json!(format!("{kind}List")))];
    set_default(&mut object["spec"]["names"], &names);
    set_default(&mut object["spec"]["conversion"], &[("strategy", json!("None"))]);
}

fn webhooks(object: &mut Value, mutating: bool) {
    for hook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        let mut defaults = vec![
            ("failurePolicy", json!("Fail")),
            ("matchPolicy", json!("Equivalent")),
            ("namespaceSelector", json!({})),
            ("objectSelector", json!({})),
            ("timeoutSeconds", json!(10)),
        ];
        if mutating {
            defaults.push(("reinvocationPolicy", json!("Never")));
        }
        set_default(hook, &defaults);
        for rule in hook.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
            set_default(rule, &[("scope", json!("*"))]);
        }
        if hook["clientConfig"]["service"].is_object() {
            set_default(&mut hook["clientConfig"]["service"], &[("port", json!(443))]);
        }
    }
}
