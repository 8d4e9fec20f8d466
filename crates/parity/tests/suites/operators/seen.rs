//! How soon a change of an operator's object shows in the action, and what finding out costs.

use std::time::{Duration, Instant};

use aileron_parity::suite::{Executor, LOOK_EVERY, PATIENCE, Server, Shown, Sightings, Space};
use aileron_sandbox::{Rules, install_definitions};
use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};

use super::kinds::{KINDS, Kind};

aileron_parity::on_both!(a_change_of_any_kind_shows_at_once_and_nobody_asks_for_it);

/// From the operator's write to the action as a watcher sees it.
const AT_ONCE: SignedDuration = SignedDuration::from_millis(200);
/// Jobs of each kind, two changes each. The median of them counts: a single one may meet a busy machine.
const JOBS: usize = 5;

/// Nobody simulates operators here: the test says when something changes.
async fn a_change_of_any_kind_shows_at_once_and_nobody_asks_for_it(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("seen").await?;
    install_definitions(&space.admin, &Rules::builtin()).await?;
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    for kind in &KINDS {
        let mut delays = delays(kind, &space).await.context(kind.task_type)?;
        delays.sort();
        let median = delays[delays.len() / 2];
        println!("{}: {median:?}", kind.task_type);
        ensure!(median < AT_ONCE, "{}: {median:?} in the middle of {delays:?}", kind.task_type);
        for verb in ["get", "list"] {
            let asked = kind.requests(&space, verb)?;
            ensure!(asked.is_empty(), "{verb} {}: {asked:?}", kind.task_type);
        }
    }
    executor.stop().await
}

async fn delays(kind: &Kind, space: &Space<'_>) -> Result<Vec<SignedDuration>> {
    let (objects, seen) = (kind.objects(space), space.sightings());
    let names: Vec<_> = (0..JOBS).map(|number| format!("{}-{number}", kind.task_type)).collect();
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

/// When a watch showed the action with this reason.
async fn shown(seen: &Sightings, name: &str, reason: &str) -> Result<Timestamp> {
    let begin = Instant::now();
    loop {
        if let Some(sighting) = seen.of(name).into_iter().find(|sighting| sighting.action.reason() == reason) {
            return Ok(sighting.at);
        }
        ensure!(begin.elapsed() < PATIENCE, "{name} never was {reason}");
        tokio::time::sleep(LOOK_EVERY.min(Duration::from_millis(10))).await;
    }
}
