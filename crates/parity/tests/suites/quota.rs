//! More tasks than there is room for: everybody waits for its turn, nobody is refused, and nothing is wasted. Usage is
//! counted by the controllers of a whole cluster.

mod names;
mod refusals;
mod room;
mod sizes;
mod waiting;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use aileron_parity::cluster::User;
use aileron_parity::suite::{
    Bench, BenchOptions, Executor, LOOK_EVERY, Logs, PATIENCE, Server, Shown, Space, Task, started_once,
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

/// How many submissions are under way at once: enough to be quick, few enough to keep the order.
const AT_ONCE: usize = 4;

/// Refusals that are no habit.
const HANDFUL: usize = 5;

/// How much of the log is shown with refusals.
const LOG_LINES: usize = 200;

/// What these suites share: a bench with controllers, an executor, and an operator.
struct Limited {
    bench: Bench,
    _executor: Executor,
    _operators: Operators,
    _runtime: Runtime,
}

impl Limited {
    fn start(server: Server) -> Result<Self> {
        // Its parts must outlive the runtime of the test that asks first.
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
async fn limited(on: Server) -> Result<&'static Bench> {
    static REAL: OnceLock<Result<Limited, String>> = OnceLock::new();
    static SANDBOX: OnceLock<Result<Limited, String>> = OnceLock::new();
    let place = match on {
        Server::Real => &REAL,
        Server::Sandbox => &SANDBOX,
    };
    started_once(place, move || Limited::start(on)).await.map(|shared| &shared.bench)
}

/// A bench on which usage is counted.
async fn counting(on: Server) -> Result<Bench> {
    Bench::start(BenchOptions { server: on, controllers: true, ..BenchOptions::default() }).await
}

/// A namespace with a quota whose usage is known.
async fn space_with<'a>(bench: &'a Bench, namespace: &str, hard: &Value) -> Result<Space<'a>> {
    let space = bench.space(namespace).await?;
    add_quota(&space, "team", hard).await?;
    Ok(space)
}

/// One more quota in a namespace; usage is known when this returns.
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

/// Waits until nothing of the quota is taken.
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
    while begin.elapsed() < PATIENCE {
        let quota = quotas(space).get(name).await?;
        if done(&quota) {
            return Ok(());
        }
        last = quota.status;
        tokio::time::sleep(LOOK_EVERY).await;
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

/// Submits this many tasks, named by their number, in that order.
async fn submit_all(space: &Space<'_>, count: usize, task: impl Fn(&str) -> Task) -> Result<()> {
    let tasks = (0..count).map(|number| task(&format!("t{number:04}")));
    let submissions = tasks.map(|task| async move { space.submit(&task).await.map(drop) });
    stream::iter(submissions).buffered(AT_ONCE).try_collect().await
}

/// The creates of a kind that a quota refused. The server may also find that it changed a quota twice at the same time,
/// and says 409 to a create whose name is free; that has nothing to do with how much is left.
fn refused(space: &Space<'_>, plural: &str) -> Result<Vec<String>> {
    let mut requests = space.requests()?;
    requests.retain(|request| request.verb == "create" && request.resource == plural && request.code >= 400);
    if !requests.is_empty() {
        // Shown with a test that fails.
        let list: Vec<_> = requests.iter().map(|request| (&request.name, request.code)).collect();
        println!("refused: {list:?}\n{}", Logs::keep().about(&space.namespace, LOG_LINES));
    }
    Ok(requests.into_iter().filter(|request| request.code != 409).map(|request| request.name).collect())
}

/// Where quotas are seen, nothing is refused. But while other tests keep the machine busy, the parts of a real control
/// plane may hear of each other later than the gate waits for them; what is refused then waits and is counted here.
fn check_refused(space: &Space<'_>, plural: &str) -> Result<()> {
    let refused = refused(space, plural)?;
    let most = if space.server() == Server::Real { HANDFUL } else { 0 };
    assert!(refused.len() <= most, "{}: {refused:?}", space.namespace);
    Ok(())
}

/// Every one of these ended well at its first attempt, and nothing was charged to the platform.
fn check(actions: &[TaskAction]) {
    for action in actions {
        let status = action.shown();
        let outcome = action.outcome().map(|outcome| outcome.0);
        assert_eq!(
            (outcome.as_deref(), status.attempts, status.system_failures),
            (Some("Succeeded"), 1, 0),
            "{}",
            action.summary()
        );
    }
}

/// A container that runs for a while.
fn container(name: &str, life: Duration) -> Task {
    Task::container(name).attempts(&[&format!("succeed@{}", life.as_millis())])
}
