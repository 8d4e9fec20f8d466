//! Changing between a Go executor and Aileron by the lease, with tasks in flight. `docs/install.md` describes the steps. The
//! Go executor is a stand-in that follows the election and the statuses of the real one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aileron_history::plan::{Expected, PlannedTask};
use aileron_lease::LEASE_NAME;
use aileron_lease::record::RELEASED;
use aileron_parity::cluster::{Candidate, User};
use aileron_parity::recorder::Expectations;
use aileron_parity::suite::{
    Bench, GoExecutor, GoState, LeaderElect, POLL_INTERVAL, Program, Server, Settings, Space, StatusView, Task,
    WAIT_TIMEOUT,
};
use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::ResourceExt;
use kube::api::{Api, ObjectMeta, PostParams};

aileron_parity::on_both!(
    installing_takes_the_lease_and_uninstalling_returns_it,
    aileron_waits_until_the_lease_of_a_stopped_go_executor_has_expired,
    aileron_does_nothing_beside_a_go_executor_without_a_lease,
    a_rolling_update_of_aileron_does_not_make_the_go_executor_lead
);

/// How long a Go executor that is not released from its lease keeps others out.
const LEASE_DURATION: SignedDuration = SignedDuration::from_secs(15);

/// As the chart configures it.
fn beside_go(bench: &Bench) -> Settings {
    let elected = bench.settings().with(&["executor", "leaderElect"], true);
    elected.with(&["executor", "leaderElectTakeOver"], true)
}

fn leases(space: &Space<'_>) -> Api<Lease> {
    Api::namespaced(space.admin.clone(), "flyte")
}

async fn lease(space: &Space<'_>) -> Result<LeaseSpec> {
    leases(space).get(LEASE_NAME).await?.spec.context("the lease is empty")
}

async fn holder(space: &Space<'_>) -> Result<String> {
    Ok(lease(space).await?.holder_identity.unwrap_or_default())
}

