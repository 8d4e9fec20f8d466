//! Other clients write to the same objects all the time. Their writes are not lost, and the tasks succeed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aileron_action::{ACTION_FINALIZER, TaskAction};
use aileron_parity::suite::{Executor, Server, StatusView, Task};
use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::finished::until_finalizers;

aileron_parity::on_both!(
    concurrent_writes_to_actions_and_pods_are_kept,
    our_finalizer_blocks_neither_relaunch_nor_deletion
);

const KEEP: &str = "suite.aileron.test/keep";
const FLICKER: &str = "suite.aileron.test/flicker";
const TICK: &str = "suite.aileron.test/tick";

/// Changes labels and annotations of all objects by patches. Adds a finalizer in front of the others, or removes it, by
/// replacing the whole object. Increases `changes` with each change.
async fn write_continuously<K>(api: Api<K>, changes: Arc<AtomicUsize>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    loop {
        let objects = api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        futures::future::join_all(objects.into_iter().map(|mut object| {
            let (api, changes) = (&api, &changes);
            async move {
                let name = object.name_any();
                let tick = changes.fetch_add(1, Ordering::Relaxed).to_string();
                let marks = json!({"metadata": {"labels": {TICK: tick}, "annotations": {TICK: tick}}});
                let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(marks)).await;
                // The executor may write between the read and the replace, which then fails with a conflict.
                if let Ok(latest) = api.get(&name).await {
                    object = latest;
                }
                let finalizers = object.finalizers_mut();
                match finalizers.iter().position(|finalizer| finalizer == FLICKER) {
                    Some(index) => drop(finalizers.remove(index)),
                    None => finalizers.insert(0, FLICKER.to_owned()),
                }
                let _ = api.replace(&name, &PostParams::default(), &object).await;
            }
        }))
        .await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn drop_finalizer<K>(api: &Api<K>, name: &str, finalizer: &str) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let object = api.get(name).await?;
    let left: Vec<_> = object.finalizers().iter().filter(|other| *other != finalizer).collect();
    let patch = json!({"metadata": {"finalizers": left, "resourceVersion": object.resource_version()}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn concurrent_writes_to_actions_and_pods_are_kept(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("crowded").await?;
    let settings = bench.settings().with(&["plugins", "k8s", "inject-finalizer"], true);
    let executor = Executor::start(&bench.cluster, &settings).await?;
    let changes = Arc::<AtomicUsize>::default();
    let stop = CancellationToken::new();
    let on_actions = write_continuously::<TaskAction>(space.actions.clone(), Arc::clone(&changes));
    let on_pods = write_continuously::<Pod>(space.pods.clone(), Arc::clone(&changes));
    let writers = [
        tokio::spawn(stop.clone().run_until_cancelled_owned(on_actions)),
        tokio::spawn(stop.clone().run_until_cancelled_owned(on_pods)),
    ];

    let names: Vec<_> = (0..8).map(|number| format!("busy-{number}")).collect();
    for name in &names {
        let task = Task::container(name).retries(1).attempts(&["fail:1@300", "succeed@700"]);
        let mut object = space.object(&task);
        object.finalizers_mut().push(KEEP.to_owned());
        object.labels_mut().insert("theirs".to_owned(), "yes".to_owned());
        space.create(&object).await?;
    }
    for name in &names {
        let action = space.until_ended(name).await?;
        assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
        assert_eq!(action.status_or_default().attempts, 2);
        assert_eq!(action.labels().get("theirs").map(String::as_str), Some("yes"));
    }
    let changes = changes.load(Ordering::Relaxed);
    assert!(changes > 60, "too few concurrent writes: {changes}");

    stop.cancel();
    for writer in writers {
        writer.await?;
    }
    // The last writes are still there: label and annotation have the same value.
    for name in &names {
        let action = space.actions.get(name).await?;
        assert!(action.labels().contains_key(TICK) && action.labels().get(TICK) == action.annotations().get(TICK));
        let ours = action.finalizers().iter().filter(|finalizer| *finalizer == ACTION_FINALIZER).count();
        assert_eq!(ours, 1, "{:?}", action.finalizers());
        assert!(action.finalizers().iter().any(|finalizer| finalizer == KEEP));
        if action.finalizers().iter().any(|finalizer| finalizer == FLICKER) {
            drop_finalizer(&space.actions, name, FLICKER).await?;
        }
    }
    // Pods of first attempts exist only as long as they have the other finalizer.
    for name in space.pod_names().await? {
        if space.pods.get(&name).await?.finalizers().iter().any(|finalizer| finalizer == FLICKER) {
            drop_finalizer(&space.pods, &name, FLICKER).await?;
        }
    }
    let last: Vec<_> = names.iter().map(|name| format!("{name}-1")).collect();
    space.until_pods(&last.iter().map(String::as_str).collect::<Vec<_>>()).await?;

    // The other finalizers stay on the action and on its pod after ours are removed.
    let (name, pod) = (names[0].as_str(), last[0].as_str());
    let keep = json!({"metadata": {"finalizers": [KEEP, "flyte/flytek8s"]}});
    space.pods.patch(pod, &PatchParams::default(), &Patch::Merge(keep)).await?;
    space.delete(name).await?;
    let action = space
        .until(name, "without our finalizer", |action| {
            !action.finalizers().iter().any(|finalizer| finalizer == ACTION_FINALIZER)
        })
        .await?;
    assert_eq!(action.finalizers(), [KEEP]);
    // The executor may not have seen yet that the pod has our finalizer again; then the clean-up removes it.
    let left = until_finalizers(&space.pods, pod, &[KEEP]).await?;
    assert!(left.metadata.deletion_timestamp.is_some());
    drop_finalizer(&space.actions, name, KEEP).await?;
    drop_finalizer(&space.pods, pod, KEEP).await?;
    space.until_gone(name).await?;
    executor.check()?;
    executor.stop().await
}

/// The object of a killed launch has our finalizer and the name that the relaunch needs.
async fn our_finalizer_blocks_neither_relaunch_nor_deletion(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("held-pods").await?;
    let settings = bench.settings().with(&["plugins", "k8s", "inject-finalizer"], true);
    let executor = Executor::start(&bench.cluster, &settings).await?;
    space.submit(&Task::container("killed").attempts(&["fail:137:Error:@20"])).await?;
    space.submit(&Task::container("stopped").attempts(&["run"])).await?;
    let action = space.until_ended("killed").await?;
    assert_eq!(action.error_code(), "MaxSystemFailuresExceeded", "{}", action.summary());
    assert_eq!(space.runs().iter().filter(|run| run.name == "killed-0").count(), 4);
    space.until("stopped", "running", |action| action.reason() == "Executing").await?;
    space.delete("stopped").await?;
    space.until_gone("stopped").await?;
    space.delete("killed").await?;
    space.until_gone("killed").await?;
    space.until_pods(&[]).await?;
    executor.stop().await
}
