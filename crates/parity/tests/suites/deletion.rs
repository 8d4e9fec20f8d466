//! Actions that are deleted while they run or after their end.

use std::time::Duration;

use aileron_idl::flyteidl2::common::ActionPhase::{Aborted, Succeeded};
use aileron_parity::suite::{Executor, Server, StatusView, Task};
use anyhow::Result;
use kube::api::{DeleteParams, Patch, PatchParams};

aileron_parity::on_both!(
    a_running_task_is_stopped_and_reported_before_it_is_gone,
    a_task_that_waits_for_a_node_is_stopped_too,
    deleting_an_ended_action_is_not_an_abort,
    a_deletion_at_any_moment_leaves_nothing_behind,
    a_pod_whose_action_vanished_can_be_deleted,
    ended_actions_are_garbage_collected_and_others_stay
);

async fn a_running_task_is_stopped_and_reported_before_it_is_gone(on: Server) -> Result<()> {
    let space = on.shared().await?.space("aborts").await?;
    let seen = space.observe();
    space.submit(&Task::container("long").attempts(&["run"])).await?;
    space.until("long", "running", |action| action.reason() == "Executing").await?;
    space.delete("long").await?;
    space.until_gone("long").await?;
    // No wait: the event is sent before the finalizer is removed.
    let recorded = space.recorded("long");
    let last = recorded.last().unwrap();
    assert_eq!((last.event.attempt, last.event.phase()), (1, Aborted));
    assert!(seen.of("long").iter().any(|observation| observation.action.metadata.deletion_timestamp.is_some()));
    space.until_pods(&[]).await
}

async fn a_task_that_waits_for_a_node_is_stopped_too(on: Server) -> Result<()> {
    let space = on.shared().await?.space("aborts-early").await?;
    space.submit(&Task::container("waits").attempts(&["pending"])).await?;
    space.until_pods(&["waits-0"]).await?;
    space.delete("waits").await?;
    space.until_gone("waits").await?;
    assert_eq!(space.phases("waits").last(), Some(&(1, Aborted)));
    space.until_pods(&[]).await
}

async fn deleting_an_ended_action_is_not_an_abort(on: Server) -> Result<()> {
    let space = on.shared().await?.space("tidies").await?;
    space.submit(&Task::container("done")).await?;
    space.until_ended("done").await?;
    space.delete("done").await?;
    space.until_gone("done").await?;
    assert_eq!(space.phases("done").last(), Some(&(1, Succeeded)));
    space.until_pods(&[]).await
}

/// Deletes actions at all moments: between submission and finalizer, while a status is written, while the labels of the end
/// are set.
async fn a_deletion_at_any_moment_leaves_nothing_behind(on: Server) -> Result<()> {
    const TASKS: u64 = 60;
    let space = on.shared().await?.space("any-moment").await?;
    let seen = space.observe();
    seen.until_ready().await?;
    let deletions = (0..TASKS).map(|number| {
        let (space, seen) = (&space, &seen);
        async move {
            let name = format!("t{number}");
            let attempts: &[&str] = if number % 2 == 0 { &["fail:1@60", "succeed@80"] } else { &["run"] };
            space.submit(&Task::container(&name).retries(1).attempts(attempts)).await?;
            // Every fourth task may be deleted before it has our finalizer.
            let has_finalizer = number % 4 != 0;
            if has_finalizer {
                space.until(&name, "with a finalizer", |action| action.metadata.finalizers.is_some()).await?;
            }
            // A different moment for each task, from at once to after its end.
            tokio::time::sleep(Duration::from_millis(number * 40)).await;
            space.delete(&name).await?;
            let last = seen.until_deleted(&name).await?;
            let is_orderly = last.metadata.deletion_timestamp.is_some();
            assert!(is_orderly || !has_finalizer, "{name} had our finalizer, and is gone without its last round");
            Ok::<_, anyhow::Error>((name, is_orderly))
        }
    });
    let deleted = futures::future::try_join_all(deletions).await?;
    // An action that is deleted before it has our finalizer is gone at once. kube-apiserver also has a race: a deletion that
    // read the action just before our finalizer was added still removes it. In a cluster the garbage collector then deletes
    // the pod, because its owner is gone. Here the test must do it.
    let (orderly, vanished): (Vec<_>, Vec<_>) = deleted.into_iter().partition(|(_, is_orderly)| *is_orderly);
    let collect = async {
        loop {
            for (name, _) in &vanished {
                space.pods.delete(&format!("{name}-0"), &DeleteParams::default()).await.ok();
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::select! {
        waited = space.until_pods(&[]) => waited?,
        () = collect => {}
    }
    for (name, _) in orderly {
        let phases = space.phases(&name);
        // No event if the action was deleted before its first round; otherwise exactly one terminal event.
        let ends = phases.iter().filter(|(_, phase)| [Aborted, Succeeded].contains(phase)).count();
        assert_eq!(ends, usize::from(!phases.is_empty()), "{name}: {phases:?}");
        assert!(phases.last().is_none_or(|(_, phase)| [Aborted, Succeeded].contains(phase)), "{name}: {phases:?}");
    }
    Ok(())
}

/// While no executor runs, somebody removes our finalizer, and the actions go without their last round. Their pods still have
/// our finalizer.
async fn a_pod_whose_action_vanished_can_be_deleted(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("vanishes").await?;
    let settings = bench.settings().with(&["plugins", "k8s", "inject-finalizer"], true);
    let executor = Executor::start(&bench.cluster, &settings).await?;
    for name in ["gone", "again"] {
        space.submit(&Task::container(name).attempts(&["run"])).await?;
        space.until(name, "running", |action| action.reason() == "Executing").await?;
    }
    executor.stop().await?;
    let no_finalizers = serde_json::json!({"metadata": {"finalizers": null}});
    for name in ["gone", "again"] {
        space.actions.patch(name, &PatchParams::default(), &Patch::Merge(&no_finalizers)).await?;
        space.delete(name).await?;
        space.until_gone(name).await?;
    }
    // A new action of this name waits for the pod of the earlier one, which is being deleted.
    space.pods.delete("again-0", &DeleteParams::default()).await?;
    space.submit(&Task::container("again")).await?;
    let executor = Executor::start(&bench.cluster, &settings).await?;
    space.until_ended("again").await?;
    // By now the executor knows that this action is gone: it searches every two seconds for what was left behind. Its pod is
    // deleted only now, unless a garbage collector runs here.
    tokio::time::sleep(Duration::from_secs(5)).await;
    space.pods.delete("gone-0", &DeleteParams::default()).await.ok();
    space.until_pods(&["again-0"]).await?;
    executor.stop().await
}

/// Needs its own executor, which would otherwise delete the actions of other suites.
async fn ended_actions_are_garbage_collected_and_others_stay(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("collects").await?;
    let settings =
        bench.settings().with(&["executor", "gc", "interval"], "300ms").with(&["executor", "gc", "maxTTL"], "0s");
    let executor = Executor::start(&bench.cluster, &settings).await?;
    space.submit(&Task::container("stays").attempts(&["run"])).await?;
    space.submit(&Task::container("goes")).await?;
    space.submit(&Task::container("fails").attempts(&["fail:1"])).await?;
    space.until_gone("goes").await?;
    space.until_gone("fails").await?;
    space.until("stays", "running", |action| action.reason() == "Executing").await?;
    space.until_pods(&["stays-0"]).await?;
    assert_eq!(space.phases("goes").last(), Some(&(1, Succeeded)), "garbage collection is not an abort");
    executor.stop().await
}