/// Waits until the identity of the holder begins so.
async fn until_held_by(space: &Space<'_>, name: &str) -> Result<()> {
    let begin = Instant::now();
    loop {
        let holder = holder(space).await?;
        if holder.starts_with(name) {
            return Ok(());
        }
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "the lease is held by {holder} and not by {name}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Submits tasks that run for so many milliseconds, and waits until their pods run or have ended. Returns the UIDs of the
/// pods.
async fn start(space: &Space<'_>, tasks: &[(&str, u64)]) -> Result<BTreeMap<String, String>> {
    for (name, millis) in tasks {
        space.submit(&Task::container(name).attempts(&[&format!("succeed@{millis}")])).await?;
    }
    let mut pods = BTreeMap::new();
    for (name, _) in tasks {
        space.until(name, "running", |action| ["Executing", "Completed"].contains(&action.reason().as_str())).await?;
        let pod = space.pods.get(&format!("{name}-0")).await?;
        pods.insert((*name).to_owned(), pod.uid().unwrap_or_default());
    }
    Ok(pods)
}

/// Waits until these tasks have succeeded, each with the first attempt and in the pod that was created first.
async fn until_succeeded(space: &Space<'_>, pods: &BTreeMap<String, String>) -> Result<()> {
    for (name, uid) in pods {
        let action = space.until_ended(name).await?;
        assert_eq!(action.outcome().unwrap().0, "Succeeded", "{name}: {}", action.summary());
        assert_eq!(action.status_or_default().attempts, 1, "{name}: {}", action.summary());
        assert_eq!(action.status_or_default().system_failures, 0, "{name}: {}", action.summary());
        assert_eq!(space.pods.get(&format!("{name}-0")).await?.uid().as_ref(), Some(uid), "{name} has another pod");
        let runs = space.runs().iter().filter(|run| run.name == format!("{name}-0")).count();
        assert_eq!(runs, 1, "{name} was started {runs} times");
    }
    Ok(())
}

fn planned(space: &Space<'_>, name: &str) -> PlannedTask {
    PlannedTask {
        namespace: space.namespace.clone(),
        name: name.to_owned(),
        task_type: "container".to_owned(),
        is_cached: false,
        expected: Expected::Success(1),
    }
}

async fn installing_takes_the_lease_and_uninstalling_returns_it(on: Server) -> Result<()> {
    let (bench, recorder) = on.recorded_bench().await?;
    let space = bench.space("switched").await?;
    let go_user = User::OtherExecutor;
    let mut go = GoExecutor::start(&bench, Some(&recorder), go_user, "flyte-binary-1", LeaderElect::On).await?;
    go.until(GoState::Leads).await?;
    // They end before the lease is taken, while it changes hands, and after that.
    let by_go = start(&space, &[("go-short", 100), ("go-middle", 7_000), ("go-long", 30_000)]).await?;

    // `helm install aileron`: Aileron takes the lease from the live Go executor, and works when that one has ended.
    let mut aileron = bench.recorded_program(&recorder, &beside_go(&bench), User::Executor, "aileron-1").await?;
    until_held_by(&space, "aileron-1").await?;
    space.submit(&Task::container("between").attempts(&["succeed@100"])).await?;
    go.until(GoState::LostTheLease).await?;
    ensure!(!aileron.has_started(), "Aileron works beside the Go executor:\n{}", aileron.log());
    go.stop();
    // The kubelet starts the container of flyte-binary again.
    let mut go = GoExecutor::start(&bench, Some(&recorder), go_user, "flyte-binary-2", LeaderElect::On).await?;
    aileron.until_started().await?;
    until_succeeded(&space, &by_go).await?;
    let by_aileron = start(&space, &[("our-short", 100), ("our-middle", 4_000), ("our-long", 20_000)]).await?;
    space.until_ended("our-short").await?;
    assert_eq!(go.state(), GoState::Standby);

    // `helm uninstall aileron`: the Go executor goes on.
    aileron.check()?;
    aileron.terminate().await?;
    let left = holder(&space).await?;
    ensure!(left == RELEASED || left.starts_with("flyte-binary-2"), "{left} still holds the lease");
    go.until(GoState::Leads).await?;
    until_succeeded(&space, &by_aileron).await?;
    let again = start(&space, &[("go-again", 100)]).await?;
    until_succeeded(&space, &again).await?;
    go.check().await?;

    let names = by_go.keys().chain(by_aileron.keys()).chain(again.keys()).map(String::as_str).chain(["between"]);
    let tasks = names.map(|name| planned(&space, name)).collect();
    let quiet_for = Duration::from_secs(2);
    recorder.conclude(Expectations { tasks, quiet_for, ..Expectations::default() }).await?.ensure_kept()
}

async fn aileron_waits_until_the_lease_of_a_stopped_go_executor_has_expired(on: Server) -> Result<()> {
    let (bench, recorder) = on.recorded_bench().await?;
    let space = bench.space("expired").await?;
    let settings = bench.settings().with(&["executor", "leaderElect"], true);
    let user = User::OtherExecutor;
    let mut go = GoExecutor::start(&bench, Some(&recorder), user, "flyte-binary-1", LeaderElect::On).await?;
    go.until(GoState::Leads).await?;
    let pods = start(&space, &[("ends-without-leader", 2_000), ("ends-later", 25_000)]).await?;
    let mut aileron = bench.recorded_program(&recorder, &settings, User::Executor, "aileron-1").await?;
    go.check().await?;
    go.stop();
    let last = lease(&space).await?;
    assert!(last.holder_identity.unwrap().starts_with("flyte-binary-1"), "the Go executor does not release its lease");
    aileron.until_started().await?;
    let taken = lease(&space).await?;
    assert!(taken.holder_identity.unwrap().starts_with("aileron-1"));
    let free_for = taken.acquire_time.unwrap().0.duration_since(last.renew_time.unwrap().0);
    ensure!(free_for >= LEASE_DURATION, "the lease was taken {free_for} after its last renewal");
    until_succeeded(&space, &pods).await?;
    let tasks = pods.keys().map(|name| planned(&space, name)).collect();
    let quiet_for = Duration::from_secs(2);
    recorder.conclude(Expectations { tasks, quiet_for, ..Expectations::default() }).await?.ensure_kept()?;
    aileron.terminate().await
}

/// `helm install aileron` beside a stock flyte-binary, which has no leader election.
async fn aileron_does_nothing_beside_a_go_executor_without_a_lease(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("stock").await?;
    let mut stock = GoExecutor::start(&bench, None, User::OtherExecutor, "flyte-binary-1", LeaderElect::Off).await?;
    let mut aileron = Program::start(&bench.cluster, &beside_go(&bench), "aileron-1")?;
    let begin = Instant::now();
    while !aileron.log().contains("no Go executor renews the lease") {
        aileron.check()?;
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "Aileron does not say what it waits for:\n{}", aileron.log());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let by_stock = start(&space, &[("stock", 100), ("stock-long", 15_000)]).await?;
    space.until_ended("stock").await?;
    let requests = bench.cluster.requests(User::Executor)?;
    let writes: Vec<_> =
        requests.iter().filter(|request| !["get", "list", "watch"].contains(&request.verb.as_str())).collect();
    ensure!(writes.is_empty(), "{writes:?}");
    assert!(leases(&space).get_opt(LEASE_NAME).await?.is_none());
    stock.check().await?;

    // `helm upgrade flyte-binary` with `leaderElect: true`: the old pod ends before the new one starts.
    stock.stop();
    let mut go = GoExecutor::start(&bench, None, User::OtherExecutor, "flyte-binary-2", LeaderElect::On).await?;
    go.until(GoState::LostTheLease).await?;
    ensure!(!aileron.has_started(), "Aileron works beside the Go executor:\n{}", aileron.log());
    aileron.until_started().await?;
    until_succeeded(&space, &by_stock).await?;
    aileron.terminate().await
}

async fn a_rolling_update_of_aileron_does_not_make_the_go_executor_lead(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("rolled").await?;
    // An earlier leader has released it.
    let metadata = ObjectMeta { name: Some(LEASE_NAME.to_owned()), ..ObjectMeta::default() };
    let free = Lease { metadata, spec: Some(LeaseSpec::default()) };
    leases(&space).create(&PostParams::default(), &free).await?;
    let mut old = Program::start(&bench.cluster, &beside_go(&bench), "aileron-0")?;
    old.until_started().await?;
    let mut go = GoExecutor::start(&bench, None, User::OtherExecutor, "flyte-binary-1", LeaderElect::On).await?;
    let pods = start(&space, &[("rolled", 8_000)]).await?;
    for number in 1..4 {
        let name = format!("aileron-{number}");
        let mut new = Program::start(&bench.cluster, &beside_go(&bench), &name)?;
        until_standby(&mut new).await?;
        old.terminate().await?;
        new.until_started().await?;
        until_held_by(&space, &name).await?;
        assert_eq!(go.state(), GoState::Standby);
        old = new;
    }
    until_succeeded(&space, &pods).await?;
    let released_before = Timestamp::now();
    old.terminate().await?;
    go.until(GoState::Leads).await?;
    let taken = lease(&space).await?.acquire_time.unwrap().0;
    ensure!(taken > released_before, "the Go executor led before");
    Ok(())
}

/// The election of client-go itself, in a program of Kubernetes: it ends before Aileron works, and leads again after Aileron.
#[tokio::test]
async fn a_leader_with_client_go_ends_when_the_lease_is_taken() -> Result<()> {
    let bench = Server::Real.bench().await?;
    let space = bench.space("client-go").await?;
    let mut leader = bench.cluster.candidate("flyte", LEASE_NAME, "candidate-1").await?;
    let begin = Instant::now();
    while leases(&space).get_opt(LEASE_NAME).await?.is_none() {
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "no lease: {}", bench.cluster.log("candidate-1"));
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let mut aileron = Program::start(&bench.cluster, &beside_go(&bench), "aileron-1")?;
    until_held_by(&space, "aileron-1").await?;
    let begin = Instant::now();
    while !leader.has_ended()? {
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "it goes on: {}", bench.cluster.log("candidate-1"));
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    ensure!(!aileron.has_started(), "Aileron works beside the other program:\n{}", aileron.log());
    let mut standby = bench.cluster.candidate("flyte", LEASE_NAME, "candidate-2").await?;
    aileron.until_started().await?;
    space.submit(&Task::container("task")).await?;
    space.until_ended("task").await?;
    aileron.terminate().await?;
    let begin = Instant::now();
    loop {
        let holder = holder(&space).await?;
        if holder != RELEASED && !holder.starts_with("aileron-1") {
            return ensure_running(&mut standby, &bench);
        }
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "{holder} has the lease: {}", bench.cluster.log("candidate-2"));
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn ensure_running(candidate: &mut Candidate, bench: &Bench) -> Result<()> {
    ensure!(!candidate.has_ended()?, "it has ended: {}", bench.cluster.log("candidate-2"));
    Ok(())
}

/// Waits until a replica competes for the lease.
async fn until_standby(program: &mut Program) -> Result<()> {
    let begin = Instant::now();
    while !program.log().contains("waiting for the lease") {
        program.check()?;
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "no standby:\n{}", program.log());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
