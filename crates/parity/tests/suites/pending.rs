//! The pending reason of an action: it is set while something blocks the action, and removed after that.

use aileron_action::TaskAction;
use aileron_parity::kubelet::status;
use aileron_parity::suite::{Server, Space, StatusView, Task};
use anyhow::{Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

aileron_parity::on_both!(the_pending_reason_follows_the_pod, a_full_quota_is_reported_until_quota_is_free);

fn waits_for(code: &str) -> impl Fn(&TaskAction) -> bool {
    move |action| action.pending().is_some_and(|(found, _)| found == code)
}

/// Patches the status of a pod, as its node or the scheduler would.
async fn patch_pod_status(space: &Space<'_>, pod: &str, status: &Value) -> Result<()> {
    space.pods.patch_status(pod, &PatchParams::default(), &Patch::Strategic(status)).await?;
    Ok(())
}

/// Only the test changes this pod.
async fn the_pending_reason_follows_the_pod(on: Server) -> Result<()> {
    let space = on.shared().await?.space("in-the-way").await?;
    space.submit(&Task::container("slow").attempts(&["pending"])).await?;
    space.until_pods(&["slow-0"]).await?;
    let pod = space.pods.get("slow-0").await?;

    patch_pod_status(
        &space,
        "slow-0",
        &status::unschedulable("0/3 nodes are available: 3 Insufficient cpu", Timestamp::now()),
    )
    .await?;
    let action = space.until("slow", "unschedulable", waits_for("Unschedulable")).await?;
    let (_, message) = action.pending().unwrap();
    ensure!(message.contains("pod slow-0") && message.contains("3 Insufficient cpu"), "{message}");

    let back_off = "Back-off pulling image \"registry.test/task:1\"";
    patch_pod_status(&space, "slow-0", &status::waiting(&pod, "ImagePullBackOff", back_off, Timestamp::now())).await?;
    let action = space.until("slow", "without its image", waits_for("ImagePull")).await?;
    let (_, message) = action.pending().unwrap();
    ensure!(message.contains(back_off), "{message}");

    patch_pod_status(&space, "slow-0", &status::running(&pod, Timestamp::now())).await?;
    let runs = |action: &TaskAction| action.reason() == "Executing" && action.pending().is_none();
    space.until("slow", "running, without a pending reason", runs).await?;
    space.delete("slow").await?;
    space.until_gone("slow").await
}

/// The test sets the used quota, because this bench has no ResourceQuota controller.
async fn a_full_quota_is_reported_until_quota_is_free(on: Server) -> Result<()> {
    let space = on.shared().await?.space("full-quota").await?;
    let quotas: Api<ResourceQuota> = Api::namespaced(space.admin.clone(), &space.namespace);
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}});
    quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    let used = async |count: &str| {
        let status = json!({"status": {"hard": {"pods": "1"}, "used": {"pods": count}}});
        quotas.patch_status("few", &PatchParams::default(), &Patch::Merge(status)).await
    };
    used("1").await?;
    space.submit(&Task::container("next")).await?;
    let action = space.until("next", "waiting for quota", waits_for("Quota")).await?;
    let (_, message) = action.pending().unwrap();
    ensure!(message.contains("few") && message.contains("pods"), "{message}");
    used("0").await?;
    let action = space.until_ended("next").await?;
    assert_eq!((action.outcome().unwrap().0.as_str(), action.status_or_default().attempts), ("Succeeded", 1));
    assert_eq!(action.pending(), None);
    Ok(())
}
