//! The latency between a change of an operator's object and the status of its action, and the requests that this needs.

use std::time::{Duration, Instant};

use aileron_parity::suite::{Executor, Observations, POLL_INTERVAL, Server, Space, StatusView, WAIT_TIMEOUT};
use aileron_sandbox::{Rules, install_definitions};
use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};

use super::kinds::{KINDS, Kind};

aileron_parity::on_both!(alone: a_change_of_any_kind_is_seen_at_once_without_requests);

/// Limit from the operator's write to the status of the action in a watch.
const WATCH_LATENCY: SignedDuration = SignedDuration::from_millis(200);
/// Jobs of each kind, with two changes each. The median is compared, because a busy machine may delay single changes.
const JOBS: usize = 5;
/// How often the changes of a kind are measured. Other programs on the machine may disturb a measurement.
const MEASUREMENTS: usize = 3;

/// The test writes the statuses itself, so that it knows the time of each change.
async fn a_change_of_any_kind_is_seen_at_once_without_requests(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("seen").await?;
    install_definitions(&space.admin, &Rules::builtin()).await?;
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    for kind in &KINDS {
        let mut medians = Vec::new();
        while medians.last().is_none_or(|median| *median >= WATCH_LATENCY) {
            ensure!(medians.len() < MEASUREMENTS, "{}: medians {medians:?}", kind.task_type);
            let mut delays = delays(kind, &space, medians.len()).await.context(kind.task_type)?;
            delays.sort();
            medians.push(delays[delays.len() / 2]);
        }
        println!("{}: {medians:?}", kind.task_type);
        for verb in ["get", "list"] {
            let requests = kind.requests(&space, verb)?;
            ensure!(requests.is_empty(), "{verb} {}: {requests:?}", kind.task_type);
        }
    }
    executor.stop().await
}

async fn delays(kind: &Kind, space: &Space<'_>, take: usize) -> Result<Vec<SignedDuration>> {
    let (objects, seen) = (kind.objects(space), space.observe());
    let names: Vec<_> = (0..JOBS).map(|number| format!("{}-{take}-{number}", kind.task_type)).collect();
    for name in &names {
        space.submit(&kind.task(name)).await?;
    }
    for name in &names {
        objects.until(&format!("{name}-0")).await?;
    }
    let mut delays = Vec::new();
    for name in &names {
        for (status, reason) in [(kind.running(), "Executing"), (kind.done(), "Completed")] {
            let written = Timestamp::now();
            objects.report(&format!("{name}-0"), &status).await?;
            delays.push(shown(&seen, name, reason).await?.duration_since(written));
        }
    }
    Ok(delays)
}

/// When the watch delivered the action with this reason.
async fn shown(seen: &Observations, name: &str, reason: &str) -> Result<Timestamp> {
    let begin = Instant::now();
    loop {
        if let Some(observation) = seen.of(name).into_iter().find(|observation| observation.action.reason() == reason) {
            return Ok(observation.at);
        }
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "{name} did not become {reason}");
        tokio::time::sleep(POLL_INTERVAL.min(Duration::from_millis(10))).await;
    }
}
