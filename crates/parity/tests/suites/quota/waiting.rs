//! A namespace that is full: its tasks say so, ask nothing of anybody, leave when deleted, and go when there is room.

use std::time::{Duration, Instant};

use aileron_parity::suite::{LOOK_EVERY, Server, Shown, Task};
use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::quota::{add_quota, check_refused, limited, space_with, submit_all};

aileron_parity::on_both!(waiting_costs_no_requests);

const WAITING: usize = 1000;
/// How long nothing may happen.
const STILL: Duration = Duration::from_secs(3);

async fn waiting_costs_no_requests(on: Server) -> Result<()> {
    let bench = limited(on).await?;
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
        let mut waiting = actions.iter().filter(|action| action.shown().plugin_phase == "PhaseWaitingForResources");
        if waiting.clone().count() == WAITING {
            break waiting.next().cloned().unwrap();
        }
        if begin.elapsed() > Duration::from_secs(90) {
            bail!("only {} of {WAITING} wait after {:?}", waiting.count(), begin.elapsed());
        }
        tokio::time::sleep(LOOK_EVERY * 10).await;
    };
    let conditions = one.shown().conditions;
    let shown = conditions.iter().find(|condition| condition.type_ == "Progressing").unwrap();
    assert_eq!((shown.status.as_str(), shown.reason.as_str()), ("True", "Queued"));
    assert_eq!(shown.message, "waiting for quota team: requested pods=1, used pods=1, limited pods=1");
    println!("{on:?}: {WAITING} tasks wait after {:.1?}", begin.elapsed());

    // What is under way is done soon. After that, quotas that come and change are no news to them.
    tokio::time::sleep(STILL).await;
    let before = space.requests()?.len();
    add_quota(&space, "second", &json!({"pods": "1"})).await?;
    tokio::time::sleep(STILL).await;
    let asked = space.requests()?.split_off(before);
    assert!(asked.is_empty(), "{} requests while all wait: {:?}", asked.len(), &asked[..asked.len().min(5)]);

    // The oldest is deleted, and then there is room: the next one goes, and nobody tries in vain.
    space.delete("t0000").await?;
    space.until_gone("t0000").await?;
    space.pods.delete("foreign", &DeleteParams::default()).await?;
    let begin = Instant::now();
    while !space.runs().iter().any(|run| run.name == "t0001-0") {
        if begin.elapsed() > Duration::from_secs(20) {
            bail!("nobody goes although there is room\n{}", space.dump("t0001").await);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    check_refused(&space, "pods")?;
    // The others are not worth waiting for; they would go one by one.
    space.actions.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    Ok(())
}
