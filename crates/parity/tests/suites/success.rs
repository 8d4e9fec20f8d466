//! Successful tasks: their status, events and pods, and the number of requests.

use std::collections::BTreeMap;
use std::time::Instant;

use aileron_action::ACTION_FINALIZER;
use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_parity::cluster::AuditRecord;
use aileron_parity::suite::{Observations, POLL_INTERVAL, Server, Space, StatusView, Task, WAIT_TIMEOUT};
use anyhow::Result;
use jiff::SignedDuration;

aileron_parity::on_both!(
    a_container_task_runs_and_is_reported,
    a_burst_costs_no_more_requests_per_task_and_no_conflicts
);

/// Requests per task: finalizer, pod, at most two status writes, labels.
const REQUESTS: usize = 5;

/// Waits for the last requests: the audit log is written a moment after the answer, and the labels are the executor's last
/// write.
async fn settled(space: &Space<'_>, tasks: usize) -> Result<Vec<AuditRecord>> {
    let begin = Instant::now();
    loop {
        let requests = space.requests()?;
        let of_action = |request: &&AuditRecord| request.resource == "taskactions" && request.subresource.is_empty();
        if requests.iter().filter(of_action).count() >= 2 * tasks || begin.elapsed() > WAIT_TIMEOUT {
            return Ok(requests);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Counts intermediate statuses that lasted longer than their status hold and so had to be written: `Queued` 10 s,
/// `Initializing` 2 s. An intermediate status that was written earlier fails the test.
fn slow_steps(space: &Space<'_>, seen: &Observations, name: &str) -> usize {
    let held = [
        ("Queued", ActionPhase::Queued, SignedDuration::from_millis(9900)),
        ("Initializing", ActionPhase::Initializing, SignedDuration::from_millis(1900)),
    ];
    let recorded = space.recorded(name);
    let mut steps = 0;
    for (reason, phase, hold) in held {
        let Some(shown) = seen.of(name).into_iter().find(|observation| observation.action.reason() == reason) else {
            continue;
        };
        let event = recorded.iter().find(|recorded| recorded.event.phase() == phase);
        let waited = event.map_or(SignedDuration::ZERO, |event| shown.at.duration_since(event.at));
        assert!(waited >= hold, "{name} had status {reason} already after {waited:?}");
        steps += 1;
    }
    steps
}

fn count(requests: &[AuditRecord]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for AuditRecord { verb, resource, subresource, code, .. } in requests {
        *counts.entry(format!("{verb} {resource}/{subresource} {code}")).or_default() += 1;
    }
    counts
}

async fn a_container_task_runs_and_is_reported(on: Server) -> Result<()> {
    let space = on.shared().await?.space("succeeds").await?;
    let seen = space.observe();
    let task = Task::container("good").attempts(&["succeed@400"]);
    space.submit(&task).await?;
    let action = space.until_ended("good").await?;

    let status = action.status_or_default();
    let conditions: Vec<_> =
        status.conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str())).collect();
    assert_eq!(conditions, [("Progressing", "False", "Completed"), ("Succeeded", "True", "Completed")]);
    let history = action.history();
    assert_eq!((history.first().unwrap().as_str(), history.last().unwrap().as_str()), ("Queued", "Completed"));
    assert!(history.iter().any(|phase| phase == "Executing"), "{history:?}");
    assert_eq!((status.attempts, status.system_failures, status.error_state), (1, 0, None));
    assert_eq!(status.plugin_phase, "PhaseSuccess");
    assert!(!status.plugin_state.0.is_empty() && status.state_json.contains("succeeds/good"), "{}", status.state_json);
    assert_eq!(action.metadata.finalizers.as_deref().unwrap_or_default(), [ACTION_FINALIZER]);

    // The last event has outputs, and phases never go back.
    let phases = space.phases("good");
    assert_eq!(phases.first().unwrap(), &(1, ActionPhase::Queued));
    assert_eq!(phases.last().unwrap(), &(1, ActionPhase::Succeeded));
    assert!(phases.contains(&(1, ActionPhase::Running)), "{phases:?}");
    assert!(phases.windows(2).all(|pair| (pair[0].1 as i32) < pair[1].1 as i32), "{phases:?}");
    let recorded = space.recorded("good");
    let last = &recorded.last().unwrap().event;
    let uri = last.outputs.clone().unwrap_or_default().output_uri;
    let path = uri.strip_prefix("file://").unwrap();
    assert!(path.ends_with("/good/1/outputs.pb") && std::path::Path::new(path).exists(), "{uri}");
    assert_eq!(last.cluster, "suite");

    // The event of each status was recorded before the status was written.
    for observation in seen.of("good") {
        let phase = match observation.action.reason().as_str() {
            "Queued" => ActionPhase::Queued,
            "Executing" => ActionPhase::Running,
            "Completed" => ActionPhase::Succeeded,
            _ => continue,
        };
        let event = recorded.iter().find(|recorded| recorded.event.phase() == phase);
        assert!(
            event.is_some_and(|event| event.at <= observation.at),
            "the status {phase:?} was written before its event was recorded"
        );
    }

    let pod = space.pods.get("good-0").await?;
    let labels = pod.metadata.labels.unwrap_or_default();
    let label = |key: &str| labels.get(key).map(String::as_str);
    assert_eq!((label("attempt"), label("action"), label("run")), (Some("1"), Some("good"), Some("succeeds")));
    assert_eq!(space.runs().len(), 1);

    let requests = settled(&space, 1).await?;
    assert!(requests.len() <= REQUESTS + slow_steps(&space, &seen, "good"), "{:#?}", count(&requests));
    assert!(requests.iter().all(|request| request.code < 300), "{:#?}", count(&requests));
    Ok(())
}

async fn a_burst_costs_no_more_requests_per_task_and_no_conflicts(on: Server) -> Result<()> {
    const TASKS: usize = 100;
    let space = on.shared().await?.space("burst").await?;
    let seen = space.observe();
    let tasks: Vec<_> =
        (0..TASKS).map(|number| Task::container(&format!("t{number}")).attempts(&["succeed@300"])).collect();
    futures::future::try_join_all(tasks.iter().map(|task| space.submit(task))).await?;
    let actions = space.until_all_ended(TASKS).await?;
    for action in &actions {
        assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    }
    assert_eq!(space.runs().len(), TASKS, "each pod runs once");
    let requests = settled(&space, TASKS).await?;
    let counts = count(&requests);
    let slow: usize = tasks.iter().map(|task| slow_steps(&space, &seen, &task.name)).sum();
    assert!(requests.len() <= TASKS * REQUESTS + slow, "{slow} intermediate statuses were written: {counts:#?}");
    assert!(requests.iter().all(|request| request.code < 300), "{counts:#?}");
    Ok(())
}
