//! More tasks than a ResourceQuota allows: tasks wait in order, no create is refused, and no quota stays unused. The
//! ResourceQuota controller counts usage, as in a complete cluster.

mod names;
mod refusals;
mod sizes;
mod throughput;
mod waiting;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use aileron_parity::cluster::User;
use aileron_parity::suite::{
    Bench, BenchOptions, Executor, Logs, POLL_INTERVAL, Server, Space, StatusView, Task, WAIT_TIMEOUT, started_once,
};
use aileron_sandbox::{Operators, Rules, install_definitions};
use anyhow::{Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The kind whose objects a quota counts.
const SPARK: &str = "sparkapplications.sparkoperator.k8s.io";

/// How many submissions are in flight at once: enough to be fast, few enough to keep the order.
const CONCURRENT_SUBMISSIONS: usize = 4;

/// How many refused creates are allowed on a real server.
const MAX_REFUSALS: usize = 5;

/// How many log lines are printed with refusals.
const LOG_LINES: usize = 200;

/// What these suites share: a bench with controllers, an executor, and a simulated operator.
struct QuotaBench {
    bench: Bench,
    _executor: Executor,
    _operators: Operators,
    _runtime: Runtime,
}

impl QuotaBench {
    fn start(server: Server) -> Result<Self> {
        // The parts need their own runtime: they must outlive the test that starts them.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (bench, executor, operators) = runtime.block_on(async {
            let bench = counting(server).await?;
            let sim = bench.cluster.client(User::Sim).await?;
            let rules: Vec<_> = Rules::builtin().into_iter().filter(|rules| rules.qualified() == SPARK).collect();
            install_definitions(&sim, &rules).await?;
            let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
            anyhow::Ok((bench, executor, Operators::start(sim, rules).await?))
        })?;
        Ok(Self { bench, _executor: executor, _operators: operators, _runtime: runtime })
    }
}

/// The bench that these suites share.
async fn quota_bench(on: Server) -> Result<&'static Bench> {
    static REAL: OnceLock<Result<QuotaBench, String>> = OnceLock::new();
    static SANDBOX: OnceLock<Result<QuotaBench, String>> = OnceLock::new();
    let place = match on {
        Server::Real => &REAL,
        Server::Sandbox => &SANDBOX,
    };
    started_once(place, move || QuotaBench::start(on)).await.map(|shared| &shared.bench)
}

/// A bench with a ResourceQuota controller.
async fn counting(on: Server) -> Result<Bench> {
    Bench::start(BenchOptions { server: on, controllers: true, ..BenchOptions::default() }).await
}

/// Creates a namespace with a quota, and waits until its usage was counted.
async fn space_with<'a>(bench: &'a Bench, namespace: &str, hard: &Value) -> Result<Space<'a>> {
    let space = bench.space(namespace).await?;
    add_quota(&space, "team", hard).await?;
    Ok(space)
}

/// Adds a quota to a namespace, and waits until its usage was counted.
async fn add_quota(space: &Space<'_>, name: &str, hard: &Value) -> Result<()> {
    let object = json!({"metadata": {"name": name}, "spec": {"hard": hard}});
    quotas(space).create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let known = |quota: &ResourceQuota| {
        let status = quota.status.clone().unwrap_or_default();
        let count = hard.as_object().map_or(0, serde_json::Map::len);
        status.hard.unwrap_or_default().len() == count && status.used.unwrap_or_default().len() == count
    };
    until_quota(space, name, "counted", known).await
}

/// Waits until the used quota is zero.
async fn until_free(space: &Space<'_>) -> Result<()> {
    let free = |quota: &ResourceQuota| {
        let used = quota.status.clone().unwrap_or_default().used.unwrap_or_default();
        !used.is_empty() && used.values().all(|amount| amount.0 == "0")
    };
    until_quota(space, "team", "free", free).await
}

async fn until_quota(space: &Space<'_>, name: &str, what: &str, done: impl Fn(&ResourceQuota) -> bool) -> Result<()> {
    let begin = Instant::now();
    let mut last = None;
    while begin.elapsed() < WAIT_TIMEOUT {
        let quota = quotas(space).get(name).await?;
        if done(&quota) {
            return Ok(());
        }
        last = quota.status;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    bail!(
        "the quota of {} is not {what}: {last:?}\n{}",
        space.namespace,
        space.bench.cluster.log("kube-controller-manager")
    )
}

fn quotas(space: &Space<'_>) -> Api<ResourceQuota> {
    Api::namespaced(space.admin.clone(), &space.namespace)
}

/// Submits `count` tasks in order. Their names contain their numbers.
async fn submit_all(space: &Space<'_>, count: usize, task: impl Fn(&str) -> Task) -> Result<()> {
    let tasks = (0..count).map(|number| task(&format!("t{number:04}")));
    let submissions = tasks.map(|task| async move { space.submit(&task).await.map(drop) });
    stream::iter(submissions).buffered(CONCURRENT_SUBMISSIONS).try_collect().await
}

/// The creates of a kind that a quota refused. A 409 is not counted: the server also returns it for two concurrent updates of
/// a quota, whatever quota is left.
fn refused(space: &Space<'_>, plural: &str) -> Result<Vec<String>> {
    let mut requests = space.requests()?;
    requests.retain(|request| request.verb == "create" && request.resource == plural && request.code >= 400);
    if !requests.is_empty() {
        // The test runner prints this if the test fails.
        let list: Vec<_> = requests.iter().map(|request| (&request.name, request.code)).collect();
        println!("refused: {list:?}\n{}", Logs::keep().about(&space.namespace, LOG_LINES));
    }
    Ok(requests.into_iter().filter(|request| request.code != 409).map(|request| request.name).collect())
}

/// With readable quotas, no create is refused. On a busy machine the counts of a real control plane may settle later than
/// the configured settle time; then a few creates are refused and wait.
fn check_refused(space: &Space<'_>, plural: &str) -> Result<()> {
    let refused = refused(space, plural)?;
    let most = if space.server() == Server::Real { MAX_REFUSALS } else { 0 };
    assert!(refused.len() <= most, "{}: {refused:?}", space.namespace);
    Ok(())
}

/// Checks that all actions succeeded at the first attempt, without system failures.
fn check(actions: &[TaskAction]) {
    for action in actions {
        let status = action.status_or_default();
        let outcome = action.outcome().map(|outcome| outcome.0);
        assert_eq!(
            (outcome.as_deref(), status.attempts, status.system_failures),
            (Some("Succeeded"), 1, 0),
            "{}",
            action.summary()
        );
    }
}

/// A container task that runs for this time.
fn container(name: &str, life: Duration) -> Task {
    Task::container(name).attempts(&[&format!("succeed@{}", life.as_millis())])
}
