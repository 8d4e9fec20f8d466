//! Tasks that end well: what others see of them, and what they cost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aileron_action::ACTION_FINALIZER;
use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_parity::cluster::AuditRecord;
use aileron_parity::suite::{LOOK_EVERY, PATIENCE, Server, Shown, Sightings, Space, Task};
use anyhow::Result;
use jiff::SignedDuration;

aileron_parity::on_both!(
    a_container_runs_and_everybody_learns_of_it,
    a_burst_costs_no_more_per_task_and_conflicts_with_nobody
);

/// Finalizer, pod, at most two statuses, labels.
const REQUESTS: usize = 5;

/// The audit log is written a moment after the answer; the labels are the last thing the executor does.
async fn settled(space: &Space<'_>, tasks: usize) -> Result<Vec<AuditRecord>> {
    let begin = Instant::now();
    loop {
        let requests = space.requests()?;
        let of_action = |request: &&AuditRecord| request.resource == "taskactions" && request.subresource.is_empty();
        if requests.iter().filter(of_action).count() >= 2 * tasks || begin.elapsed() > PATIENCE {
            return Ok(requests);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Steps that lasted longer than they are held back, and so were rightly written: `Queued` 10 s, `Initializing` 2 s.
/// An intermediate step that shows earlier is a write too many.
fn slow_steps(space: &Space<'_>, seen: &Sightings, name: &str) -> usize {
    let held = [
        ("Queued", ActionPhase::Queued, SignedDuration::from_millis(9900)),
        ("Initializing", ActionPhase::Initializing, SignedDuration::from_millis(1900)),
    ];
    let recorded = space.recorded(name);
    let mut steps = 0;
    for (reason, phase, patience) in held {
        let Some(shown) = seen.of(name).into_iter().find(|sighting| sighting.action.reason() == reason) else {
            continue;
        };
        let told = recorded.iter().find(|recorded| recorded.event.phase() == phase);
        let waited = told.map_or(SignedDuration::ZERO, |told| shown.at.duration_since(told.at));
        assert!(waited >= patience, "{name} showed {reason} after {waited:?}");
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

async fn a_container_runs_and_everybody_learns_of_it(on: Server) -> Result<()> {
    let space = on.shared().await?.space("succeeds").await?;
    let seen = space.sightings();
    let task = Task::container("good").attempts(&["succeed@400"]);
    space.submit(&task).await?;
    let action = space.until_ended("good").await?;

    let status = action.shown();
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

    // Ends with outputs, and a phase never goes back.
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

    // Whatever a status shows, its event was there before.
    for sighting in seen.of("good") {
        let phase = match sighting.action.reason().as_str() {
            "Queued" => ActionPhase::Queued,
            "Executing" => ActionPhase::Running,
            "Completed" => ActionPhase::Succeeded,
            _ => continue,
        };
        let told = recorded.iter().find(|recorded| recorded.event.phase() == phase);
        assert!(told.is_some_and(|told| told.at <= sighting.at), "{phase:?} was shown before it was recorded");
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

async fn a_burst_costs_no_more_per_task_and_conflicts_with_nobody(on: Server) -> Result<()> {
    const TASKS: usize = 100;
    let space = on.shared().await?.space("burst").await?;
    let seen = space.sightings();
    let tasks: Vec<_> =
        (0..TASKS).map(|number| Task::container(&format!("t{number}")).attempts(&["succeed@300"])).collect();
    futures::future::try_join_all(tasks.iter().map(|task| space.submit(task))).await?;
    let actions = space.until_all_ended(TASKS, Duration::from_secs(60)).await?;
    for action in &actions {
        assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    }
    assert_eq!(space.runs().len(), TASKS, "each pod runs once");
    let requests = settled(&space, TASKS).await?;
    let counts = count(&requests);
    let slow: usize = tasks.iter().map(|task| slow_steps(&space, &seen, &task.name)).sum();
    assert!(requests.len() <= TASKS * REQUESTS + slow, "{slow} steps were slow: {counts:#?}");
    assert!(requests.iter().all(|request| request.code < 300), "{counts:#?}");
    Ok(())
}
