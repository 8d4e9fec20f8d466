//! The API server restarts while tasks run, or refuses watches for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use aileron_parity::cluster::{FaultyAnswer, Proxy, RefusalRule};
use aileron_parity::kubelet::status;
use aileron_parity::suite::{Executor, POLL_INTERVAL, Server, Space, StatusView, Task, WAIT_TIMEOUT};
use anyhow::{Result, ensure};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::Value;

aileron_parity::on_both!(a_restart_of_the_api_server_harms_no_task, changes_during_a_watch_outage_are_seen);

async fn a_restart_of_the_api_server_harms_no_task(on: Server) -> Result<()> {
    const EACH: usize = 6;
    let bench = on.bench().await?;
    let space = bench.space("outage").await?;
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    // Some tasks end during the outage, some while watches are reopened, some long after.
    let kinds: [(&str, &[&str]); 3] =
        [("short", &["succeed@600"]), ("long", &["succeed@4000"]), ("again", &["fail:1@1200", "succeed@2500"])];
    for (kind, attempts) in kinds {
        for number in 0..EACH {
            space.submit(&Task::container(&format!("{kind}-{number}")).retries(1).attempts(attempts)).await?;
        }
    }
    space.until("long-0", "running", |action| action.reason() == "Executing").await?;
    bench.cluster.restart_apiserver().await?;
    // A task that is submitted while the executor reconnects.
    space.submit(&Task::container("after")).await?;
    let actions = space.until_all_ended(3 * EACH + 1).await?;
    for action in &actions {
        let name = action.name_any();
        assert_eq!(action.outcome().unwrap().0, "Succeeded", "{name}: {}", action.summary());
        assert_eq!(action.status_or_default().attempts, if name.starts_with("again") { 2 } else { 1 }, "{name}");
    }
    let mut runs: Vec<_> = space.runs().into_iter().map(|run| run.name).collect();
    let started = runs.len();
    runs.sort();
    runs.dedup();
    assert_eq!((runs.len(), started), (4 * EACH + 1, 4 * EACH + 1), "a pod ran twice, or not at all");
    executor.check()?;
    executor.stop().await
}

/// Watches are ended and refused for a while. The sandbox also drops its history of changes, so that it answers 410 (Gone)
/// to a watch from an old resourceVersion. A real server does so only after minutes.
async fn changes_during_a_watch_outage_are_seen(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("unwatched").await?;
    let proxy = Proxy::start(&bench.cluster).await?;
    let executor = Executor::start_with(proxy.client()?, &bench.settings(), std::convert::identity).await?;
    // Only the test changes these pods. Nothing writes outputs, so the tasks declare none.
    for name in ["ends", "goes", "leaves"] {
        let mut task = Task::container(name).attempts(&["pending"]);
        task.template.interface = None;
        space.submit(&task).await?;
    }
    space.until_pods(&["ends-0", "goes-0", "leaves-0"]).await?;
    for name in ["ends", "goes", "leaves"] {
        let pod = format!("{name}-0");
        patch_pod_status(&space, &pod, &status::running(&space.pods.get(&pod).await?, Timestamp::now())).await?;
        space.until(name, "running", |action| action.reason() == "Executing").await?;
    }

    let is_refusing = Arc::new(AtomicBool::new(true));
    let refuse = Arc::clone(&is_refusing);
    proxy.refuse(RefusalRule {
        matches: Box::new(move |request| {
            refuse.load(Ordering::Relaxed) && ["list", "watch"].contains(&request.verb.as_str())
        }),
        answer: FaultyAnswer::Refused { code: 503, retry_after: None },
        times: usize::MAX,
    });
    proxy.drop_watches();
    let first = space.pods.get("goes-0").await?.metadata.uid;
    space.pods.delete("goes-0", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await?;
    let ended = status::exit(&space.pods.get("ends-0").await?, 0, "Completed", "", &[], Timestamp::now());
    patch_pod_status(&space, "ends-0", &ended).await?;
    space.delete("leaves").await?;
    space.submit(&Task::container("comes")).await?;
    if let Some(sandbox) = bench.cluster.sandbox() {
        sandbox.store().compact();
    }
    let since = proxy.requests().len();
    is_refusing.store(false, Ordering::Relaxed);

    for name in ["ends", "comes"] {
        let action = space.until_ended(name).await?;
        assert_eq!(
            (action.outcome().unwrap().0.as_str(), action.status_or_default().attempts),
            ("Succeeded", 1),
            "{name}"
        );
    }
    space.until_gone("leaves").await?;
    let begin = Instant::now();
    while space.pods.get_opt("goes-0").await?.is_none_or(|pod| pod.metadata.uid == first) {
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "the lost pod was not created again\n{}", space.dump("goes").await);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let listed = proxy.requests().into_iter().skip(since).map(|request| request.record);
    let listed = listed.filter(|record| record.verb == "list" && record.code == 200).map(|record| record.resource);
    let listed: Vec<_> = listed.filter(|name| ["pods", "taskactions"].contains(&name.as_str())).collect();
    assert_eq!(listed.is_empty(), on == Server::Real, "after 410 the executor must list again: {listed:?}");
    executor.check()?;
    executor.stop().await
}

/// Patches the status of a pod, as its node would.
async fn patch_pod_status(space: &Space<'_>, pod: &str, status: &Value) -> Result<()> {
    space.pods.patch_status(pod, &PatchParams::default(), &Patch::Strategic(status)).await?;
    Ok(())
}
