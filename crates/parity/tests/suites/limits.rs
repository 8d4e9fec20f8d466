//! Time limits of a task: queue and run time of an attempt, deadline of all attempts, and the pause before a retry.

use std::time::Duration;

use aileron_idl::flyteidl2::common::ActionPhase::{Failed, Queued, TimedOut};
use aileron_idl::flyteidl2::core::{Backoff, RetryStrategy, TimeoutStrategy};
use aileron_parity::suite::{Server, Space, StatusView, Task};
use anyhow::Result;

aileron_parity::on_both!(
    an_attempt_that_runs_too_long_is_stopped_and_another_follows,
    an_attempt_queued_too_long_reports_what_it_waits_for,
    the_queue_timeout_applies_to_each_attempt,
    a_deadline_ends_the_task_whatever_attempts_are_left,
    a_retry_waits_for_the_backoff_of_the_task,
    a_task_that_ends_in_time_is_not_disturbed
);

fn limited(task: Task, run: i64, queued: i64, deadline: i64) -> Task {
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let mut task = task;
    let metadata = task.template.metadata.get_or_insert_default();
    metadata.timeout = seconds(run);
    metadata.timeouts = Some(TimeoutStrategy { queued_timeout: seconds(queued), deadline: seconds(deadline) });
    task
}

/// The attempts that have a TIMED_OUT event.
fn timeouts(space: &Space<'_>, name: &str) -> Vec<u32> {
    let mut attempts: Vec<_> =
        space.phases(name).into_iter().filter(|(_, phase)| *phase == TimedOut).map(|(attempt, _)| attempt).collect();
    attempts.dedup();
    attempts
}

async fn an_attempt_that_runs_too_long_is_stopped_and_another_follows(on: Server) -> Result<()> {
    let space = on.shared().await?.space("runs-long").await?;
    space.submit(&limited(Task::container("long").retries(1).attempts(&["run"]), 2, 0, 0)).await?;
    let action = space.until_ended("long").await?;
    assert_eq!(action.outcome().unwrap(), ("Failed".into(), "TimedOut".into()), "{}", action.summary());
    assert_eq!(action.status_or_default().attempts, 2);
    let error = action.status_or_default().error_state.unwrap();
    assert_eq!((error.code.as_str(), error.kind.as_str()), ("MAX_RUNTIME_EXCEEDED", "USER"));
    assert_eq!(error.message, "attempt 2 ran for 2s, the longest that the task allows, and was stopped");
    assert_eq!(timeouts(&space, "long"), [1, 2]);
    let runs = space.runs();
    assert_eq!(runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["long-0", "long-1"]);
    let apart = Duration::try_from(runs[1].at.duration_since(runs[0].at))?;
    assert!(apart >= Duration::from_secs(2), "the second attempt began {apart:?} after the first");
    space.until_pods(&[]).await
}

async fn an_attempt_queued_too_long_reports_what_it_waits_for(on: Server) -> Result<()> {
    let space = on.shared().await?.space("waits-long").await?;
    let task = Task::container("stuck").attempts(&["unschedulable:0/3 nodes are available: 3 Insufficient cpu."]);
    // Long enough for the scheduler's answer to be seen, also on a busy machine.
    space.submit(&limited(task, 0, 8, 0)).await?;
    let action = space.until_ended("stuck").await?;
    assert_eq!(action.outcome().unwrap(), ("Failed".into(), "TimedOut".into()), "{}", action.summary());
    let message = action.status_or_default().error_state.unwrap().message;
    assert!(message.starts_with("attempt 1 was queued for 8s, the longest that the task allows: "), "{message}");
    assert!(message.contains("Insufficient cpu"), "{message}");
    space.until_pods(&[]).await
}

