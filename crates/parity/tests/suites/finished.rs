//! The clean-up of objects of ended tasks, also after restarts, and finalizers of other controllers.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use aileron_apiserver::{Fault, Match};
use aileron_idl::flyteidl2::core::{K8sObjectMetadata, K8sPod, task_template::Target};
use aileron_idl::json_to_struct;
use aileron_parity::suite::{Executor, LEFT_RUNNING, Server, Space, StatusView, Task};
use aileron_sandbox::install_definitions;
use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::operators::kinds::Kind;

aileron_parity::on_both!(
    only_finished_objects_are_deleted_as_configured,
    only_our_finalizer_is_removed,
    objects_are_deleted_on_finalize_if_so_configured
);

/// How long other containers may run after the task's container has ended.
const SIDECAR_GRACE: SignedDuration = SignedDuration::from_secs(10);

/// Limit for the removal of a finalizer, on a machine whose processors are busy with other programs. It takes milliseconds
/// in the round that records the end, and two seconds if the clean-up has to do it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A task with a sidecar container that never ends.
fn with_shipper(name: &str) -> Task {
    let mut task = Task::container(name).task_type("sidecar");
    task.template.task_type_version = 2;
    // It has no outputs, because its arguments contain no output prefix.
    task.template.interface = None;
    let container = |name: &str| json!({"name": name, "image": "registry.test/task:1"});
    let spec = json!({"containers": [container("main"), container("shipper")]});
    task.template.target = Some(Target::K8sPod(K8sPod {
        metadata: Some(K8sObjectMetadata::default()),
        pod_spec: Some(json_to_struct(&spec).unwrap()),
        primary_container_name: "main".into(),
        ..K8sPod::default()
    }));
    task.template.config.insert("primary_container_name".into(), "main".into());
    task.annotations.insert(LEFT_RUNNING.to_owned(), "shipper".to_owned());
    task
}

/// Creates a pod that has our label but no owner.
async fn owned_by_other(space: &Space<'_>) -> Result<()> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "theirs-0", "labels": {"flyte.org/managed": "true"}},
        "spec": {"containers": [{"name": "main", "image": "registry.test/task:1"}]},
    }))?;
    space.pods.create(&PostParams::default(), &pod).await?;
    Ok(())
}

/// Three executors one after the other, each with another policy. Each sees pods of tasks that ended before it started.
async fn only_finished_objects_are_deleted_as_configured(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("finished").await?;
    let settings = |which: &str| {
        let settings = bench.settings().with(&["plugins", "k8s", "inject-finalizer"], true);
        settings.with(&["plugins", "k8s", "delete-finished"], which)
    };
    owned_by_other(&space).await?;

    let on_success = Executor::start(&bench.cluster, &settings("on-success")).await?;
    space.submit(&Task::container("good")).await?;
    space.submit(&Task::container("bad").attempts(&["error:Broken:unrecoverable"])).await?;
    assert_eq!(space.until_ended("good").await?.outcome().unwrap().0, "Succeeded");
    assert_eq!(space.until_ended("bad").await?.outcome().unwrap().0, "Failed");
    space.until_pods(&["bad-0", "theirs-0"]).await?;
    ensure!(space.actions.get_opt("good").await?.is_some(), "the action must stay until garbage collection");
    // The sidecar keeps running, so this pod has not ended.
    space.submit(&with_shipper("ships")).await?;
    let shipped = space.until_ended("ships").await?;
    assert_eq!(shipped.outcome().unwrap().0, "Succeeded", "{}", space.dump("ships").await);
    let ended_at = shipped.status_or_default().ended_at().unwrap();
    on_success.stop().await?;

    let never = Executor::start(&bench.cluster, &settings("never")).await?;
    space.submit(&Task::container("kept")).await?;
    space.until_ended("kept").await?;
    let early = Timestamp::now().duration_since(ended_at) < SIDECAR_GRACE - SignedDuration::from_secs(3);
    ensure!(!early || space.pods.get_opt("ships-0").await?.is_some(), "the pod was deleted too early");
    space.until_pods(&["bad-0", "theirs-0", "kept-0"]).await?;
    let lingered = Timestamp::now().duration_since(ended_at);
    ensure!(lingered >= SIDECAR_GRACE, "{lingered:?}");
    never.stop().await?;

    let delayed = settings("always").with(&["plugins", "k8s", "delete-finished-after"], "6s");
    let always = Executor::start(&bench.cluster, &delayed).await?;
    space.submit(&Task::container("late").attempts(&["fail:1"])).await?;
    let ended_at = space.until_ended("late").await?.status_or_default().ended_at().unwrap();
    space.until_pods(&["theirs-0"]).await?;
    let kept = Timestamp::now().duration_since(ended_at);
    // Times of objects are whole seconds.
    ensure!(kept >= SignedDuration::from_secs(5), "{kept:?}");
    always.stop().await
}

