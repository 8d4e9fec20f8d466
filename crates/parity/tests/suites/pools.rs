//! Tokens of pools: never more than configured, with any number of brokers, and none is lost.

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
use aileron_parity::suite::{Executor, POLL_INTERVAL, Progress, Server, Space, StatusView, Task, WAIT_TIMEOUT};
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
    plugins_request_tokens_and_project_and_domain_caps_apply,
    independent_brokers_never_exceed_the_pool
);

const TOKENS: usize = 2;
const TASKS: usize = 6;

async fn tokens(space: &Space<'_>) -> Result<Vec<Lease>> {
    let labelled = ListParams::default().labels("flyte.org/pool=licences");
    Ok(Api::<Lease>::all(space.admin.clone()).list(&labelled).await?.items)
}

async fn until_all_tokens_are_released(space: &Space<'_>) -> Result<()> {
    let begin = Instant::now();
    loop {
        let held: Vec<_> = tokens(space).await?.iter().map(ResourceExt::name_any).collect();
        if held.is_empty() {
            return Ok(());
        }
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "never released: {held:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Checks that neither tokens nor running pods exceed the pool. Returns the number of ended actions.
async fn check(space: &Space<'_>) -> Result<usize> {
    let held = tokens(space).await?;
    ensure!(held.len() <= TOKENS, "{held:#?}");
    for lease in &held {
        ensure!(lease.owner_references().iter().any(|owner| owner.kind == "TaskAction"), "{lease:?}");
    }
    let pods = space.pods.list(&ListParams::default()).await?.items;
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    let ended = |pod: &&_| phase(pod).is_some_and(|phase| ["Succeeded", "Failed"].contains(&phase.as_str()));
    let running: Vec<_> = pods.iter().filter(|pod| !ended(pod)).map(ResourceExt::name_any).collect();
    ensure!(running.len() <= TOKENS, "{running:?}");
    let actions = space.actions.list(&ListParams::default()).await?.items;
    Ok(actions.iter().filter(|action| action.outcome().is_some()).count())
}

async fn until_ended(space: &Space<'_>, count: usize) -> Result<()> {
    let mut progress = Progress::start();
    loop {
        let ended = check(space).await?;
        if ended >= count {
            return Ok(());
        }
        ensure!(!progress.has_stopped(ended), "only {ended} of {count} actions ended\n{}", space.dump("").await);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
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

    // Without an executor, tasks end while their tokens stay in the cluster, and other tasks wait.
    until_ended(&space, 1).await?;
    first.stop().await?;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let second = Executor::start(&bench.cluster, &settings).await?;
    until_ended(&space, TASKS).await?;
    for number in 0..TASKS {
        let action = space.until_ended(&format!("l{number}")).await?;
        let status = action.status_or_default();
        assert_eq!((action.outcome().unwrap().0.as_str(), status.observed_attempt()), ("Succeeded", 1));
        assert_eq!(status.system_failures, 0, "waiting is not a system failure");
    }
    until_all_tokens_are_released(&space).await?;

    // An action that is deleted releases its token.
    space.submit(&Task::container("aborted").attempts(&["run"])).await?;
    space.until("aborted", "running", |action| action.reason() == "Executing").await?;
    assert_eq!(tokens(&space).await?.len(), 1);
    space.delete("aborted").await?;
    space.until_gone("aborted").await?;
    until_all_tokens_are_released(&space).await?;

    // While the server refuses tokens, the task waits. This is not a system failure.
    if let Some(sandbox) = bench.cluster.sandbox() {
        sandbox.faults().add(Fault::Times(Match::of("create", "leases"), 503, 2));
        space.submit(&Task::container("patient")).await?;
        let backs_off = |action: &TaskAction| action.pending().is_some_and(|(code, _)| code == "BackOff");
        let action = space.until("patient", "waiting for the server", backs_off).await?;
        let (_, message) = action.pending().unwrap();
        ensure!(message.starts_with("pool licences: a token cannot be taken now: "), "{message}");
        let action = space.until_ended("patient").await?;
        assert_eq!(
            (action.outcome().unwrap().0.as_str(), action.status_or_default().system_failures),
            ("Succeeded", 0)
        );
    }
    second.stop().await
}

/// Runs pods that need a token of the pool `licences`; for the other task type, of a pool that is not configured.
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

async fn plugins_request_tokens_and_project_and_domain_caps_apply(on: Server) -> Result<()> {
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
    a_plugin_gets_the_token_it_requests(&space).await?;
    a_token_is_held_over_all_attempts(&space).await?;
    project_and_domain_caps_apply(&space).await?;
    executor.stop().await?;

    // Without configured pools, the pool of the plugin is unknown.
    let executor = Executor::start_with(client, &bench.settings(), |plugins| plugins.with(Licensed)).await?;
    space.submit(&Task::container("poolless").task_type("licensed")).await?;
    until_refused(&space, "poolless", "licences").await?;
    executor.stop().await
}

fn waits_with(message: &'static str) -> impl Fn(&TaskAction) -> bool {
    move |action| action.pending().is_some_and(|(code, found)| code == "Pool" && found == message)
}

async fn until_refused(space: &Space<'_>, name: &str, pool: &str) -> Result<()> {
    let action = space.until_ended(name).await?;
    assert_eq!((action.outcome().unwrap().0.as_str(), action.error_code().as_str()), ("Failed", "UnknownPool"));
    let message = action.status_or_default().error_state.map(|error| error.message).unwrap_or_default();
    assert_eq!(message, format!("the task needs a token of pool {pool:?}, which tasks.pools does not have"));
    Ok(())
}

async fn a_plugin_gets_the_token_it_requests(space: &Space<'_>) -> Result<()> {
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
    assert_eq!((action.outcome().unwrap().0.as_str(), action.status_or_default().attempts), ("Succeeded", 1));
    until_all_tokens_are_released(space).await
}

/// The object of a failed attempt is deleted; the token stays.
async fn a_token_is_held_over_all_attempts(space: &Space<'_>) -> Result<()> {
    let task = Task::container("again").task_type("licensed").retries(1).attempts(&["fail:1@300", "run"]);
    space.submit(&task).await?;
    space.until("again", "running", |action| action.reason() == "Executing").await?;
    let first = tokens(space).await?;
    let second = |action: &TaskAction| action.status_or_default().attempts == 2 && action.reason() == "Executing";
    space.until("again", "running once more", second).await?;
    let uids = |held: &[Lease]| held.iter().map(|lease| lease.metadata.uid.clone()).collect::<Vec<_>>();
    assert_eq!((first.len(), uids(&tokens(space).await?)), (1, uids(&first)));
    space.delete("again").await?;
    space.until_gone("again").await?;
    until_all_tokens_are_released(space).await
}

async fn project_and_domain_caps_apply(space: &Space<'_>) -> Result<()> {
    let submit = async |name: &str, project: &str, domain: &str| {
        let mut object = space.object(&Task::container(name).attempts(&["run"]));
        (object.spec.project, object.spec.domain) = (project.to_owned(), domain.to_owned());
        space.create(&object).await
    };
    let runs = |action: &TaskAction| action.reason() == "Executing";
    submit("a-dev", "a", "dev").await?;
    space.until("a-dev", "running", runs).await?;
    submit("a-dev-2", "a", "dev").await?;
    let domain_cap = "pool shared: domain dev of project a holds the 1 tokens that a domain may hold";
    space.until("a-dev-2", "blocked by the domain cap", waits_with(domain_cap)).await?;
    submit("a-prod", "a", "prod").await?;
    space.until("a-prod", "running", runs).await?;
    submit("a-stage", "a", "stage").await?;
    let project_cap = "pool shared: project a holds the 2 tokens that a project may hold";
    space.until("a-stage", "blocked by the project cap", waits_with(project_cap)).await?;
    // The cap of a domain applies per project.
    submit("b-dev", "b", "dev").await?;
    space.until("b-dev", "running", runs).await?;
    submit("c-dev", "c", "dev").await?;
    space.until("c-dev", "blocked by the pool quota", waits_with("pool shared: all 3 tokens are taken")).await?;

    // A free token goes to the oldest waiting action that no cap blocks; project a is at its cap.
    space.delete("b-dev").await?;
    space.until("c-dev", "running", runs).await?;
    assert!(waits_with(project_cap)(&space.until("a-stage", "there", |_| true).await?));
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

/// Each broker knows its own tokens, and learns of those of other brokers only from the API server.
async fn independent_brokers_never_exceed_the_pool(on: Server) -> Result<()> {
    const CLAIMS: usize = 12;
    let space = on.shared().await?.space("two-brokers").await?;
    let limits = Limits { total: TOKENS as u32, per_project: None, per_domain: None };
    let pool = Pool { limits, task_types: BTreeSet::new() };
    let broker = || TokenBroker {
        pools: Arc::new(Pools::new([("brokers".to_owned(), pool.clone())].into())),
        store: Arc::new(KubeTokens::new(space.admin.clone())),
        waker: Arc::new(SameAge),
        clock: Arc::new(SystemClock),
    };
    let brokers = [broker(), broker(), broker()];
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
    let claims = (0..CLAIMS).map(|number| {
        let broker = &brokers[number % brokers.len()];
        let claim = claim(number);
        async move {
            let pool = broker.pools.pool("brokers").unwrap();
            anyhow::Ok(broker.take("brokers", pool, &claim).await?.is_none().then_some(number))
        }
    });
    let held: Vec<_> = futures::future::try_join_all(claims).await?.into_iter().flatten().collect();
    assert_eq!(held.len(), TOKENS, "{held:?}");
    let leases: Api<Lease> = Api::namespaced(space.admin.clone(), &space.namespace);
    assert_eq!(
        leases.list(&ListParams::default()).await?.items.len(),
        TOKENS,
        "the other claims must release their tokens"
    );

    // A holder that asks again, at any broker, keeps its token.
    let number = held[0];
    for broker in [&brokers[number % brokers.len()], &broker()] {
        assert_eq!(broker.take("brokers", broker.pools.pool("brokers").unwrap(), &claim(number)).await?, None);
    }
    // Another action of the same name gets a new token: the existing one is deleted with its owner.
    let namesake =
        TokenClaim { owner: OwnerReference { uid: "uid-new".into(), ..claim(number).owner }, ..claim(number) };
    let fresh = broker();
    assert_eq!(fresh.take("brokers", fresh.pools.pool("brokers").unwrap(), &namesake).await?, None);
    let all = leases.list(&ListParams::default()).await?.items;
    let uids: Vec<_> = all.iter().flat_map(ResourceExt::owner_references).map(|owner| owner.uid.as_str()).collect();
    assert!(uids.contains(&"uid-new") && !uids.contains(&format!("uid-{number}").as_str()), "{uids:?}");
    Ok(())
}
