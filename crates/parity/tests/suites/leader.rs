//! Leader election between two executors.

use std::time::{Duration, Instant};

use aileron_history::plan::{Expected, PlannedTask};
use aileron_parity::cluster::User;
use aileron_parity::recorder::Expectations;
use aileron_parity::suite::{Server, StatusView, Task};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};

aileron_parity::on_both!(one_executor_leads_and_the_other_takes_over);

/// A lease that is not released expires after this time.
const LEASE_DURATION: Duration = Duration::from_secs(15);

async fn leader(leases: &Api<Lease>) -> Result<String> {
    let held = leases.list(&ListParams::default()).await?.items.pop().and_then(|lease| lease.spec);
    held.and_then(|spec| spec.holder_identity).context("the lease has no holder")
}

async fn one_executor_leads_and_the_other_takes_over(on: Server) -> Result<()> {
    let (bench, recorder) = on.recorded_bench().await?;
    let space = bench.space("led").await?;
    let settings = bench.settings().with(&["executor", "leaderElect"], true);
    let leases: Api<Lease> = Api::namespaced(space.admin.clone(), "flyte");

    let mut first = bench.recorded_program(&recorder, &settings, User::Executor, "first").await?;
    first.until_started().await?;
    let mut second = bench.recorded_program(&recorder, &settings, User::OtherExecutor, "second").await?;
    assert!(leader(&leases).await?.starts_with("first"));
    space.submit(&Task::container("one")).await?;
    space.until_ended("one").await?;
    second.check()?;
    assert!(!second.has_started(), "the standby started rounds:\n{}", second.log());

    // A killed leader does not release the lease: the second executor waits until it expires.
    space.submit(&Task::container("two").attempts(&["succeed@1000"])).await?;
    space.until("two", "running", |action| action.reason() == "Executing").await?;
    first.kill();
    let action = space.until("two", "ended", |action| action.outcome().is_some()).await?;
    assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    assert!(second.has_started() && leader(&leases).await?.starts_with("second"));

    // An executor that is shut down releases the lease, so the third one need not wait for it to expire.
    let mut third = bench.recorded_program(&recorder, &settings, User::Executor, "third").await?;
    second.terminate().await?;
    let released = Instant::now();
    third.until_started().await?;
    ensure!(released.elapsed() < LEASE_DURATION, "the lease was not released:\n{}", third.log());
    space.submit(&Task::container("three")).await?;
    let action = space.until("three", "ended", |action| action.outcome().is_some()).await?;
    assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    third.check()?;
    assert_eq!(space.runs().len(), 3);

    let planned = |name: &str| PlannedTask {
        namespace: "led".to_owned(),
        name: name.to_owned(),
        task_type: "container".to_owned(),
        is_cached: false,
        expected: Expected::Success(1),
    };
    let tasks = ["one", "two", "three"].map(planned).to_vec();
    let quiet_for = Duration::from_secs(2);
    recorder.conclude(Expectations { tasks, quiet_for, ..Expectations::default() }).await?.ensure_kept()?;
    third.terminate().await
}