/// When a task has ended, and when an action is deleted, only our finalizer is removed from its object, also after a conflict.
async fn only_our_finalizer_is_removed(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("finalizers").await?;
    let settings = bench.settings().with(&["plugins", "k8s", "inject-finalizer"], true);
    let kind = Kind::of("pytorch");
    install_definitions(&space.admin, &[kind.rules()]).await?;
    let executor = Executor::start(&bench.cluster, &settings).await?;
    let jobs = kind.objects(&space);
    space.submit(&Task::container("held").attempts(&["run"])).await?;
    space.submit(&kind.task("held-job")).await?;
    jobs.until("held-job-0").await?;
    space.until("held", "running", |action| action.reason() == "Executing").await?;
    let theirs = json!([{"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/theirs"}]);
    let theirs = Patch::Json::<()>(serde_json::from_value(theirs)?);
    let pod = space.pods.patch("held-0", &PatchParams::default(), &theirs).await?;
    assert_eq!(pod.metadata.finalizers.unwrap(), ["example.com/theirs", "flyte/flytek8s"]);
    let job = jobs.api.patch("held-job-0", &PatchParams::default(), &theirs).await?;
    assert_eq!(job.metadata.finalizers.unwrap(), ["example.com/theirs", "flyte/flytek8s"]);
    if let Some(sandbox) = bench.cluster.sandbox() {
        sandbox.faults().add(Fault::Times(Match::of("patch", "pods"), 409, 2));
    }

    // The end of the job is recorded, its action stays.
    jobs.report("held-job-0", &kind.done()).await?;
    assert_eq!(space.until_ended("held-job").await?.outcome().unwrap().0, "Succeeded");
    let job = until_finalizers(&jobs.api, "held-job-0", &["example.com/theirs"]).await?;
    ensure!(job.metadata.deletion_timestamp.is_none(), "the object of an ended task stays");
    space.submit(&Task::container("ended")).await?;
    assert_eq!(space.until_ended("ended").await?.outcome().unwrap().0, "Succeeded");
    until_finalizers(&space.pods, "ended-0", &[]).await?;
    space.pods.delete("ended-0", &DeleteParams::default()).await?;
    space.until_pods(&["held-0"]).await?;

    // The action of a running pod is deleted.
    space.delete("held").await?;
    space.until_gone("held").await?;
    assert_eq!(space.pods.get("held-0").await?.metadata.finalizers.unwrap(), ["example.com/theirs"]);
    executor.stop().await
}

/// Waits until an object has exactly these finalizers.
pub async fn until_finalizers<K>(api: &Api<K>, name: &str, finalizers: &[&str]) -> Result<K>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let until = Instant::now() + PATIENCE;
    loop {
        let object = api.get(name).await?;
        if object.finalizers() == finalizers {
            return Ok(object);
        }
        ensure!(Instant::now() < until, "{name} has the finalizers {:?}, not {finalizers:?}", object.finalizers());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// With the setting, the object of an ended task is deleted when the end is recorded, and its action stays. Without it, the
/// object goes with the action. An executor that starts later finishes what an earlier one did not do. An object of another
/// owner is left alone.
async fn objects_are_deleted_on_finalize_if_so_configured(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("on-finalize").await?;
    owned_by_other(&space).await?;
    let settings = |is_set: bool| bench.settings().with(&["plugins", "k8s", "delete-resource-on-finalize"], is_set);

    let without = Executor::start(&bench.cluster, &settings(false)).await?;
    for name in ["kept", "theirs"] {
        space.submit(&Task::container(name)).await?;
    }
    assert_eq!(space.until_ended("kept").await?.outcome().unwrap().0, "Succeeded");
    assert_eq!(space.until_ended("theirs").await?.outcome().unwrap().0, "Failed");
    space.until_pods(&["kept-0", "theirs-0"]).await?;
    without.stop().await?;

    let with = Executor::start(&bench.cluster, &settings(true)).await?;
    space.until_pods(&["theirs-0"]).await?;
    space.submit(&Task::container("good")).await?;
    space.submit(&Task::container("bad").attempts(&["error:Broken:unrecoverable"])).await?;
    assert_eq!(space.until_ended("good").await?.outcome().unwrap().0, "Succeeded");
    assert_eq!(space.until_ended("bad").await?.outcome().unwrap().0, "Failed");
    space.until_pods(&["theirs-0"]).await?;
    for name in ["kept", "good", "bad"] {
        ensure!(space.actions.get_opt(name).await?.is_some(), "{name}: the action must stay until garbage collection");
    }
    for name in ["good", "theirs"] {
        space.delete(name).await?;
        space.until_gone(name).await?;
    }
    let touched =
        space.requests()?.into_iter().find(|it| it.name == "theirs-0" && !["get", "create"].contains(&&*it.verb));
    ensure!(touched.is_none(), "{touched:?}");
    with.stop().await
}
