//! Refused creates: quotas that the executor may not read, and an overloaded server.

use std::time::{Duration, Instant};

use aileron_apiserver::{Fault, Match};
use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_parity::cluster::{Proxy, RefusalRule};
use aileron_parity::suite::{Executor, Server, Space};
use anyhow::Result;
use serde_json::json;

use crate::quota::{check, container, counting, refused, space_with, submit_all};

aileron_parity::on_both!(
    unreadable_quotas_cost_few_refusals,
    an_overloaded_server_costs_no_attempt,
    a_refused_create_is_retried_after_retry_after
);

const QUOTA: usize = 10;
const TASKS: usize = 40;
/// How often the create of one pod may be refused.
const MAX_REFUSALS: usize = 5;
const RUN_TIME: Duration = Duration::from_millis(700);

/// On the sandbox, reading quotas is forbidden. The real server allows every read, so there the executor is configured
/// without local admission.
async fn unreadable_quotas_cost_few_refusals(on: Server) -> Result<()> {
    let bench = counting(on).await?;
    let space = space_with(&bench, "unseen", &json!({"pods": QUOTA.to_string()})).await?;
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
    submit_all(&space, TASKS, |name| container(name, RUN_TIME)).await?;
    check(&space.until_all_ended(TASKS).await?);
    let refused = refused(&space, "pods")?;
    println!("{on:?}: {TASKS} tasks took {:.1?} and {} refusals", begin.elapsed(), refused.len());
    let most = refused.iter().map(|name| refused.iter().filter(|other| *other == name).count()).max();
    assert!(most.is_some_and(|most| most <= MAX_REFUSALS), "{most:?} refusals of one pod: {refused:?}");
    assert!(refused.len() <= 2 * TASKS, "{} refusals of {TASKS} tasks", refused.len());
    assert_eq!(space.runs().len(), TASKS, "each pod runs once");
    executor.stop().await
}

/// The server, or a proxy in proxy of it, answers 429 and 503.
async fn an_overloaded_server_costs_no_attempt(on: Server) -> Result<()> {
    const SOME: usize = 30;
    let bench = on.bench().await?;
    let proxy = Proxy::start(&bench.cluster).await?;
    let executor = Executor::start_with(proxy.client()?, &bench.settings(), std::convert::identity).await?;
    let space = bench.space("overloaded").await?;
    // Few refused creates, because the back-off grows with each of them; many refused status patches.
    for (verb, resource, code, times) in [
        ("create", "pods", 429, 2),
        ("create", "pods", 503, 1),
        ("patch", "taskactions", 429, 20),
        ("patch", "taskactions", 503, 20),
        ("watch", "pods", 503, 2),
    ] {
        proxy.refuse(RefusalRule::of(verb, resource, code, times).retry_after(1));
    }
    proxy.drop_watches();
    submit_all(&space, SOME, |name| container(name, RUN_TIME)).await?;
    check(&space.until_all_ended(SOME).await?);
    let refused = |verb: &str, resource: &str, code: u16| {
        let refused = proxy.requests().into_iter().filter(|request| request.refused).map(|request| request.record);
        refused.filter(|record| record.verb == verb && record.resource == resource && record.code == code).count()
    };
    let creates = (refused("create", "pods", 429), refused("create", "pods", 503));
    assert_eq!(creates, (2, 1), "during back-off only one create at a time is sent");
    let writes = (refused("patch", "taskactions", 429), refused("patch", "taskactions", 503));
    assert_eq!(writes, (20, 20), "a refused write must be retried");
    assert_eq!(refused("watch", "pods", 503), 2, "a refused watch must be opened again");
    assert!((0..SOME).any(|number| waited(&space, &format!("t{number:04}"))));
    assert_eq!(space.runs().len(), SOME, "each pod runs once");
    executor.stop().await
}

/// The `Retry-After` of the refusal is longer than the executor's own back-off.
async fn a_refused_create_is_retried_after_retry_after(on: Server) -> Result<()> {
    /// Seconds of `Retry-After`; the executor's first back-off is between one and two seconds.
    const RETRY_AFTER: u32 = 4;
    let bench = on.bench().await?;
    let proxy = Proxy::start(&bench.cluster).await?;
    let executor = Executor::start_with(proxy.client()?, &bench.settings(), std::convert::identity).await?;
    for code in [429, 503] {
        let space = bench.space(&format!("later-{code}")).await?;
        proxy.refuse(RefusalRule::of("create", "pods", code, 1).within(&space.namespace).retry_after(RETRY_AFTER));
        submit_all(&space, 1, |name| container(name, RUN_TIME)).await?;
        check(&space.until_all_ended(1).await?);
        let mut creates = proxy.requests();
        creates.retain(|it| (it.record.verb.as_str(), it.record.resource.as_str()) == ("create", "pods"));
        creates.retain(|it| it.record.namespace == space.namespace);
        let codes: Vec<_> = creates.iter().map(|it| it.record.code).collect();
        assert_eq!(codes, [code, 201]);
        let gap = creates[1].at - creates[0].at;
        assert!(gap >= Duration::from_secs(RETRY_AFTER.into()), "{code}: tried again after {gap:?}");
        assert!(waited(&space, "t0000"));
    }
    executor.stop().await
}

fn waited(space: &Space<'_>, name: &str) -> bool {
    space.recorded(name).iter().any(|recorded| {
        let mut messages = recorded.event.cluster_events.iter().map(|event| &event.message);
        recorded.event.phase() == ActionPhase::WaitingForResources
            && messages.any(|message| message.starts_with("waiting for the API server: "))
    })
}
