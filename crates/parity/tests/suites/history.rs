//! The recorded history of a run: complete, kept by a good executor, and broken by a bad one or by a doctored entry.

use std::sync::Arc;
use std::time::Duration;

use aileron_history::check;
use aileron_history::history::{Change, Entry, What};
use aileron_history::plan::{Expected, PlannedTask};
use aileron_parity::cluster::User;
use aileron_parity::recorder::{Conclusion, Expectations};
use aileron_parity::suite::{Server, Task};
use anyhow::{Result, ensure};
use serde_json::json;

aileron_parity::on_both!(
    a_doctored_history_breaks_the_rules,
    an_executor_that_writes_without_the_lease_is_noticed,
    a_restart_of_the_servers_loses_no_change
);

fn planned(namespace: &str, name: &str, attempts: u32) -> PlannedTask {
    PlannedTask {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        task_type: "container".to_owned(),
        is_cached: false,
        expected: Expected::Success(attempts),
    }
}

/// The rules that a changed history breaks.
fn broken(conclusion: &Conclusion, change: impl Fn(Entry) -> Vec<Entry>) -> Vec<String> {
    let entries = conclusion.entries.iter().cloned().flat_map(change).collect();
    check::all(entries, &conclusion.evidence).into_iter().map(|violation| violation.rule).collect()
}

async fn a_doctored_history_breaks_the_rules(on: Server) -> Result<()> {
    let (bench, recorder) = on.recorded_bench().await?;
    let space = bench.space("doctored").await?;
    let settings = bench.settings().with(&["executor", "leaderElect"], true);
    let program = bench.recorded_program(&recorder, &settings, User::Executor, "executor").await?;
    space.submit(&Task::container("again").retries(1).attempts(&["fail:1@100", "succeed@100"])).await?;
    space.until_ended("again").await?;
    space.until_pods(&["again-1"]).await?;
    let tasks = vec![planned("doctored", "again", 2)];
    let quiet_for = Duration::from_secs(1);
    let conclusion = recorder.conclude(Expectations { tasks, quiet_for, ..Expectations::default() }).await?;
    conclusion.ensure_kept()?;
    program.terminate().await?;

    let is = |entry: &Entry, wanted: fn(&What) -> bool| wanted(&entry.what);
    let count = |wanted: fn(&What) -> bool| conclusion.entries.iter().filter(|entry| is(entry, wanted)).count();
    let is_event = |what: &What| matches!(what, What::Event { .. });
    let is_pod = |what: &What| matches!(what, What::Changed { resource: "pods", .. });
    ensure!(count(|what| matches!(what, What::Sent { leads: true, .. })) >= 5, "{:#?}", conclusion.entries);
    ensure!(count(is_event) >= 4 && count(is_pod) >= 6, "{:#?}", conclusion.entries);

    let rule = "an event is recorded before the status that follows from it";
    let without_events = broken(&conclusion, |entry| if is_event(&entry.what) { vec![] } else { vec![entry] });
    ensure!(without_events.iter().any(|found| found == rule), "{without_events:?}");
    // All events came after all changes.
    let late = broken(&conclusion, |entry| {
        let revision = if is_event(&entry.what) { u64::MAX } else { entry.revision };
        vec![Entry { revision, ..entry }]
    });
    ensure!(late.iter().any(|found| found == rule), "{late:?}");

    let unled = broken(&conclusion, |mut entry| {
        if let What::Sent { leads, .. } = &mut entry.what {
            *leads = false;
        }
        vec![entry]
    });
    ensure!(unled.iter().any(|found| found == "one process writes at a time"), "{unled:?}");

    // A second pod of the same attempt, which runs at the same time.
    let twice = broken(&conclusion, |entry| match &entry.what {
        What::Changed { resource: "pods", change, object } => {
            let mut other = object.as_ref().clone();
            other["metadata"]["uid"] = json!(format!("other than {}", object["metadata"]["uid"]));
            let what = What::Changed { resource: "pods", change: *change, object: Arc::new(other) };
            vec![entry.clone(), Entry { what, ..entry }]
        }
        _ => vec![entry],
    });
    ensure!(twice.iter().any(|found| found == "at most one object of an action is at work"), "{twice:?}");

    let changed = broken(&conclusion, |entry| match &entry.what {
        What::Changed { resource: "taskactions", object, .. } if object["status"]["attempts"] == 2 => {
            let mut other = object.as_ref().clone();
            other["status"]["attempts"] = json!(3);
            let (change, object) = (Change::Modified, Arc::new(other));
            vec![Entry { what: What::Changed { resource: "taskactions", change, object }, ..entry }]
        }
        _ => vec![entry],
    });
    ensure!(changed.iter().any(|found| found == "attempts and failures are charged one by one"), "{changed:?}");
    Ok(())
}

