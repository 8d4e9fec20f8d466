//! Tokens of pools: never one too many, whoever gives them out, and none lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use aileron_admission::pools::broker::TokenBroker;
use aileron_admission::pools::limits::{Account, Limits};
use aileron_admission::pools::{Pool, Pools, TokenClaim};
use aileron_admission::waker::ActionWaker;
use aileron_apiserver::{Fault, Match};
use aileron_executor::watch::tokens::KubeTokens;
use aileron_machinery::ActionKey;
use aileron_machinery::pod::phase::pod_phase;
use aileron_machinery::pod::{PodOptions, build_pod};
use aileron_machinery::time::clock::SystemClock;
use aileron_machinery::{
    K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext, TaskInfo, TokenRequest,
};
use aileron_parity::cluster::User;
use aileron_parity::suite::{Executor, LOOK_EVERY, PATIENCE, Server, Shown, Space, Task};
use anyhow::{Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;

aileron_parity::on_both!(
    tasks_wait_for_a_token_and_hold_it_until_they_have_ended,
    plugins_ask_for_tokens_and_projects_and_domains_have_their_share,
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
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
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

/// Runs pods for which a licence is needed; those of the other type are of a pool that nobody has.
struct Licensed;

impl K8sPlugin for Licensed {
    type Resource = Pod;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("licensed", &["licensed", "unlicensed"])
    }

    fn token(&self, task: &TaskContext) -> Option<TokenRequest> {
        let pool = if task.template.r#type == "licensed" { "licences" } else { "nowhere" };
        Some(TokenRequest { pool: pool.to_owned() })
    }

    fn build(&self, task: &TaskContext) -> Result<Pod, PluginError> {
        let draft = build_pod(task, PodOptions::default())?;
        Ok(Pod { metadata: draft.metadata, spec: Some(draft.spec), status: None })
    }

    fn phase(&self, cx: &PhaseContext<'_>, pod: &Pod) -> Result<PhaseInfo, PluginError> {
        let phase = pod_phase(pod, &cx.task.platform.k8s, cx.task.now, TaskInfo::at(cx.task.now));
        Ok(phase)
    }
}

async fn plugins_ask_for_tokens_and_projects_and_domains_have_their_share(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("asked-for").await?;
    let pools = json!({
        "licences": {"quota": 1},
        "shared": {"quota": 3, "project-cap": 2, "domain-cap": 1, "task-types": ["container"]},
    });
    let settings = bench.settings().with(&["tasks", "pools"], pools);
    let settings = settings.with(&["plugins", "k8s", "inject-finalizer"], true);
    let client = bench.cluster.client(User::Executor).await?;
    let executor = Executor::start_with(client.clone(), &settings, |plugins| plugins.with(Licensed)).await?;
    a_plugin_gets_the_token_it_asks_for(&space).await?;
    a_token_is_held_over_all_attempts(&space).await?;
    projects_and_domains_have_their_share(&space).await?;
    executor.stop().await?;

    // Without any pool there is none of that name either.
    let executor = Executor::start_with(client, &bench.settings(), |plugins| plugins.with(Licensed)).await?;
    space.submit(&Task::container("poolless").task_type("licensed")).await?;
    until_refused(&space, "poolless", "licences").await?;
    executor.stop().await
}

fn waits_with(words: &'static str) -> impl Fn(&TaskAction) -> bool {
    move |action| action.pending().is_some_and(|(code, found)| code == "Pool" && found == words)
}

async fn until_refused(space: &Space<'_>, name: &str, pool: &str) -> Result<()> {
    let action = space.until_ended(name).await?;
    assert_eq!((action.outcome().unwrap().0.as_str(), action.error_code().as_str()), ("Failed", "UnknownPool"));
    let words = action.shown().error_state.map(|error| error.message).unwrap_or_default();
    assert_eq!(words, format!("the task needs a token of pool {pool:?}, which tasks.pools does not have"));
    Ok(())
}

async fn a_plugin_gets_the_token_it_asks_for(space: &Space<'_>) -> Result<()> {
    space.submit(&Task::container("first").task_type("licensed").attempts(&["run"])).await?;
    space.until("first", "running", |action| action.reason() == "Executing").await?;
    let held = tokens(space).await?;
    assert_eq!(held.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["licences.first"]);
    space.submit(&Task::container("second").task_type("licensed")).await?;
    space.until("second", "waiting", waits_with("pool licences: all 1 tokens are taken")).await?;
    space.submit(&Task::container("lost").task_type("unlicensed")).await?;
    until_refused(space, "lost", "nowhere").await?;
    space.delete("first").await?;
    let action = space.until_ended("second").await?;
    assert_eq!((action.outcome().unwrap().0.as_str(), action.shown().attempts), ("Succeeded", 1));
    until_all_are_back(space).await
}

/// The object of a failed attempt goes with our finalizer; the token stays.
async fn a_token_is_held_over_all_attempts(space: &Space<'_>) -> Result<()> {
    let task = Task::container("again").task_type("licensed").retries(1).attempts(&["fail:1@300", "run"]);
    space.submit(&task).await?;
    space.until("again", "running", |action| action.reason() == "Executing").await?;
    let first = tokens(space).await?;
    let second = |action: &TaskAction| action.shown().attempts == 2 && action.reason() == "Executing";
    space.until("again", "running once more", second).await?;
    let uids = |held: &[Lease]| held.iter().map(|lease| lease.metadata.uid.clone()).collect::<Vec<_>>();
    assert_eq!((first.len(), uids(&tokens(space).await?)), (1, uids(&first)));
    space.delete("again").await?;
    space.until_gone("again").await?;
    until_all_are_back(space).await
}

async fn projects_and_domains_have_their_share(space: &Space<'_>) -> Result<()> {
    let submit = async |name: &str, project: &str, domain: &str| {
        let mut object = space.object(&Task::container(name).attempts(&["run"]));
        (object.spec.project, object.spec.domain) = (project.to_owned(), domain.to_owned());
        space.create(&object).await
    };
    let runs = |action: &TaskAction| action.reason() == "Executing";
    submit("a-dev", "a", "dev").await?;
    space.until("a-dev", "running", runs).await?;
    submit("a-dev-2", "a", "dev").await?;
    let of_the_domain = "pool shared: domain dev of project a holds the 1 tokens that a domain may hold";
    space.until("a-dev-2", "kept by its domain", waits_with(of_the_domain)).await?;
    submit("a-prod", "a", "prod").await?;
    space.until("a-prod", "running", runs).await?;
    submit("a-stage", "a", "stage").await?;
    let of_the_project = "pool shared: project a holds the 2 tokens that a project may hold";
    space.until("a-stage", "kept by its project", waits_with(of_the_project)).await?;
    // The same domain of another project is another one.
    submit("b-dev", "b", "dev").await?;
    space.until("b-dev", "running", runs).await?;
    submit("c-dev", "c", "dev").await?;
    space.until("c-dev", "kept by the pool", waits_with("pool shared: all 3 tokens are taken")).await?;

    // What becomes free goes to the oldest that may have it: not to project a as long as its domain holds one.
    space.delete("b-dev").await?;
    space.until("c-dev", "running", runs).await?;
    assert!(waits_with(of_the_project)(&space.until("a-stage", "there", |_| true).await?));
    space.delete("a-dev").await?;
    space.until("a-dev-2", "running", runs).await?;
    for name in ["a-dev-2", "a-prod", "a-stage", "c-dev"] {
        space.delete(name).await?;
        space.until_gone(name).await?;
    }
    Ok(())
}

struct SameAge;

impl ActionWaker for SameAge {
    fn wake(&self, _: &ActionKey) {}

    fn created_at(&self, _: &ActionKey) -> Option<Timestamp> {
        None
    }
}

/// Each of them sees what it gave out itself, and learns of the other from the server alone.
async fn two_who_do_not_know_of_one_another_give_out_no_token_too_many(on: Server) -> Result<()> {
    const CLAIMS: usize = 12;
    let space = on.shared().await?.space("two-desks").await?;
    let limits = Limits { total: TOKENS as u32, per_project: None, per_domain: None };
    let pool = Pool { limits, task_types: BTreeSet::new() };
    let desk = || TokenBroker {
        pools: Arc::new(Pools::new([("desks".to_owned(), pool.clone())].into())),
        store: Arc::new(KubeTokens::new(space.admin.clone())),
        waker: Arc::new(SameAge),
        clock: Arc::new(SystemClock),
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
        TokenClaim { holder, owner, account, identity: name, created_at: now, now }
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
    let namesake =
        TokenClaim { owner: OwnerReference { uid: "uid-new".into(), ..claim(number).owner }, ..claim(number) };
    let fresh = desk();
    assert_eq!(fresh.take("desks", fresh.pools.pool("desks").unwrap(), &namesake).await?, None);
    let all = leases.list(&ListParams::default()).await?.items;
    let uids: Vec<_> = all.iter().flat_map(ResourceExt::owner_references).map(|owner| owner.uid.as_str()).collect();
    assert!(uids.contains(&"uid-new") && !uids.contains(&format!("uid-{number}").as_str()), "{uids:?}");
    Ok(())
}
