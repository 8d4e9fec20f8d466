//! The events service is slow, unavailable, or loses answers. No event is lost, and no status is written before its event.

use std::time::Duration;

use aileron_action::TaskAction;
use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_parity::events_stub::{Code, Fault};
use aileron_parity::suite::{
    Bench, Executor, Observations, POLL_INTERVAL, Server, Space, StatusView, Task, WAIT_TIMEOUT,
};
use anyhow::{Result, bail, ensure};

aileron_parity::on_both!(an_unavailable_service_loses_no_event, a_slow_service_delays_only_statuses);

/// Checks that no status was written before the event of its phase arrived, and that the phases of each attempt are in
/// order.
fn check_order(space: &Space<'_>, seen: &Observations, name: &str) {
    let recorded = space.recorded(name);
    for observation in seen.of(name) {
        let phase = match observation.action.reason().as_str() {
            "Queued" => ActionPhase::Queued,
            "Initializing" => ActionPhase::Initializing,
            "Executing" => ActionPhase::Running,
            "Completed" => ActionPhase::Succeeded,
            "PermanentFailure" => ActionPhase::Failed,
            _ => continue,
        };
        let attempt = observation.action.status_or_default().attempts;
        let event = recorded.iter().find(|event| event.event.phase() == phase && event.event.attempt == attempt);
        assert!(
            event.is_some_and(|event| event.at <= observation.at),
            "{name}: {phase:?} of attempt {attempt} was written at {} but recorded at {:?}",
            observation.at,
            event.map(|event| event.at)
        );
    }
    let phases = space.phases(name);
    let order: Vec<_> = phases.iter().map(|(attempt, phase)| (*attempt, *phase as i32)).collect();
    assert!(order.is_sorted(), "{name}: {phases:?}");
}

fn waits_for_events(action: &TaskAction) -> bool {
    action.status_or_default().pending().is_some_and(|pending| pending.reason == "Events")
}

async fn until_requests(bench: &Bench, more_than: usize) -> Result<()> {
    let begin = std::time::Instant::now();
    while bench.stub.requests() <= more_than {
        if begin.elapsed() > WAIT_TIMEOUT {
            bail!("the executor does not send events");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

async fn an_unavailable_service_loses_no_event(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("away").await?;
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    let seen = space.observe();

    // Unavailable from the start: the task runs, but no phase is written.
    bench.stub.fault(Fault::refuse(Code::Unavailable));
    space.submit(&Task::container("early").attempts(&["succeed@50"])).await?;
    let retried = Task::container("retried").retries(1).attempts(&["fail:1", "succeed@100"]);
    space.submit(&retried).await?;
    until_requests(&bench, 3).await?;
    assert!(space.recorded("early").is_empty());
    for name in ["early", "retried"] {
        // Only what the action waits for is shown, so that users see why nothing changes.
        let action = space.until(name, "waiting for the events service", waits_for_events).await?;
        let status = action.status_or_default();
        assert_eq!(status.conditions.len(), 1, "a status was written before its event");
        let message = &status.conditions[0].message;
        assert!(message.contains("events service") && message.contains("refused by a fault of the test"), "{message}");
    }
    bench.stub.heal();
    for name in ["early", "retried"] {
        let action = space.until_ended(name).await?;
        assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
        check_order(&space, &seen, name);
    }

    // Lost answers in the middle: duplicate events are allowed, missing ones are not.
    // The test ends this pod itself, so that its end comes after the fault.
    space.submit(&Task::container("middle").attempts(&["run"])).await?;
    space.until("middle", "running", |action| action.reason() == "Executing").await?;
    bench.stub.fault(Fault::lose_answers());
    let so_far = bench.stub.requests();
    space.complete_pod("middle-0").await?;
    until_requests(&bench, so_far + 1).await?;
    let action = space.until("middle", "there", |_| true).await?;
    assert_eq!(action.outcome(), None, "the end must not be written before its event is acknowledged");
    bench.stub.heal();
    space.until_ended("middle").await?;
    check_order(&space, &seen, "middle");
    assert_eq!(space.runs().len(), 4, "each attempt ran once");
    executor.check()?;

    // Unavailable while a task is aborted: the action stays until its event is stored.
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

async fn a_slow_service_delays_only_statuses(on: Server) -> Result<()> {
    const TASKS: usize = 12;
    let bench = on.bench().await?;
    let space = bench.space("slow").await?;
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    let seen = space.observe();
    bench.stub.fault(Fault::slow(Duration::from_millis(400)));
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| Task::container(&format!("t{number}")).retries(1).attempts(&["fail:1@100", "succeed@100"]))
        .collect();
    for task in &tasks {
        space.submit(task).await?;
    }
    let actions = space.until_all_ended(TASKS).await?;
    for action in &actions {
        assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    }
    for task in &tasks {
        check_order(&space, &seen, &task.name);
    }
    assert_eq!(space.runs().len(), 2 * TASKS);
    // Sent one after the other, each event would be a request, and each status would wait for all events before it.
    let (requests, events) = (bench.stub.requests(), bench.stub.events().len());
    ensure!(requests < events, "{requests} requests for {events} events");
    executor.stop().await
}
