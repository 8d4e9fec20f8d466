//! A task of each operator's kind with each outcome: success, success at the second attempt, failure, and abort. The
//! operators are simulated (`aileron_sandbox::Operators`) and write only statuses.

use std::fs;

use aileron_action::TaskAction;
use aileron_idl::flyteidl2::common::ActionPhase::{Aborted, Failed, Queued, Succeeded};
use aileron_idl::flyteidl2::core::{KeyValuePair, task_template::Target};
use aileron_machinery::output_path::action_output_prefix;
use aileron_parity::cluster::User;
use aileron_parity::suite::{Document, Executor, Server, Space, StatusView, Task};
use aileron_sandbox::{Operators, Rules, install_definitions};
use anyhow::{Context, Result, ensure};

use super::kinds::{KINDS, Kind};

aileron_parity::on_both!(every_kind_reaches_every_outcome);

const OUTCOME: &str = "simulate.aileron.dev/outcome";
const MESSAGE: &str = "simulate.aileron.dev/message";
/// The message of simulated failures.
const FAILURE_MESSAGE: &str = "told to fail by a suite";

/// Needs its own bench, because simulated operators serve all namespaces.
async fn every_kind_reaches_every_outcome(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let sim = bench.cluster.client(User::Sim).await?;
    install_definitions(&sim, &Rules::builtin()).await?;
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    let operators = Operators::start(sim, Rules::builtin()).await?;
    let tasks = KINDS.iter().map(|kind| {
        let bench = &bench;
        async move {
            let space = bench.space(&format!("ends-{}", kind.task_type)).await?;
            let all = futures::future::try_join4(
                succeeds(kind, &space),
                succeeds_at_last(kind, &space),
                fails(kind, &space),
                is_aborted(kind, &space),
            );
            match all.await {
                Ok(_) => Ok(()),
                Err(error) => Err(error.context(kind.objects(&space).dump().await).context(kind.task_type)),
            }
        }
    });
    futures::future::try_join_all(tasks).await?;
    operators.stop().await;
    executor.stop().await
}

async fn succeeds(kind: &Kind, space: &Space<'_>) -> Result<()> {
    space.submit(&kind.task("good")).await?;
    expect(&space.until_ended("good").await?, "Succeeded", 1)?;
    ensure!(space.phases("good").last() == Some(&(1, Succeeded)), "{:?}", space.phases("good"));
    Ok(())
}

async fn succeeds_at_last(kind: &Kind, space: &Space<'_>) -> Result<()> {
    let task = with_outcome(kind.task("better").retries(1), "fail-once");
    submit(kind, space, &task, 1).await?;
    expect(&space.until_ended("better").await?, "Succeeded", 2)?;
    let phases = space.phases("better");
    let place = |wanted| phases.iter().position(|phase| *phase == wanted);
    ensure!(place((1, Failed)).is_some() && place((1, Failed)) < place((2, Queued)), "{phases:?}");
    ensure!(phases.last() == Some(&(2, Succeeded)), "{phases:?}");
    Ok(())
}

/// The environment variable of the task's container sets the outcome, as for authors who cannot set annotations.
async fn fails(kind: &Kind, space: &Space<'_>) -> Result<()> {
    let mut task = kind.task("bad").retries(1);
    if let Some(Target::Container(container)) = &mut task.template.target {
        container.env.push(KeyValuePair { key: "AILERON_SIMULATE".into(), value: "fail".into() });
    }
    task.annotations.insert(MESSAGE.to_owned(), FAILURE_MESSAGE.to_owned());
    submit(kind, space, &task, 2).await?;
    let action = space.until_ended("bad").await?;
    expect(&action, "Failed", 2)?;
    let error = action.status_or_default().error_state.context("no error")?;
    ensure!(error.message.contains(FAILURE_MESSAGE) == kind.reports_cause, "{}", error.message);
    ensure!(space.phases("bad").last() == Some(&(2, Failed)), "{:?}", space.phases("bad"));
    Ok(())
}

async fn is_aborted(kind: &Kind, space: &Space<'_>) -> Result<()> {
    space.submit(&with_outcome(kind.task("endless"), "hang")).await?;
    space.until("endless", "running", |action| action.reason() == "Executing").await?;
    ensure!(kind.objects(space).exists("endless-0").await?, "no object");
    space.delete("endless").await?;
    space.until_gone("endless").await?;
    ensure!(!kind.objects(space).exists("endless-0").await?, "the object was not deleted");
    ensure!(space.phases("endless").last() == Some(&(1, Aborted)), "{:?}", space.phases("endless"));
    Ok(())
}

fn with_outcome(mut task: Task, outcome: &str) -> Task {
    task.annotations.insert(OUTCOME.to_owned(), outcome.to_owned());
    task
}

/// Submits a task whose first attempts fail. Some plugins retry only after a recoverable error document. The function writes
/// it, because no container runs here.
async fn submit(kind: &Kind, space: &Space<'_>, task: &Task, failures: u32) -> Result<()> {
    let object = space.object(task);
    for attempt in (1..=failures).filter(|_| kind.needs_document) {
        let base = &object.spec.run_output_base;
        let prefix = action_output_prefix(&space.namespace, &task.name, base, &task.name, attempt)?;
        let dir = prefix.strip_prefix("file://").context("not a local path")?;
        fs::create_dir_all(dir)?;
        if let Document::Error(bytes) = Document::error("Flaky", "try again", true) {
            fs::write(format!("{dir}/error.pb"), bytes)?;
        }
    }
    space.create(&object).await?;
    Ok(())
}

fn expect(action: &TaskAction, outcome: &str, attempts: u32) -> Result<()> {
    let found = action.outcome().map(|(outcome, _)| outcome).unwrap_or_default();
    ensure!(found == outcome && action.status_or_default().attempts == attempts, "{}", action.summary());
    Ok(())
}
