//! Creates that are refused all the same: quotas that nobody sees, and a server that has too much to do.

use std::time::{Duration, Instant};

use aileron_apiserver::{Fault, Match};
use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_parity::cluster::{Front, Refuse};
use aileron_parity::suite::{Executor, PATIENCE, Server, Space};
use anyhow::Result;
use serde_json::json;

use crate::quota::{check, container, counting, refused, space_with, submit_all};

aileron_parity::on_both!(
    unseen_quotas_cost_a_handful_of_refusals,
    an_overloaded_server_costs_no_attempt,
    a_refused_create_comes_back_when_it_was_asked_to
);

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

/// The server has too much to do, or somebody in front of it says so.
async fn an_overloaded_server_costs_no_attempt(on: Server) -> Result<()> {
    const SOME: usize = 30;
    let bench = on.bench().await?;
    let front = Front::start(&bench.cluster).await?;
    let executor = Executor::start_with(front.client()?, &bench.settings(), std::convert::identity).await?;
    let space = bench.space("overloaded").await?;
    // More than the two creates of pods in a row: pauses grow, and each is one refusal.
    for (verb, resource, code, times) in [
        ("create", "pods", 429, 2),
        ("create", "pods", 503, 1),
        ("patch", "taskactions", 429, 20),
        ("patch", "taskactions", 503, 20),
        ("watch", "pods", 503, 2),
    ] {
        front.refuse(Refuse::of(verb, resource, code, times).retry_after(1));
    }
    front.drop_watches();
    submit_all(&space, SOME, |name| container(name, LIFE)).await?;
    check(&space.until_all_ended(SOME, Duration::from_secs(60)).await?);
    let refused = |verb: &str, resource: &str, code: u16| {
        let passed = front.passed().into_iter().filter(|passed| passed.refused).map(|passed| passed.record);
        passed.filter(|asked| asked.verb == verb && asked.resource == resource && asked.code == code).count()
    };
    let creates = (refused("create", "pods", 429), refused("create", "pods", 503));
    assert_eq!(creates, (2, 1), "one create at a time tries how things are");
    let writes = (refused("patch", "taskactions", 429), refused("patch", "taskactions", 503));
    assert_eq!(writes, (20, 20), "a refused write is done again");
    assert_eq!(refused("watch", "pods", 503), 2, "a watch that is refused is opened again");
    assert!((0..SOME).any(|number| waited(&space, &format!("t{number:04}"))));
    assert_eq!(space.runs().len(), SOME, "each pod runs once");
    executor.stop().await
}

/// Whoever refuses says when to come back, which is later than the executor would have by itself.
async fn a_refused_create_comes_back_when_it_was_asked_to(on: Server) -> Result<()> {
    /// The first pause is one second and a part of it.
    const LATER: u32 = 4;
    let bench = on.bench().await?;
    let front = Front::start(&bench.cluster).await?;
    let executor = Executor::start_with(front.client()?, &bench.settings(), std::convert::identity).await?;
    for code in [429, 503] {
        let space = bench.space(&format!("later-{code}")).await?;
        front.refuse(Refuse::of("create", "pods", code, 1).within(&space.namespace).retry_after(LATER));
        submit_all(&space, 1, |name| container(name, LIFE)).await?;
        check(&space.until_all_ended(1, PATIENCE).await?);
        let mut creates = front.passed();
        creates.retain(|it| (it.record.verb.as_str(), it.record.resource.as_str()) == ("create", "pods"));
        creates.retain(|it| it.record.namespace == space.namespace);
        let codes: Vec<_> = creates.iter().map(|it| it.record.code).collect();
        assert_eq!(codes, [code, 201]);
        let gap = creates[1].at - creates[0].at;
        assert!(gap >= Duration::from_secs(LATER.into()), "{code}: tried again after {gap:?}");
        assert!(waited(&space, "t0000"));
    }
    executor.stop().await
}

fn waited(space: &Space<'_>, name: &str) -> bool {
    space.recorded(name).iter().any(|recorded| {
        let mut words = recorded.event.cluster_events.iter().map(|event| &event.message);
        recorded.event.phase() == ActionPhase::WaitingForResources
            && words.any(|words| words.starts_with("waiting for the API server: "))
    })
}