async fn an_executor_that_writes_without_the_lease_is_noticed(on: Server) -> Result<()> {
    let (bench, recorder) = on.recorded_bench().await?;
    let space = bench.space("two-writers").await?;
    let settings = bench.settings().with(&["executor", "leaderElect"], true);
    let mut first = bench.recorded_program(&recorder, &settings, User::Executor, "leader").await?;
    first.until_started().await?;
    let careless = settings.with(&["executor", "leaderElect"], false);
    let mut second = bench.recorded_program(&recorder, &careless, User::OtherExecutor, "careless").await?;
    second.until_started().await?;
    // The second one has to be quicker at least once.
    for number in 0..6 {
        let name = format!("t{number}");
        space.submit(&Task::container(&name).attempts(&["succeed@200"])).await?;
        space.until_ended(&name).await?;
    }
    let conclusion = recorder.conclude(Expectations { api_faults: true, ..Expectations::default() }).await?;
    let rules: Vec<_> = conclusion.violations.iter().map(|violation| violation.rule.as_str()).collect();
    ensure!(rules.contains(&"one process writes at a time"), "{rules:?}");
    ensure!(rules.contains(&"events come from the process that leads"), "{rules:?}");
    ensure!(conclusion.explain().contains("executor careless"), "{}", conclusion.explain());
    let of_the_leader = |entry: &&Entry| match &entry.what {
        What::Sent { process, leads, .. } => process.as_ref() == "executor leader" && !leads,
        _ => false,
    };
    let wrong: Vec<_> = conclusion.entries.iter().filter(of_the_leader).collect();
    ensure!(wrong.is_empty(), "{wrong:?}");
    first.terminate().await?;
    second.terminate().await
}

async fn a_restart_of_the_servers_loses_no_change(on: Server) -> Result<()> {
    let (bench, recorder) = on.recorded_bench().await?;
    let space = bench.space("restarted").await?;
    let program = bench.recorded_program(&recorder, &bench.settings(), User::Executor, "executor").await?;
    let mut tasks = Vec::new();
    for restart in ["nothing", "apiserver", "etcd"] {
        match restart {
            "apiserver" => bench.cluster.restart_apiserver().await?,
            "etcd" => bench.cluster.restart_etcd().await?,
            _ => {}
        }
        space.submit(&Task::container(restart).attempts(&["succeed@100"])).await?;
        space.until_ended(restart).await?;
        tasks.push(planned("restarted", restart, 1));
    }
    let expectations = Expectations { tasks, api_faults: true, ..Expectations::default() };
    let conclusion = recorder.conclude(expectations).await?;
    conclusion.ensure_kept()?;
    for name in ["nothing", "apiserver", "etcd"] {
        let states = conclusion.entries.iter().filter_map(|entry| match &entry.what {
            What::Changed { resource: "taskactions", change, object } => Some((change, object)),
            _ => None,
        });
        let states: Vec<_> = states.filter(|(_, action)| action["metadata"]["name"] == name).collect();
        ensure!(states.first().is_some_and(|(change, _)| **change == Change::Created), "{name}: {states:?}");
        ensure!(states.last().is_some_and(|(_, action)| check::has_ended(action)), "{name}: {states:?}");
        ensure!(states.len() >= 3, "created, ended, with labels: {states:?}");
    }
    program.terminate().await
}
