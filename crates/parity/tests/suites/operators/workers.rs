//! Pods that an operator makes for a task: what is in their way is in the task's way, and shows there at once.

use std::time::Duration;

use aileron_action::TaskAction;
use aileron_parity::kubelet::status;
use aileron_parity::suite::{Server, Shown, Space, attempts};
use aileron_sandbox::install_definitions;
use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::kinds::Kind;

aileron_parity::on_both!(a_worker_that_no_node_takes_shows_in_its_task_at_once);

/// Longer than any watch and the second for which words are held back, far shorter than any look that is not caused by a
/// change.
const AT_ONCE: Duration = Duration::from_secs(15);

/// Its labels say `train-model-1`, so the name of its action cannot be made from them.
const ACTION: &str = "train model/1";

/// Nothing but the worker changes: the operator says nothing of its job.
async fn a_worker_that_no_node_takes_shows_in_its_task_at_once(on: Server) -> Result<()> {
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
    let no_room = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu";
    say(&space, &status::unschedulable(no_room, Timestamp::now())).await?;
    let unschedulable = |action: &TaskAction| action.pending().is_some_and(|(code, _)| code == "Unschedulable");
    let action = space.within(AT_ONCE, "torn", "without room", unschedulable).await?;
    let (_, words) = action.pending().unwrap();
    ensure!(words.contains("pod torn-0-worker-0") && words.contains(no_room), "{words}");

    say(&space, &status::running(&worker, Timestamp::now())).await?;
    space.within(AT_ONCE, "torn", "about to start again", starts).await?;
    // Looking into pods costs nothing.
    assert_eq!(kind.requests(&space, "get")?, Vec::<String>::new());
    space.delete("torn").await?;
    space.until_gone("torn").await
}

/// The first worker, as the operator makes it from the template in its job.
fn worker(space: &Space<'_>, job: &DynamicObject) -> Result<Pod> {
    let template = &job.data["spec"]["pytorchReplicaSpecs"]["Worker"]["template"];
    let labels = &template["metadata"]["labels"];
    ensure!(labels["action"] == "train-model-1", "{labels}");
    let name = template["spec"]["containers"][0]["name"].as_str().context("a container")?;
    let (script, words) = attempts(&["pending"]);
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": "torn-0-worker-0", "namespace": space.namespace, "labels": labels,
            "annotations": {script: words},
            "ownerReferences": [{
                "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "torn-0", "uid": job.metadata.uid,
                "controller": true,
            }],
        },
        "spec": {"containers": [{"name": name, "image": "registry.test/task:1"}]},
    }))?)
}

/// Says something of the worker, as the scheduler or its node would.
async fn say(space: &Space<'_>, status: &Value) -> Result<()> {
    space.pods.patch_status("torn-0-worker-0", &PatchParams::default(), &Patch::Strategic(status)).await?;
    Ok(())
}
