//! Defaults of containers and volumes.

use serde_json::{Value, json};

use super::set_default;

/// Permissions of files of config maps and secrets: 0644 in decimal notation.
const FILE_MODE: i32 = 420;

pub(super) fn container(container: &mut Value) {
    set_default(
        container,
        &[
            ("resources", json!({})),
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
        ],
    );
    if let Some(image) = container["image"].as_str() {
        let policy = if has_latest_tag(image) { "Always" } else { "IfNotPresent" };
        set_default(container, &[("imagePullPolicy", json!(policy))]);
    }
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        set_default(port, &[("protocol", json!("TCP"))]);
    }
    for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(source) = variable.get_mut("valueFrom") {
            if source["fieldRef"].is_object() {
                set_default(&mut source["fieldRef"], &[("apiVersion", json!("v1"))]);
            }
            if source["resourceFieldRef"].is_object() {
                set_default(&mut source["resourceFieldRef"], &[("divisor", json!("0"))]);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container.get(name).is_some_and(Value::is_object) {
            probe(&mut container[name]);
        }
    }
    if let Some(limits) = container["resources"]["limits"].as_object().cloned() {
        let limits: Vec<_> = limits.iter().map(|(name, amount)| (name.as_str(), amount.clone())).collect();
        set_default(&mut container["resources"]["requests"], &limits);
    }
}

/// Whether the image has the tag `latest`. An image without tag has it; an image with a digest does not.
fn has_latest_tag(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    !last.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn probe(probe: &mut Value) {
    let counts = [
        ("timeoutSeconds", json!(1)),
        ("periodSeconds", json!(10)),
        ("successThreshold", json!(1)),
        ("failureThreshold", json!(3)),
    ];
    set_default(probe, &counts);
    if probe["httpGet"].is_object() {
        set_default(&mut probe["httpGet"], &[("path", json!("/")), ("scheme", json!("HTTP"))]);
    }
}

pub(super) fn volume(volume: &mut Value) {
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        if volume.get(source).is_some_and(Value::is_object) {
            set_default(&mut volume[source], &[("defaultMode", json!(FILE_MODE))]);
        }
    }
    if volume.get("hostPath").is_some_and(Value::is_object) {
        set_default(&mut volume["hostPath"], &[("type", json!(""))]);
    }
    // A volume without a source is an empty directory.
    if volume.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key("name")) {
        volume["emptyDir"] = json!({});
    }
    for source in volume["projected"].get_mut("sources").and_then(Value::as_array_mut).into_iter().flatten() {
        if source["serviceAccountToken"].is_object() {
            set_default(&mut source["serviceAccountToken"], &[("expirationSeconds", json!(3600))]);
        }
    }
}
