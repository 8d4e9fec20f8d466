//! Pods that an operator creates for a task: the task reports at once why such a pod cannot start.

use aileron_action::TaskAction;
use aileron_parity::kubelet::status;
use aileron_parity::suite::{Server, Space, StatusView, attempts};
use aileron_sandbox::install_definitions;
use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::kinds::Kind;

aileron_parity::on_both!(an_unschedulable_worker_is_reported_by_its_task_at_once);

/// The label is `train-model-1`, so the name of the action cannot be derived from the labels.
const ACTION: &str = "train model/1";

/// Only the worker pod changes; the operator does not write the status of the job.
async fn an_unschedulable_worker_is_reported_by_its_task_at_once(on: Server) -> Result<()> {
    let space = on.shared().await?.space("workers").await?;
    let kind = Kind::of("pytorch");
    install_definitions(&space.admin, &[kind.rules()]).await?;
    let mut action = space.object(&kind.task("torn"));
    action.spec.action_name = ACTION.to_owned();
    space.create(&action).await?;
    let job = kind.objects(&space).until("torn-0").await?;
    let starts = |action: &TaskAction| action.pending().is_some_and(|(code, _)| code == "Starting");
    space.until("torn", "about to start", starts).await?;

    let worker = worker(&space, &job)?;
    let worker = space.pods.create(&PostParams::default(), &worker).await?;
    let reason = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu";
    patch_pod_status(&space, &status::unschedulable(reason, Timestamp::now())).await?;
    let unschedulable = |action: &TaskAction| action.pending().is_some_and(|(code, _)| code == "Unschedulable");
    let action = space.until("torn", "unschedulable", unschedulable).await?;
    let (_, message) = action.pending().unwrap();
    ensure!(message.contains("pod torn-0-worker-0") && message.contains(reason), "{message}");

    patch_pod_status(&space, &status::running(&worker, Timestamp::now())).await?;
    space.until("torn", "about to start again", starts).await?;
    // Reading the pods needs no requests.
    assert_eq!(kind.requests(&space, "get")?, Vec::<String>::new());
    space.delete("torn").await?;
    space.until_gone("torn").await
}

/// The first worker pod, as the operator creates it from the template in the job.
fn worker(space: &Space<'_>, job: &DynamicObject) -> Result<Pod> {
    let template = &job.data["spec"]["pytorchReplicaSpecs"]["Worker"]["template"];
    let labels = &template["metadata"]["labels"];
    ensure!(labels["action"] == "train-model-1", "{labels}");
    let name = template["spec"]["containers"][0]["name"].as_str().context("a container")?;
    let (key, script) = attempts(&["pending"]);
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": "torn-0-worker-0", "namespace": space.namespace, "labels": labels,
            "annotations": {key: script},
            "ownerReferences": [{
                "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "torn-0", "uid": job.metadata.uid,
                "controller": true,
            }],
        },
        "spec": {"containers": [{"name": name, "image": "registry.test/task:1"}]},
    }))?)
}

/// Patches the status of the worker pod, as the scheduler or its node would.
async fn patch_pod_status(space: &Space<'_>, status: &Value) -> Result<()> {
    space.pods.patch_status("torn-0-worker-0", &PatchParams::default(), &Patch::Strategic(status)).await?;
    Ok(())
}
