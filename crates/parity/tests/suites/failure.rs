//! Attempts that fail, because of the task or because of the platform.

use aileron_idl::flyteidl2::common::ActionPhase::{Failed, Queued, Succeeded};
use aileron_idl::flyteidl2::workflow::error_info::Kind;
use aileron_parity::suite::{Server, Space, StatusView, Task};
use anyhow::Result;
use kube::ResourceExt;
use kube::api::DeleteParams;

aileron_parity::on_both!(
    every_attempt_is_used_and_reported_and_its_pod_removed,
    a_second_attempt_may_succeed,
    an_error_that_is_not_recoverable_uses_no_more_attempts,
    a_task_that_is_killed_each_time_ends,
    a_pod_that_is_lost_each_time_ends_the_task_and_one_that_is_lost_once_does_not,
    a_pod_that_can_never_start_is_deleted_after_its_task_has_failed,
    a_task_with_a_long_error_message_ends
);

/// Attempt, code and kind of each FAILED event, without consecutive duplicates.
fn failures(space: &Space<'_>, name: &str) -> Vec<(u32, String, Kind)> {
    let events = space.recorded(name).into_iter().map(|recorded| recorded.event);
    let failed = events.filter(|event| event.phase() == Failed);
    let mut failures: Vec<_> = failed
        .map(|event| {
            let error = event.error_info.clone().unwrap_or_default();
            (event.attempt, error.code.clone(), error.kind())
        })
        .collect();
    failures.dedup();
    failures
}

async fn every_attempt_is_used_and_reported_and_its_pod_removed(on: Server) -> Result<()> {
    let space = on.shared().await?.space("uses-up").await?;
    let task = Task::container("bad").retries(2).attempts(&[
        "fail:1:Error:broken@50",
        "error:UserBug:recoverable",
        "fail:2:Error:broken again",
    ]);
    space.submit(&task).await?;
    let action = space.until_ended("bad").await?;

    assert_eq!(action.outcome().unwrap(), ("Failed".into(), "PermanentFailure".into()), "{}", action.summary());
    let status = action.status_or_default();
    assert_eq!(status.attempts, 3);
    let error = status.error_state.unwrap();
    assert_eq!(error.kind, "USER");
    assert!(error.message.contains("exit code (2)"), "{}", error.message);
    let failures = failures(&space, "bad");
    let attempts: Vec<_> = failures.iter().map(|failure| failure.0).collect();
    assert_eq!(attempts, [1, 2, 3], "{failures:?}");
    assert_eq!(failures[1].1, "UserBug");
    assert_eq!(failures[2].1, error.code, "the last event and the status agree");
    // A failed attempt is reported before the next one begins.
    let phases = space.phases("bad");
    let place = |wanted| phases.iter().position(|phase| *phase == wanted);
    assert!(place((1, Failed)) < place((2, Queued)) && place((2, Failed)) < place((3, Queued)), "{phases:?}");

    let runs: Vec<_> = space.runs().into_iter().map(|run| run.name).collect();
    assert_eq!(runs, ["bad-0", "bad-1", "bad-2"]);
    space.until_pods(&["bad-2"]).await
}

async fn a_second_attempt_may_succeed(on: Server) -> Result<()> {
    let space = on.shared().await?.space("recovers").await?;
    let task = Task::container("better").retries(3).attempts(&["error:Flaky:recoverable", "succeed@50"]);
    space.submit(&task).await?;
    let action = space.until_ended("better").await?;
    assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    assert_eq!(action.status_or_default().attempts, 2);
    assert_eq!(failures(&space, "better").iter().map(|f| (f.0, f.1.as_str())).collect::<Vec<_>>(), [(1, "Flaky")]);
    assert_eq!(space.phases("better").last(), Some(&(2, Succeeded)));
    let outputs = space.recorded("better").last().unwrap().event.outputs.clone().unwrap();
    assert!(outputs.output_uri.ends_with("/better/2/outputs.pb"), "{}", outputs.output_uri);
    space.until_pods(&["better-1"]).await
}

async fn an_error_that_is_not_recoverable_uses_no_more_attempts(on: Server) -> Result<()> {
    let space = on.shared().await?.space("hopeless").await?;
    space.submit(&Task::container("never").retries(5).attempts(&["error:Hopeless:permanent"])).await?;
    let action = space.until_ended("never").await?;
    assert_eq!(
        (action.status_or_default().attempts, action.error_code().as_str()),
        (1, "Hopeless"),
        "{}",
        action.summary()
    );
    assert_eq!(space.runs().len(), 1);
    Ok(())
}

