//! A namespace without free quota: its tasks report it, send no requests while they wait, can be deleted, and start when quota
//! is free.

use std::time::{Duration, Instant};

use aileron_parity::suite::{POLL_INTERVAL, Server, StatusView, Task};
use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::quota::{add_quota, check_refused, quota_bench, space_with, submit_all};

aileron_parity::on_both!(waiting_costs_no_requests);

const WAITING: usize = 1000;
/// How long the executor must send no requests.
const QUIET_TIME: Duration = Duration::from_secs(3);

async fn waiting_costs_no_requests(on: Server) -> Result<()> {
    let bench = quota_bench(on).await?;
    let space = space_with(bench, "full", &json!({"pods": "1"})).await?;
    let foreign: Pod = serde_json::from_value(json!({
        "metadata": {"name": "foreign", "annotations": {"kubelet.aileron.test/end": "run"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))?;
    space.pods.create(&PostParams::default(), &foreign).await?;
    let begin = Instant::now();
    submit_all(&space, WAITING, |name| Task::container(name).attempts(&["succeed"])).await?;
    let one = loop {
        let actions = space.actions.list(&ListParams::default()).await?.items;
        let mut waiting =
            actions.iter().filter(|action| action.status_or_default().plugin_phase == "PhaseWaitingForResources");
        if waiting.clone().count() == WAITING {
            break waiting.next().cloned().unwrap();
        }
        if begin.elapsed() > Duration::from_secs(90) {
            bail!("only {} of {WAITING} wait after {:?}", waiting.count(), begin.elapsed());
        }
        tokio::time::sleep(POLL_INTERVAL * 10).await;
    };
    let conditions = one.status_or_default().conditions;
    let shown = conditions.iter().find(|condition| condition.type_ == "Progressing").unwrap();
    assert_eq!((shown.status.as_str(), shown.reason.as_str()), ("True", "Queued"));
    assert_eq!(shown.message, "waiting for quota team: requested pods=1, used pods=1, limited pods=1");
    println!("{on:?}: {WAITING} tasks wait after {:.1?}", begin.elapsed());

    // Requests in flight end soon. After that, new or changed quotas cause no requests of waiting tasks.
    tokio::time::sleep(QUIET_TIME).await;
    let before = space.requests()?.len();
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
        if begin.elapsed() > Duration::from_secs(20) {
            bail!("no task starts although quota is free\n{}", space.dump("t0001").await);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    check_refused(&space, "pods")?;
    // The other tasks are not awaited: they would run one by one.
    space.actions.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    Ok(())
}
