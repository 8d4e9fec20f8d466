//! Tokens of pools: never one too many, whoever gives them out, and none lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aileron_executor::action::TaskAction;
use aileron_executor::config::sections::pools::PoolConfig;
use aileron_executor::controller::memory::ActionKey;
use aileron_executor::gate::Roster;
use aileron_executor::pools::cluster::KubeTokens;
use aileron_executor::pools::desk::TokenDesk;
use aileron_executor::pools::limits::Account;
use aileron_executor::pools::{Claim, Pools};
use aileron_parity::suite::{Executor, LOOK_EVERY, PATIENCE, Server, Shown, Space, Task};
use aileron_sandbox::{Fault, Match};
use anyhow::{Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;

aileron_parity::on_both!(
    tasks_wait_for_a_token_and_hold_it_until_they_have_ended,
    two_who_do_not_know_of_one_another_give_out_no_token_too_many
);

const TOKENS: usize = 2;
const TASKS: usize = 6;

async fn tokens(space: &Space<'_>) -> Result<Vec<Lease>> {
    let labelled = ListParams::default().labels("flyte.org/pool=licences");
    Ok(Api::<Lease>::all(space.admin.clone()).list(&labelled).await?.items)
}

async fn until_all_are_back(space: &Space<'_>) -> Result<()> {
    let begin = Instant::now();
    loop {
        let held: Vec<_> = tokens(space).await?.iter().map(ResourceExt::name_any).collect();
        if held.is_empty() {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "never given back: {held:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Neither tokens nor pods at work are more than there may be.
async fn check(space: &Space<'_>) -> Result<usize> {
    let held = tokens(space).await?;
    ensure!(held.len() <= TOKENS, "{held:#?}");
    for lease in &held {
        ensure!(lease.owner_references().iter().any(|owner| owner.kind == "TaskAction"), "{lease:?}");
    }
    let pods = space.pods.list(&ListParams::default()).await?.items;
    let phase = |pod: &k8s_openapi::api::core::v1::Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    let ended = |pod: &&_| phase(pod).is_some_and(|phase| ["Succeeded", "Failed"].contains(&phase.as_str()));
    let at_work: Vec<_> = pods.iter().filter(|pod| !ended(pod)).map(ResourceExt::name_any).collect();
    ensure!(at_work.len() <= TOKENS, "{at_work:?}");
    let actions = space.actions.list(&ListParams::default()).await?.items;
    Ok(actions.iter().filter(|action| action.outcome().is_some()).count())
}

async fn until_ended(space: &Space<'_>, count: usize) -> Result<()> {
    let begin = Instant::now();
    while check(space).await? < count {
        ensure!(begin.elapsed() < PATIENCE, "{count} never ended\n{}", space.dump("").await);
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn tasks_wait_for_a_token_and_hold_it_until_they_have_ended(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("pooled").await?;
    let pools = json!({"licences": {"quota": TOKENS, "task-types": ["container"]}});
    let settings = bench.settings().with(&["tasks", "pools"], pools);
    let first = Executor::start(&bench.cluster, &settings).await?;
    for number in 0..TASKS {
        space.submit(&Task::container(&format!("l{number}")).attempts(&["succeed@1200"])).await?;
    }
    let full = |action: &TaskAction| action.pending().is_some_and(|(code, _)| code == "Pool");
    let action = space.until("l5", "waiting for a token", full).await?;
    assert_eq!(action.pending().unwrap().1, "pool licences: all 2 tokens are taken");

    // While nobody is there tasks end, with their tokens still in the cluster; others wait.
    until_ended(&space, 1).await?;
    first.stop().await?;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let second = Executor::start(&bench.cluster, &settings).await?;
    until_ended(&space, TASKS).await?;
    for number in 0..TASKS {
        let action = space.until_ended(&format!("l{number}")).await?;
        let status = action.shown();
        assert_eq!((action.outcome().unwrap().0.as_str(), status.observed_attempt()), ("Succeeded", 1));
        assert_eq!(status.system_failures, 0, "waiting is charged to nobody");
    }
    until_all_are_back(&space).await?;

    // A token goes with an action that is deleted while it holds one.
    space.submit(&Task::container("aborted").attempts(&["run"])).await?;
    space.until("aborted", "running", |action| action.reason() == "Executing").await?;
    assert_eq!(tokens(&space).await?.len(), 1);
    space.delete("aborted").await?;
    space.until_gone("aborted").await?;
    until_all_are_back(&space).await?;

    // A server that refuses tokens for a while is waited for, at nobody's expense.
    if let Some(sandbox) = bench.cluster.sandbox() {
        sandbox.faults().add(Fault::Times(Match::of("create", "leases"), 503, 2));
        space.submit(&Task::container("patient")).await?;
        let held_up = |action: &TaskAction| action.pending().is_some_and(|(code, _)| code == "BackOff");
        let action = space.until("patient", "waiting for the server", held_up).await?;
        let (_, words) = action.pending().unwrap();
        ensure!(words.starts_with("pool licences: a token cannot be taken now: "), "{words}");
        let action = space.until_ended("patient").await?;
        assert_eq!((action.outcome().unwrap().0.as_str(), action.shown().system_failures), ("Succeeded", 0));
    }
    second.stop().await
}

struct SameAge;

impl Roster for SameAge {
    fn wake(&self, _: &ActionKey) {}

    fn created(&self, _: &ActionKey) -> Option<Timestamp> {
        None
    }
}

/// Each of them sees what it gave out itself, and learns of the other from the server alone.
async fn two_who_do_not_know_of_one_another_give_out_no_token_too_many(on: Server) -> Result<()> {
    const CLAIMS: usize = 12;
    let space = on.shared().await?.space("two-desks").await?;
    let config = PoolConfig { quota: TOKENS as u32, ..PoolConfig::default() };
    let desk = || TokenDesk {
        pools: Arc::new(Pools::new(&[("desks".to_owned(), config.clone())].into())),
        store: Arc::new(KubeTokens::new(space.admin.clone())),
        roster: Arc::new(SameAge),
    };
    let desks = [desk(), desk(), desk()];
    let claim = |number: usize| {
        let name = format!("c{number}");
        let owner = OwnerReference {
            api_version: "flyte.org/v1".into(),
            kind: "TaskAction".into(),
            uid: format!("uid-{number}"),
            name: name.clone(),
            ..OwnerReference::default()
        };
        let account = Account { project: "p".into(), domain: "d".into() };
        let (holder, now) = (ActionKey::new(&space.namespace, &name), Timestamp::now());
        Claim { holder, owner, account, identity: name, created: now, now }
    };
    let asked = (0..CLAIMS).map(|number| {
        let desk = &desks[number % desks.len()];
        let claim = claim(number);
        async move {
            let pool = desk.pools.pool("desks").unwrap();
            anyhow::Ok(desk.take("desks", pool, &claim).await?.is_none().then_some(number))
        }
    });
    let held: Vec<_> = futures::future::try_join_all(asked).await?.into_iter().flatten().collect();
    assert_eq!(held.len(), TOKENS, "{held:?}");
    let leases: Api<Lease> = Api::namespaced(space.admin.clone(), &space.namespace);
    assert_eq!(leases.list(&ListParams::default()).await?.items.len(), TOKENS, "the others gave theirs back");

    // Who has one has it however often and wherever it asks.
    let number = held[0];
    for desk in [&desks[number % desks.len()], &desk()] {
        assert_eq!(desk.take("desks", desk.pools.pool("desks").unwrap(), &claim(number)).await?, None);
    }
    // Another action of the same name makes one of its own: the one it finds would go at any moment.
    let namesake = Claim { owner: OwnerReference { uid: "uid-new".into(), ..claim(number).owner }, ..claim(number) };
    let fresh = desk();
    assert_eq!(fresh.take("desks", fresh.pools.pool("desks").unwrap(), &namesake).await?, None);
    let all = leases.list(&ListParams::default()).await?.items;
    let uids: Vec<_> = all.iter().flat_map(ResourceExt::owner_references).map(|owner| owner.uid.as_str()).collect();
    assert!(uids.contains(&"uid-new") && !uids.contains(&format!("uid-{number}").as_str()), "{uids:?}");
    Ok(())
}
