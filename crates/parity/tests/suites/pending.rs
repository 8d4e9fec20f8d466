//! Why an action waits: the reason comes when something is in the way, and goes with it.

use aileron_action::TaskAction;
use aileron_parity::kubelet::status;
use aileron_parity::suite::{Server, Shown, Space, Task};
use anyhow::{Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

aileron_parity::on_both!(what_is_in_the_way_is_told_until_it_is_gone, a_full_quota_is_told_until_there_is_room);

fn waits_for(code: &str) -> impl Fn(&TaskAction) -> bool {
    move |action| action.pending().is_some_and(|(found, _)| found == code)
}

/// Says something of a pod, as its node or the scheduler would.
async fn say(space: &Space<'_>, pod: &str, status: &Value) -> Result<()> {
    space.pods.patch_status(pod, &PatchParams::default(), &Patch::Strategic(status)).await?;
    Ok(())
}

/// Nobody touches this pod but the test.
async fn what_is_in_the_way_is_told_until_it_is_gone(on: Server) -> Result<()> {
    let space = on.shared().await?.space("in-the-way").await?;
    space.submit(&Task::container("slow").attempts(&["pending"])).await?;
    space.until_pods(&["slow-0"]).await?;
    let pod = space.pods.get("slow-0").await?;

    say(&space, "slow-0", &status::unschedulable("0/3 nodes are available: 3 Insufficient cpu", Timestamp::now()))
        .await?;
    let action = space.until("slow", "unschedulable", waits_for("Unschedulable")).await?;
    let (_, words) = action.pending().unwrap();
    ensure!(words.contains("pod slow-0") && words.contains("3 Insufficient cpu"), "{words}");

    let back_off = "Back-off pulling image \"registry.test/task:1\"";
    say(&space, "slow-0", &status::waiting(&pod, "ImagePullBackOff", back_off, Timestamp::now())).await?;
    let action = space.until("slow", "without its image", waits_for("ImagePull")).await?;
    let (_, words) = action.pending().unwrap();
    ensure!(words.contains(back_off), "{words}");

    say(&space, "slow-0", &status::running(&pod, Timestamp::now())).await?;
    let runs = |action: &TaskAction| action.reason() == "Executing" && action.pending().is_none();
    space.until("slow", "running, with nothing in its way", runs).await?;
    space.delete("slow").await?;
    space.until_gone("slow").await
}

/// Nobody counts quota on this bench, so the test says how much is used.
async fn a_full_quota_is_told_until_there_is_room(on: Server) -> Result<()> {
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
    let (_, words) = action.pending().unwrap();
    ensure!(words.contains("few") && words.contains("pods"), "{words}");
    used("0").await?;
    let action = space.until_ended("next").await?;
    assert_eq!((action.outcome().unwrap().0.as_str(), action.shown().attempts), ("Succeeded", 1));
    assert_eq!(action.pending(), None);
    Ok(())
}