async fn the_queue_timeout_applies_to_each_attempt(on: Server) -> Result<()> {
    let space = on.shared().await?.space("waits-twice").await?;
    let begin = std::time::Instant::now();
    space.submit(&limited(Task::container("stuck").retries(1).attempts(&["pending"]), 0, 2, 0)).await?;
    let action = space.until_ended("stuck").await?;
    assert_eq!(action.outcome().unwrap(), ("Failed".into(), "TimedOut".into()), "{}", action.summary());
    assert_eq!((action.status_or_default().attempts, action.error_code().as_str()), (2, "QUEUED_TIMEOUT_EXCEEDED"));
    assert!(begin.elapsed() >= Duration::from_secs(4), "both attempts had ended after {:?}", begin.elapsed());
    assert_eq!(timeouts(&space, "stuck"), [1, 2]);
    space.until_pods(&[]).await
}

async fn a_deadline_ends_the_task_whatever_attempts_are_left(on: Server) -> Result<()> {
    let space = on.shared().await?.space("deadline").await?;
    let task =
        Task::container("late").retries(50).attempts(&["fail:1:Error:broken@300", "fail:1:Error:broken@300", "run"]);
    space.submit(&limited(task, 0, 0, 4)).await?;
    let action = space.until_ended("late").await?;
    assert_eq!(action.outcome().unwrap(), ("Failed".into(), "TimedOut".into()), "{}", action.summary());
    // On a busy machine the deadline may come before the first attempts have failed.
    let attempts = action.status_or_default().attempts;
    assert!(attempts <= 3, "{}", action.summary());
    let message = action.status_or_default().error_state.unwrap().message;
    assert_eq!(message, "the action had not ended 4s after it was queued first, which is its deadline");
    assert_eq!(timeouts(&space, "late"), [attempts]);
    space.until_pods(&[]).await
}

async fn a_retry_waits_for_the_backoff_of_the_task(on: Server) -> Result<()> {
    let space = on.shared().await?.space("pauses").await?;
    let mut task = Task::container("again").attempts(&["fail:1:Error:broken", "succeed"]);
    let base = prost_types::Duration { seconds: 5, nanos: 0 };
    let backoff = Backoff { base: Some(base), ..Backoff::default() };
    task.template.metadata.get_or_insert_default().retries = Some(RetryStrategy { retries: 3, backoff: Some(backoff) });
    space.submit(&task).await?;
    let pauses = |action: &aileron_action::TaskAction| action.pending().is_some_and(|(code, _)| code == "Retry");
    let pausing = space.until("again", "pauses before its second attempt", pauses).await?;
    let message = pausing.pending().unwrap().1;
    assert!(
        message.starts_with("waiting 5s before attempt 2 of 4, as the task asks for; the attempt before failed with "),
        "{message}"
    );
    let action = space.until_ended("again").await?;
    assert_eq!(
        (action.outcome().unwrap().0.as_str(), action.status_or_default().attempts),
        ("Succeeded", 2),
        "{}",
        action.summary()
    );
    let runs = space.runs();
    let apart = Duration::try_from(runs[1].at.duration_since(runs[0].at))?;
    assert!(apart >= Duration::from_secs(5), "the second attempt began {apart:?} after the first");
    // The end of the first attempt is reported at once, not when the second begins.
    let phases = space.phases("again");
    let place = |wanted| phases.iter().position(|phase| *phase == wanted);
    assert!(place((1, Failed)).is_some() && place((1, Failed)) < place((2, Queued)), "{phases:?}");
    Ok(())
}

async fn a_task_that_ends_in_time_is_not_disturbed(on: Server) -> Result<()> {
    let space = on.shared().await?.space("in-time").await?;
    space.submit(&limited(Task::container("quick").attempts(&["succeed@500"]), 100, 100, 110)).await?;
    let action = space.until_ended("quick").await?;
    assert_eq!(
        (action.outcome().unwrap().0.as_str(), action.status_or_default().attempts),
        ("Succeeded", 1),
        "{}",
        action.summary()
    );
    space.until_pods(&["quick-0"]).await
}
