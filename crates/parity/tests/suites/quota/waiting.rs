//! A namespace without free quota: its tasks report it, send no requests while they wait, can be deleted, and start when quota
//! is free.

use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use aileron_parity::suite::{POLL_INTERVAL, Progress, Server, Space, StatusView, Task, WAIT_TIMEOUT};
use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::quota::{add_quota, check_refused, quota_bench, submit_all, until_quota};

aileron_parity::on_both!(waiting_costs_no_requests);

const WAITING: usize = 1000;
/// How long the executor must send no requests.
const QUIET_TIME: Duration = Duration::from_secs(3);

async fn waiting_costs_no_requests(on: Server) -> Result<()> {
    let bench = quota_bench(on).await?;
    let space = bench.space("full").await?;
    let foreign: Pod = serde_json::from_value(json!({
        "metadata": {"name": "foreign", "annotations": {"kubelet.aileron.test/end": "run"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))?;
    space.pods.create(&PostParams::default(), &foreign).await?;
    // The ResourceQuota controller must have seen the pod. Otherwise its next count would be too low for a moment, and a task
    // would start instead of waiting.
    add_quota(&space, "team", &json!({"pods": "1"})).await?;
    until_quota(&space, "team", "full", |quota| {
        quota.status.as_ref().and_then(|status| status.used.as_ref()?.get("pods")).is_some_and(|used| used.0 == "1")
    })
    .await?;
    let begin = Instant::now();
    submit_all(&space, WAITING, |name| Task::container(name).attempts(&["succeed"])).await?;
    let one = until_all_wait(&space).await?;
    let conditions = one.status_or_default().conditions;
    let shown = conditions.iter().find(|condition| condition.type_ == "Progressing").unwrap();
    assert_eq!((shown.status.as_str(), shown.reason.as_str()), ("True", "Queued"));
    assert_eq!(shown.message, "waiting for quota team: requested pods=1, used pods=1, limited pods=1");
    println!("{on:?}: {WAITING} tasks wait after {:.1?}", begin.elapsed());

    // Requests in flight end soon. After that, new or changed quotas cause no requests of waiting tasks.
    let before = until_quiet(&space).await?;
    add_quota(&space, "second", &json!({"pods": "1"})).await?;
    tokio::time::sleep(QUIET_TIME).await;
    let requests = space.requests()?.split_off(before);
    assert!(
        requests.is_empty(),
        "{} requests while all tasks wait: {:?}",
        requests.len(),
        &requests[..requests.len().min(5)]
    );

    // The oldest task is deleted, then quota becomes free: the next task starts, and no create is refused.
    space.delete("t0000").await?;
    space.until_gone("t0000").await?;
    space.pods.delete("foreign", &DeleteParams::default()).await?;
    let begin = Instant::now();
    while !space.runs().iter().any(|run| run.name == "t0001-0") {
        if begin.elapsed() > WAIT_TIMEOUT {
            bail!("no task starts although quota is free\n{}", space.dump("t0001").await);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    check_refused(&space, "pods")?;
    // The other tasks are not awaited: they would run one by one. A busy API server may take longer for all of them than a
    // request may; what is left goes with the cluster.
    let _ = space.actions.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    Ok(())
}

/// Waits until all tasks wait for quota, for as long as their number grows. Returns one of them.
async fn until_all_wait(space: &Space<'_>) -> Result<TaskAction> {
    let mut progress = Progress::start();
    loop {
        let actions = space.actions.list(&ListParams::default()).await?.items;
        let waits = |action: &&TaskAction| action.status_or_default().plugin_phase == "PhaseWaitingForResources";
        let waiting = actions.iter().filter(waits).count();
        if waiting == WAITING {
            return actions.into_iter().next().context("an action");
        }
        if progress.has_stopped(waiting) {
            let other = actions.iter().find(|action| !waits(action)).map(ResourceExt::name_any).unwrap_or_default();
            bail!("only {waiting} of {WAITING} wait; {other} does not:\n{}", space.dump(&other).await);
        }
        tokio::time::sleep(POLL_INTERVAL * 10).await;
    }
}

/// Waits until the executor has sent no requests for [`QUIET_TIME`]. Returns their number.
async fn until_quiet(space: &Space<'_>) -> Result<usize> {
    let begin = Instant::now();
    let mut before = space.requests()?.len();
    loop {
        tokio::time::sleep(QUIET_TIME).await;
        let requests = space.requests()?.len();
        if requests == before {
            return Ok(requests);
        }
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "the executor sends requests all the time");
        before = requests;
    }
}