/// Exit code 137 (SIGKILL) is a system failure: the same attempt is relaunched, up to a limit.
async fn a_task_that_is_killed_each_time_ends(on: Server) -> Result<()> {
    let space = on.shared().await?.space("killed").await?;
    space.submit(&Task::container("doomed").retries(1).attempts(&["fail:137:Error:@20"])).await?;
    let action = space.until_ended("doomed").await?;
    assert_eq!(action.error_code(), "MaxSystemFailuresExceeded", "{}", action.summary());
    let status = action.status_or_default();
    assert_eq!(
        (status.attempts, status.error_state.unwrap().kind.as_str()),
        (1, "SYSTEM"),
        "a system failure uses no attempt"
    );
    let runs = space.runs();
    assert_eq!(runs.len(), 4, "one launch and executor.maxSystemFailures relaunches");
    assert!(runs.iter().all(|run| run.name == "doomed-0"));
    Ok(())
}

async fn a_pod_that_is_lost_each_time_ends_the_task_and_one_that_is_lost_once_does_not(on: Server) -> Result<()> {
    let space = on.shared().await?.space("lost").await?;
    space.submit(&Task::container("lost").attempts(&["vanish@30"])).await?;
    space.submit(&Task::container("moved").attempts(&["succeed@1500"])).await?;
    space.until("moved", "running", |action| action.reason() == "Executing").await?;
    let pod = space.pods.get("moved-0").await?;
    space.pods.delete("moved-0", &DeleteParams::default()).await?;

    let action = space.until_ended("moved").await?;
    assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    assert_ne!(space.pods.get("moved-0").await?.uid(), pod.uid());

    let action = space.until_ended("lost").await?;
    assert_eq!(action.error_code(), "MaxSystemFailuresExceeded", "{}", action.summary());
    assert_eq!(space.runs().iter().filter(|run| run.name == "lost-0").count(), 4);
    Ok(())
}

/// Otherwise the pod would use quota until the action is deleted. A pod that has run is kept for its logs.
async fn a_pod_that_can_never_start_is_deleted_after_its_task_has_failed(on: Server) -> Result<()> {
    let space = on.shared().await?.space("never-starts").await?;
    let typo = "waiting:InvalidImageName:couldn't parse image name \"Registry/Task\"";
    space.submit(&Task::container("typo").retries(3).attempts(&[typo])).await?;
    space.submit(&Task::container("ran").attempts(&["error:Broken:permanent"])).await?;
    let action = space.until_ended("typo").await?;
    assert!(action.error_code().ends_with("InvalidImageName"), "{}", action.summary());
    assert_eq!(action.status_or_default().attempts, 1, "another attempt would have the same image");
    assert_eq!(space.until_ended("ran").await?.error_code(), "Broken");
    space.until_pods(&["ran-0"]).await?;

    let requests = space.requests()?;
    let deleted = requests.iter().position(|it| (&*it.verb, &*it.name) == ("delete", "typo-0")).unwrap();
    let ended = requests.iter().rposition(|it| (&*it.subresource, &*it.name) == ("status", "typo")).unwrap();
    assert!(ended < deleted, "the end must be written before the delete: {requests:?}");
    assert_eq!(requests.iter().filter(|it| it.verb == "delete").count(), 1, "{requests:?}");
    Ok(())
}

/// The schema allows 32,768 characters in a condition, and an object in etcd has at most 1.5 MiB.
async fn a_task_with_a_long_error_message_ends(on: Server) -> Result<()> {
    let space = on.shared().await?.space("verbose").await?;
    for (name, bytes) in [("long", 40_000), ("longest", 2 * 1024 * 1024 - 4096)] {
        let entry = format!("error:Verbose:permanent:{bytes}");
        space.submit(&Task::container(name).attempts(&[&entry])).await?;
        let action = space.until_ended(name).await?;
        assert_eq!(action.outcome().unwrap().0, "Failed", "{}", action.summary());
        let error = action.status_or_default().error_state.unwrap();
        assert_eq!(error.code, "Verbose");
        let reported = space.recorded(name).last().unwrap().event.error_info.clone().unwrap();
        for message in [&error.message, &reported.message] {
            let (length, end) = (message.len(), &message[message.len() - 40..]);
            assert!(length > 16_000 && length <= 64 * 1024, "{length}");
            assert!(end.ends_with("attempt 1 says Verbose"), "{end}");
        }
        assert!(error.message.contains("bytes left out"));
    }
    Ok(())
}
