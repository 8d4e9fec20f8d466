//! `kill -9` of the executor at any moment: no task is lost, no attempt runs twice, and no pod is left behind.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use aileron_history::plan::{Expected, PlannedTask};
use aileron_history::traces::Traces;
use aileron_idl::flyteidl2::common::ActionPhase::{Aborted, Failed, Succeeded};
use aileron_parity::cluster::User;
use aileron_parity::recorder::Expectations;
use aileron_parity::suite::{Program, Server, StatusView, Task};
use anyhow::{Context, Result};
use kube::ResourceExt;

aileron_parity::on_both!(
    a_killed_executor_neither_loses_nor_repeats_work,
    a_pod_that_ended_while_no_executor_ran_is_seen_before_a_new_task_ends
);

/// A random generator with a seed, so that a run can be repeated: `SUITE_SEED=<seed>`.
struct Random(u64);

impl Random {
    fn seeded() -> Result<Self> {
        let seed = match std::env::var("SUITE_SEED") {
            Ok(text) => text.parse().context("SUITE_SEED")?,
            Err(_) => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis() as u64,
        };
        println!("SUITE_SEED={seed}");
        Ok(Self(seed))
    }

    /// SplitMix64.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Script of the attempts, expected number of attempts, expected success.
const KINDS: [(&[&str], u32, bool); 4] = [
    (&["succeed@300"], 1, true),
    (&["fail:1@100", "succeed@400"], 2, true),
    (&["error:Flaky:recoverable@50", "fail:1@150", "succeed@50"], 3, true),
    (&["fail:1", "fail:2@200", "error:Last:recoverable"], 3, false),
];

fn planned(namespace: &str, number: usize) -> PlannedTask {
    let (_, attempts, succeeds) = KINDS[number % KINDS.len()];
    PlannedTask {
        namespace: namespace.to_owned(),
        name: format!("t{number}"),
        task_type: "container".to_owned(),
        is_cached: false,
        expected: if succeeds { Expected::Success(attempts) } else { Expected::Failure(attempts) },
    }
}

async fn a_killed_executor_neither_loses_nor_repeats_work(on: Server) -> Result<()> {
    const TASKS: usize = 32;
    const KILLS: usize = 14;
    let mut random = Random::seeded()?;
    let (bench, recorder) = on.recorded_bench().await?;
    let space = bench.space("killed").await?;
    let settings = bench.settings();
    let mut program = bench.recorded_program(&recorder, &settings, User::Executor, "executor").await?;
    program.until_started().await?;

    let aborted = ["a0", "a1", "a2", "a3"];
    for name in aborted {
        space.submit(&Task::container(name).attempts(&["run"])).await?;
    }
    for kill in 0..KILLS {
        if let Some(name) = aborted.get(kill / 3).filter(|_| kill % 3 == 2) {
            space.delete(name).await?;
        }
        // Tasks are submitted all the time, also while no executor runs.
        for number in (kill * TASKS / KILLS)..((kill + 1) * TASKS / KILLS) {
            let (attempts, ..) = KINDS[number % KINDS.len()];
            space.submit(&Task::container(&format!("t{number}")).retries(2).attempts(attempts)).await?;
        }
        // A random time after a start, which may not be complete yet.
        tokio::time::sleep(Duration::from_millis(50 + random.below(350))).await;
        program.check()?;
        program.kill();
        let name = format!("executor-after-{kill}");
        program = bench.recorded_program(&recorder, &settings, User::Executor, &name).await?;
        if kill % 3 == 0 {
            // Otherwise the executor would never complete its start on a slow machine.
            let begun = program.log().matches("caches are complete").count();
            while program.log().matches("caches are complete").count() == begun {
                program.check()?;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    for name in aborted {
        space.until_gone(name).await?;
        assert_eq!(space.phases(name).last(), Some(&(1, Aborted)), "{name}");
    }
    let actions = space.until_all_ended(TASKS).await?;
    program.check()?;
    let mut runs = BTreeMap::<String, usize>::new();
    for run in space.runs() {
        *runs.entry(run.name).or_default() += 1;
    }
    let twice: Vec<_> = runs.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "run more than once: {twice:?}\n{}", space.dump("").await);

    let mut last_pods = Vec::new();
    for action in &actions {
        let name = action.name_any();
        let number: usize = name[1..].parse()?;
        let (_, attempts, succeeds) = KINDS[number % KINDS.len()];
        let ended = if succeeds { "Succeeded" } else { "Failed" };
        let status = action.status_or_default();
        assert_eq!(action.outcome().unwrap().0, ended, "{name}: {}", space.dump(&name).await);
        assert_eq!(status.attempts, attempts, "{name}: {}", space.dump(&name).await);
        assert_eq!(status.error_state.is_some(), !succeeds, "{name}");
        let history = action.history();
        assert_eq!(history.last().unwrap(), if succeeds { "Completed" } else { "PermanentFailure" }, "{name}");
        // Events are delivered at least once, so the end of every attempt must be there.
        let phases = space.phases(&name);
        for attempt in 1..attempts {
            assert!(phases.contains(&(attempt, Failed)), "{name} attempt {attempt}: {phases:?}");
        }
        assert_eq!(phases.last(), Some(&(attempts, if succeeds { Succeeded } else { Failed })), "{name}: {phases:?}");
        for attempt in 0..attempts {
            assert_eq!(runs.get(&format!("{name}-{attempt}")), Some(&1), "{name}: {runs:?}");
        }
        last_pods.push(format!("{name}-{}", attempts - 1));
    }
    // Pods of earlier attempts are deleted, even if an executor was killed before it deleted them.
    space.until_pods(&last_pods.iter().map(String::as_str).collect::<Vec<_>>()).await?;

    let tasks = (0..TASKS).map(|number| planned("killed", number)).collect();
    let traces = Traces::default();
    aborted.iter().for_each(|name| traces.disturb("killed", name));
    let quiet_for = Duration::from_secs(2);
    let conclusion = recorder.conclude(Expectations { tasks, traces, quiet_for, ..Expectations::default() }).await?;
    conclusion.ensure_kept()?;
    program.terminate().await
}

async fn a_pod_that_ended_while_no_executor_ran_is_seen_before_a_new_task_ends(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("adopted").await?;
    let settings = bench.settings();
    let mut program = Program::start(&bench.cluster, &settings, "executor")?;
    program.until_started().await?;
    space.submit(&Task::container("early").attempts(&["succeed@1500"])).await?;
    space.until_pods(&["early-0"]).await?;
    program.kill();
    loop {
        let pod = space.pods.get("early-0").await?;
        if pod.status.is_some_and(|status| status.phase.as_deref() == Some("Succeeded")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // As if the executor had been killed before it wrote a status.
    let patch = kube::api::Patch::Merge(serde_json::json!({"status": null}));
    space.actions.patch_status("early", &kube::api::PatchParams::default(), &patch).await?;
    assert!(space.actions.get("early").await?.status_or_default().conditions.is_empty());

    let mut program = Program::start(&bench.cluster, &settings, "executor")?;
    program.until_started().await?;
    // The fault that this suite is about delays the end of the early task by 10 s.
    space.submit(&Task::container("late").attempts(&["succeed@9000"])).await?;
    let early = space.until_ended("early").await?;
    assert_eq!(early.outcome().unwrap().0, "Succeeded");
    let late = space.actions.get("late").await?;
    assert!(late.outcome().is_none(), "the pod had ended before the executor started: {}", late.summary());
    assert_eq!(space.runs().len(), 1 + space.runs().iter().filter(|run| run.name == "late-0").count());
    program.terminate().await
}
