//! Creates that are refused all the same: quotas that nobody sees, and a server that has too much to do.

use std::time::{Duration, Instant};

use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_parity::suite::{Executor, Server, Space};
use aileron_sandbox::{Fault, Match};
use anyhow::{Context, Result};
use serde_json::json;

use crate::quota::{check, container, counting, refused, space_with, submit_all};

aileron_parity::on_both!(unseen_quotas_cost_a_handful_of_refusals);

const ROOM: usize = 10;
const TASKS: usize = 40;
/// How often one create may be refused.
const HANDFUL: usize = 5;
const LIFE: Duration = Duration::from_millis(700);

/// The real server lets everybody see everything, so there the executor is told not to look; the sandbox says no.
async fn unseen_quotas_cost_a_handful_of_refusals(on: Server) -> Result<()> {
    let bench = counting(on).await?;
    let space = space_with(&bench, "unseen", &json!({"pods": ROOM.to_string()})).await?;
    let mut settings = bench.settings();
    match bench.cluster.sandbox() {
        None => settings = settings.with(&["tasks", "launch-gate", "local-admission"], false),
        Some(sandbox) => {
            for verb in ["list", "watch"] {
                sandbox.faults().add(Fault::Times(Match::of(verb, "resourcequotas"), 403, usize::MAX));
            }
        }
    }
    let executor = Executor::start(&bench.cluster, &settings).await?;
    let begin = Instant::now();
    submit_all(&space, TASKS, |name| container(name, LIFE)).await?;
    check(&space.until_all_ended(TASKS, Duration::from_secs(60)).await?);
    let refused = refused(&space, "pods")?;
    println!("{on:?}: {TASKS} tasks took {:.1?} and {} refusals", begin.elapsed(), refused.len());
    let most = refused.iter().map(|name| refused.iter().filter(|other| *other == name).count()).max();
    assert!(most.is_some_and(|most| most <= HANDFUL), "{most:?} refusals of one: {refused:?}");
    assert!(refused.len() <= 2 * TASKS, "{} refusals of {TASKS} tasks", refused.len());
    assert_eq!(space.runs().len(), TASKS, "each pod runs once");
    executor.stop().await
}

/// Only the sandbox can be told to be overloaded; the answers are those of the real server.
#[tokio::test]
async fn an_overloaded_server_costs_no_attempt() -> Result<()> {
    const SOME: usize = 30;
    let bench = Server::Sandbox.bench().await?;
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    let space = bench.space("overloaded").await?;
    let faults = bench.cluster.sandbox().context("a sandbox")?.faults();
    // More than the two creates of pods in a row: pauses grow, and each is one refusal.
    for (verb, resource, code, times) in [
        ("create", "pods", 429, 2),
        ("create", "pods", 503, 1),
        ("patch", "taskactions", 429, 20),
        ("patch", "taskactions", 503, 20),
        ("watch", "pods", 503, 2),
    ] {
        faults.add(Fault::Times(Match::of(verb, resource), code, times));
    }
    faults.drop_watches();
    submit_all(&space, SOME, |name| container(name, LIFE)).await?;
    check(&space.until_all_ended(SOME, Duration::from_secs(60)).await?);
    assert_eq!(refused(&space, "pods")?.len(), 3, "one create at a time tries how things are");
    let told = |code: u16| -> Result<usize> {
        Ok(space.requests()?.iter().filter(|asked| asked.resource == "taskactions" && asked.code == code).count())
    };
    assert_eq!((told(429)?, told(503)?), (20, 20), "a refused write is done again");
    assert!((0..SOME).any(|number| waited(&space, &format!("t{number:04}"))));
    assert_eq!(space.runs().len(), SOME, "each pod runs once");
    executor.stop().await
}

fn waited(space: &Space<'_>, name: &str) -> bool {
    space.recorded(name).iter().any(|recorded| {
        let mut words = recorded.event.cluster_events.iter().map(|event| &event.message);
        recorded.event.phase() == ActionPhase::WaitingForResources
            && words.any(|words| words.starts_with("waiting for the API server: "))
    })
}
