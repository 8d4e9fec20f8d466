//! The object store refuses requests, is slow, or does not answer.

use std::fs;
use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use aileron_idl::flyteidl2::core::task_template::Target;
use aileron_parity::storage_stub::{BUCKET, StorageFault, StorageStub};
use aileron_parity::suite::{
    Executor, POLL_INTERVAL, Server, Settings, Space, StatusView, Task, WAIT_TIMEOUT, duration_inputs,
};
use anyhow::{Context, Result, ensure};
use http::StatusCode;

use super::{check_unharmed, is_executing};

aileron_parity::on_both!(
    tasks_wait_while_the_object_store_refuses_requests,
    tasks_wait_while_the_object_store_does_not_answer,
    a_slow_object_store_fails_no_task
);

/// Requests about one task during an outage: more than the client and the executor send in the two rounds that would use up
/// the budget of the task if they were counted as failures of the platform.
const DISTURBED_REQUESTS: usize = 12;

async fn tasks_wait_while_the_object_store_refuses_requests(on: Server) -> Result<()> {
    outage(on, StorageFault::Refuse(StatusCode::SERVICE_UNAVAILABLE), |settings| settings).await
}

async fn tasks_wait_while_the_object_store_does_not_answer(on: Server) -> Result<()> {
    // The default is 30 s.
    let impatient = |settings: Settings| settings.with(&["storage", "defaultHttpClient", "timeout"], "500ms");
    outage(on, StorageFault::Hang, impatient).await
}

/// The store is away while tasks launch, run and end.
async fn outage(on: Server, fault: StorageFault, change: fn(Settings) -> Settings) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("storage").await?;
    let storage = StorageStub::start(&bench.data()).await?;
    let settings = bench.settings().with_storage(&storage).with(&["executor", "maxSystemFailures"], 1);
    let executor = Executor::start(&bench.cluster, &change(settings)).await?;
    for name in ["runs", "ends"] {
        submit(&space, &Task::container(name).attempts(&["run"])).await?;
        space.until(name, "running", is_executing).await?;
    }

    storage.fault(fault);
    space.complete_pod("ends-0").await?;
    for task in [launched("launches"), Task::sleep("sleeps")] {
        write_inputs(&storage, &space, &task.name)?;
        submit(&space, &task).await?;
    }
    for name in ["ends", "launches", "sleeps"] {
        let waits = |action: &TaskAction| action.pending().is_some_and(|(reason, _)| reason == "Storage");
        let action = space.until(name, "waiting for the object store", waits).await?;
        assert_eq!(action.status_or_default().system_failures, 0, "{name}");
        until_disturbed(&storage, name).await?;
    }
    let action = space.until("runs", "there", |_| true).await?;
    ensure!(is_executing(&action) && action.pending().is_none(), "a running task needs no files: {}", action.summary());

    storage.heal();
    space.complete_pod("runs-0").await?;
    for name in ["runs", "ends", "launches", "sleeps"] {
        check_unharmed(&space.until_ended(name).await?);
    }
    let mut runs: Vec<_> = space.runs().into_iter().map(|run| run.name).collect();
    runs.sort();
    assert_eq!(runs, ["ends-0", "launches-0", "runs-0"], "each pod ran once");
    executor.stop().await
}

/// Each answer takes longer than the time after which the executor asks a second time.
async fn a_slow_object_store_fails_no_task(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("slow-storage").await?;
    let storage = StorageStub::start(&bench.data()).await?;
    let executor = Executor::start(&bench.cluster, &bench.settings().with_storage(&storage)).await?;
    storage.fault(StorageFault::Slow(Duration::from_millis(3_500)));
    for task in [launched("launches"), Task::sleep("sleeps")] {
        write_inputs(&storage, &space, &task.name)?;
        submit(&space, &task).await?;
    }
    for name in ["launches", "sleeps"] {
        check_unharmed(&space.until_ended(name).await?);
        ensure!(storage.disturbed(name) > 0, "{name} needs no files");
    }
    executor.stop().await
}

/// A container whose arguments contain an input, so that its launch reads the inputs.
fn launched(name: &str) -> Task {
    let mut task = Task::container(name);
    let inputs = Task::sleep(name).template.interface.and_then(|interface| interface.inputs);
    task.template.interface.get_or_insert_default().inputs = inputs;
    if let Some(Target::Container(container)) = &mut task.template.target {
        container.args.push("{{.inputs.duration}}".to_owned());
    }
    task
}

async fn submit(space: &Space<'_>, task: &Task) -> Result<()> {
    space.create(&task.build(&space.namespace, &format!("s3://{BUCKET}"))).await?;
    Ok(())
}

fn write_inputs(storage: &StorageStub, space: &Space<'_>, name: &str) -> Result<()> {
    let path = storage.path(&format!("{}/{name}/inputs.pb", space.namespace));
    fs::create_dir_all(path.parent().context("a folder")?)?;
    Ok(fs::write(path, duration_inputs(Duration::from_secs(1)))?)
}

async fn until_disturbed(storage: &StorageStub, name: &str) -> Result<()> {
    let begin = Instant::now();
    while storage.disturbed(name) < DISTURBED_REQUESTS {
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "{name}: {} requests", storage.disturbed(name));
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
