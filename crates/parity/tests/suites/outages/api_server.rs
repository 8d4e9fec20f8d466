//! The API server carries a write out and its answer is lost, or the network loses everything without a notice.

use std::collections::BTreeMap;
use std::time::Duration;

use aileron_idl::flyteidl2::common::ActionPhase::Aborted;
use aileron_parity::cluster::{Proxy, RefusalRule, Wire};
use aileron_parity::suite::{Executor, Server, Space, StatusView, Task};
use anyhow::Result;

use super::{check_unharmed, is_executing};

aileron_parity::on_both!(a_write_whose_answer_is_lost_is_not_done_twice, tasks_go_on_after_connections_were_half_open);

/// How long the network loses everything: long enough for the end of a pod to be missed.
const SILENCE: Duration = Duration::from_secs(3);

/// Kinds of writes, and how many answers of each are lost.
const LOST: [(&str, &str, usize); 4] =
    [("create", "pods", 2), ("patch", "taskactions", 3), ("patch", "taskactions/status", 3), ("delete", "pods", 2)];

async fn a_write_whose_answer_is_lost_is_not_done_twice(on: Server) -> Result<()> {
    const TASKS: usize = 6;
    let bench = on.bench().await?;
    let space = bench.space("lost-answers").await?;
    let proxy = Proxy::start(&bench.cluster).await?;
    let executor = Executor::start_with(proxy.client()?, &bench.settings(), std::convert::identity).await?;
    for (verb, resource, times) in LOST {
        proxy.refuse(RefusalRule::lost(verb, resource, times));
    }
    // The pod of the first attempt is deleted.
    for number in 0..TASKS {
        let task = Task::container(&format!("t{number}")).retries(1).attempts(&["fail:1", "succeed@200"]);
        space.submit(&task).await?;
    }
    for action in space.until_all_ended(TASKS).await? {
        let outcome = action.outcome().map(|outcome| outcome.0);
        assert_eq!(
            (outcome.as_deref(), action.status_or_default().attempts),
            (Some("Succeeded"), 2),
            "{}",
            action.summary()
        );
    }
    space.submit(&Task::container("aborted").attempts(&["run"])).await?;
    space.until("aborted", "running", is_executing).await?;
    proxy.refuse(RefusalRule::lost("delete", "pods", 1));
    space.delete("aborted").await?;
    space.until_gone("aborted").await?;
    assert_eq!(space.phases("aborted").last(), Some(&(1, Aborted)));

    let last: Vec<_> = (0..TASKS).map(|number| format!("t{number}-1")).collect();
    space.until_pods(&last.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    check_each_ran_once(&space, 2 * TASKS + 1);
    let lost = proxy.requests().into_iter().filter(|request| request.lost).count();
    assert_eq!(lost, LOST.iter().map(|(_, _, times)| times).sum::<usize>() + 1, "all answers were lost that should be");
    executor.stop().await
}

async fn tasks_go_on_after_connections_were_half_open(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("half-open").await?;
    let proxy = Proxy::start(&bench.cluster).await?;
    let wire = Wire::start(proxy.url()).await?;
    let executor = Executor::start_with(wire.client()?, &bench.settings(), std::convert::identity).await?;
    for name in ["ends", "runs"] {
        space.submit(&Task::container(name).attempts(&["run"])).await?;
        space.until(name, "running", is_executing).await?;
    }
    // The executor works on these when the silence begins.
    for number in 0..4 {
        space.submit(&Task::container(&format!("new-{number}"))).await?;
    }
    wire.swallow();
    space.complete_pod("ends-0").await?;
    space.submit(&Task::container("missed")).await?;
    tokio::time::sleep(SILENCE).await;
    let action = space.until("ends", "there", |_| true).await?;
    assert_eq!(action.outcome(), None, "nothing passes");

    wire.reset();
    for name in ["ends", "missed", "new-0", "new-1", "new-2", "new-3"] {
        check_unharmed(&space.until_ended(name).await?);
    }
    space.complete_pod("runs-0").await?;
    check_unharmed(&space.until_ended("runs").await?);
    check_each_ran_once(&space, 7);
    executor.check()?;
    executor.stop().await
}

fn check_each_ran_once(space: &Space<'_>, pods: usize) {
    let mut runs = BTreeMap::<String, usize>::new();
    for run in space.runs() {
        *runs.entry(run.name).or_default() += 1;
    }
    assert!(runs.len() == pods && runs.values().all(|count| *count == 1), "{runs:?}");
}
