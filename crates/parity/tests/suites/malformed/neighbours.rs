//! Odd objects of other kinds: pods, pod templates, quotas, and objects of operators.

use aileron_parity::suite::Space;
use anyhow::{Context, Result};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::{WAIT_TIMEOUT, is_refused};

/// Creates all odd objects in a namespace. Returns how many the API server refused.
pub async fn create(space: &Space<'_>) -> Result<usize> {
    let mut refused = 0;
    for object in pods().into_iter().chain(pod_templates()).chain(quotas()).chain(custom_objects()) {
        let status = object.get("status").cloned();
        let group_version: Vec<_> = object["apiVersion"].as_str().unwrap_or_default().rsplitn(2, '/').collect();
        let (version, group) = (group_version[0], group_version.get(1).copied().unwrap_or_default());
        let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap_or_default());
        let api: Api<DynamicObject> =
            Api::namespaced_with(space.admin.clone(), &space.namespace, &ApiResource::from_gvk(&kind));
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let object: DynamicObject = serde_json::from_value(object).with_context(|| name.clone())?;
        let created = match (api.create(&PostParams::default(), &object).await, status) {
            (Ok(_), Some(status)) if kind.kind == "Pod" || kind.kind == "ResourceQuota" => {
                let patch = Patch::Merge(json!({"status": status}));
                api.patch_status(&name, &PatchParams::default(), &patch).await.map(drop)
            }
            (created, _) => created.map(drop),
        };
        refused += usize::from(is_refused(&name, created)?);
    }
    Ok(refused)
}

/// Definitions of kinds that plugins use, with unexpected versions and schemas.
pub async fn install_definitions(client: &Client) -> Result<()> {
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let loose = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let strict = json!({"type": "object", "properties": {"spec": {"type": "string"}, "status": {"type": "integer"}}});
    for (group, kind, plural, version, schema) in [
        ("kubeflow.org", "PyTorchJob", "pytorchjobs", "v1", &loose),
        ("ray.io", "RayJob", "rayjobs", "v1alpha7", &loose),
        ("sparkoperator.k8s.io", "SparkApplication", "sparkapplications", "v1beta2", &strict),
    ] {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            // A real API server wants this for groups below `k8s.io`.
            "metadata": {"name": format!("{plural}.{group}"), "annotations": {"api-approved.kubernetes.io": "unapproved"}},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let definition: DynamicObject = serde_json::from_value(definition)?;
        let name = definition.metadata.name.clone().unwrap_or_default();
        api.create(&PostParams::default(), &definition).await.with_context(|| name.clone())?;
        let established = async {
            loop {
                let found = api.get(&name).await?;
                let conditions = found.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
                if conditions.iter().any(|it| it["type"] == "Established" && it["status"] == "True") {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(super::POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, established).await.with_context(|| name.clone())??;
    }
    Ok(())
}

fn labelled(name: &str, more: &Value) -> Value {
    let mut metadata = json!({"name": name, "labels": {"flyte.org/managed": "true"}});
    json_patch::merge(&mut metadata, more);
    metadata
}

/// Pods with the executor's labels that no plugin made.
fn pods() -> Vec<Value> {
    let owner = |name: &str| json!({"ownerReferences": [{"apiVersion": "flyte.org/v1", "kind": "TaskAction", "name": name, "uid": "none"}]});
    let of_action = json!({"labels": {"run": "x", "action": "y", "attempt": "not a number".replace(' ', "-")}});
    let status = |phase: &str, containers: Value| json!({"phase": phase, "containerStatuses": containers});
    let no_state = json!([{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": -1}]);
    [
        ("pod-without-owner", json!({}), status("Running", json!(null))),
        ("pod-of-nobody-0", owner("pod-of-nobody"), status("Failed", json!([]))),
        ("pod-unknown-phase", owner("x"), status("Bewildered", json!(null))),
        ("pod-empty-phase", of_action.clone(), status("", no_state.clone())),
        ("pod-negative-count", of_action, status("Running", no_state)),
        ("trailing-bits-0", owner("trailing-bits"), status("Succeeded", json!(null))),
        ("pod-giant-annotation", json!({"annotations": {"a": "x".repeat(100_000)}}), status("Pending", json!(null))),
    ]
    .map(|(name, metadata, status)| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": labelled(name, &metadata), "status": status,
            "spec": {"containers": [{"name": "c", "image": "registry.test/odd:1"}], "schedulerName": "nobody"}})
    })
    .to_vec()
}

fn pod_templates() -> Vec<Value> {
    let container = |name: &str| json!([{"name": name, "image": "registry.test/odd:1"}]);
    [
        ("odd-empty", json!({"spec": {"containers": container("primary")}})),
        ("odd-metadata", json!({"metadata": {"labels": {"a": "ü".len().to_string()}}, "spec": {"containers": container("x")}})),
        ("odd-many", json!({"spec": {"containers": (0..50).map(|n| json!({"name": format!("c{n}"), "image": "i"})).collect::<Vec<_>>()}})),
        ("odd-resources", json!({"spec": {"containers": [{"name": "default", "image": "i",
            "resources": {"requests": {"cpu": "1e-30", "example.com/none": "0"}}}]}})),
    ]
    .map(|(name, template)| {
        json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name}, "template": template})
    })
    .to_vec()
}

/// Quotas that leave room for the good tasks.
fn quotas() -> Vec<Value> {
    [
        ("odd-scopes", json!({"hard": {"pods": "1000"}, "scopes": ["BestEffort", "NotTerminating"]})),
        (
            "odd-selector",
            json!({"hard": {"pods": "1000"}, "scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["no-such-class"]}]}}),
        ),
        ("odd-resource", json!({"hard": {"count/widgets.example.com": "0", "requests.example.com/none": "1e3"}})),
        ("odd-large", json!({"hard": {"pods": "9e17", "services": "0"}})),
        ("odd-small", json!({"hard": {"configmaps": "0.000001", "secrets": "1n"}})),
        ("odd-nothing", json!({"hard": {}})),
    ]
    .map(|(name, spec)| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec}))
    .to_vec()
}

/// Objects of operators that their plugins cannot decode, or that are nested too deeply.
fn custom_objects() -> Vec<Value> {
    let nested = (0..100).fold(json!({}), |inner, _| json!({"a": {"b": inner}}));
    let job = |name: &str, spec: Value, status: Value| {
        json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": labelled(name, &json!({})),
            "spec": spec, "status": status})
    };
    vec![
        job("job-of-text", json!("text"), json!(7)),
        job("job-of-lists", json!([1, 2]), json!([])),
        job("job-nested", json!({}), nested),
        job("job-odd-status", json!({}), json!({"conditions": {"not": "a list"}, "replicaStatuses": "none"})),
        json!({"apiVersion": "ray.io/v1alpha7", "kind": "RayJob", "metadata": labelled("ray-odd", &json!({})), "spec": 1}),
        json!({"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
            "metadata": labelled("spark-odd", &json!({})), "spec": "text", "status": 3}),
    ]
}
