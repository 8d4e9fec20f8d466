//! The events service is slow, away, or forgetful. Nothing is lost, nothing is shown before it is recorded.

use std::time::Duration;

use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_parity::events_stub::{Code, Fault};
use aileron_parity::suite::{Bench, Executor, LOOK_EVERY, PATIENCE, Server, Shown, Sightings, Space, Task};
use anyhow::{Result, bail};

aileron_parity::on_both!(a_service_that_is_away_loses_nothing, a_slow_service_delays_what_is_shown_and_nothing_else);

/// No status was seen before the event of its phase had arrived, and phases are in order within each attempt.
fn check_order(space: &Space<'_>, seen: &Sightings, name: &str) {
    let recorded = space.recorded(name);
    for sighting in seen.of(name) {
        let phase = match sighting.action.reason().as_str() {
            "Queued" => ActionPhase::Queued,
            "Initializing" => ActionPhase::Initializing,
            "Executing" => ActionPhase::Running,
            "Completed" => ActionPhase::Succeeded,
            "PermanentFailure" => ActionPhase::Failed,
            _ => continue,
        };
        let attempt = sighting.action.shown().attempts;
        let told = recorded.iter().find(|told| told.event.phase() == phase && told.event.attempt == attempt);
        assert!(
            told.is_some_and(|told| told.at <= sighting.at),
            "{name}: {phase:?} of attempt {attempt} was shown at {} but recorded at {:?}",
            sighting.at,
            told.map(|told| told.at)
        );
    }
    let phases = space.phases(name);
    let order: Vec<_> = phases.iter().map(|(attempt, phase)| (*attempt, *phase as i32)).collect();
    assert!(order.is_sorted(), "{name}: {phases:?}");
}

async fn until_requests(bench: &Bench, more_than: usize) -> Result<()> {
    let begin = std::time::Instant::now();
    while bench.stub.requests() <= more_than {
        if begin.elapsed() > PATIENCE {
            bail!("the executor does not try to send events");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn a_service_that_is_away_loses_nothing(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("away").await?;
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    let seen = space.sightings();

    // Away from the start: the task runs, but nothing is shown.
    bench.stub.fault(Fault::refuse(Code::Unavailable));
    space.submit(&Task::container("early").attempts(&["succeed@50"])).await?;
    let retried = Task::container("retried").retries(1).attempts(&["fail:1", "succeed@100"]);
    space.submit(&retried).await?;
    until_requests(&bench, 3).await?;
    assert!(space.recorded("early").is_empty());
    for name in ["early", "retried"] {
        let action = space.until(name, "there", |_| true).await?;
        assert_eq!(action.shown().conditions, [], "nothing is shown that is not recorded");
    }
    bench.stub.heal();
    for name in ["early", "retried"] {
        let action = space.until_ended(name).await?;
        assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
        check_order(&space, &seen, name);
    }

    // Away in the middle, and answers that are lost: doubles are allowed, gaps are not.
    space.submit(&Task::container("middle").attempts(&["succeed@800"])).await?;
    space.until("middle", "running", |action| action.reason() == "Executing").await?;
    bench.stub.fault(Fault::lose_answers());
    let so_far = bench.stub.requests();
    until_requests(&bench, so_far + 1).await?;
    let action = space.until("middle", "there", |_| true).await?;
    assert_eq!(action.outcome(), None, "the end is not shown before its event is acknowledged");
    bench.stub.heal();
    space.until_ended("middle").await?;
    check_order(&space, &seen, "middle");
    assert_eq!(space.runs().len(), 4, "each attempt ran once");
    executor.check()?;

    // Away while a task is aborted: the action waits for its event.
    space.submit(&Task::container("aborted").attempts(&["run"])).await?;
    space.until("aborted", "running", |action| action.reason() == "Executing").await?;
    bench.stub.fault(Fault::refuse(Code::Unavailable));
    space.delete("aborted").await?;
    space.until_pods(&["early-0", "retried-1", "middle-0"]).await?;
    assert!(space.actions.get_opt("aborted").await?.is_some());
    bench.stub.heal();
    space.until_gone("aborted").await?;
    assert_eq!(space.phases("aborted").last(), Some(&(1, ActionPhase::Aborted)));
    executor.stop().await
}

async fn a_slow_service_delays_what_is_shown_and_nothing_else(on: Server) -> Result<()> {
    const TASKS: usize = 12;
    let bench = on.bench().await?;
    let space = bench.space("slow").await?;
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    let seen = space.sightings();
    bench.stub.fault(Fault::slow(Duration::from_millis(400)));
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| Task::container(&format!("t{number}")).retries(1).attempts(&["fail:1@100", "succeed@100"]))
        .collect();
    for task in &tasks {
        space.submit(task).await?;
    }
    // One after the other would take TASKS times as long: at least five events of 400 ms each.
    let actions = space.until_all_ended(TASKS, Duration::from_secs(15)).await?;
    for action in &actions {
        assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    }
    for task in &tasks {
        check_order(&space, &seen, &task.name);
    }
    assert_eq!(space.runs().len(), 2 * TASKS);
    executor.stop().await
}
