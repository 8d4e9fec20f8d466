//! The clean-up of objects of ended tasks, also after restarts, and finalizers of other controllers.

use aileron_apiserver::{Fault, Match};
use aileron_idl::flyteidl2::core::{K8sObjectMetadata, K8sPod, task_template::Target};
use aileron_idl::json_to_struct;
use aileron_parity::suite::{Executor, LEFT_RUNNING, Server, Space, StatusView, Task};
use aileron_sandbox::install_definitions;
use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::operators::kinds::Kind;

aileron_parity::on_both!(
    only_finished_objects_are_deleted_as_configured,
    only_our_finalizer_is_removed,
    objects_are_deleted_on_finalize_if_so_configured
);

/// How long other containers may run after the task's container has ended.
const SIDECAR_GRACE: SignedDuration = SignedDuration::from_secs(10);

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

/// When an action is deleted, only our finalizer is removed from its object, also after a conflict.
async fn only_our_finalizer_is_removed(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("finalizers").await?;
    let settings = bench.settings().with(&["plugins", "k8s", "inject-finalizer"], true);
    let kind = Kind::of("pytorch");
    install_definitions(&space.admin, &[kind.rules()]).await?;
    let executor = Executor::start(&bench.cluster, &settings).await?;
    let jobs = kind.objects(&space);
    space.submit(&Task::container("held")).await?;
    space.submit(&kind.task("held-job")).await?;
    jobs.until("held-job-0").await?;
    jobs.report("held-job-0", &kind.done()).await?;
    for name in ["held", "held-job"] {
        assert_eq!(space.until_ended(name).await?.outcome().unwrap().0, "Succeeded");
    }
    let theirs = json!([{"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/theirs"}]);
    let theirs = Patch::Json::<()>(serde_json::from_value(theirs)?);
    let pod = space.pods.patch("held-0", &PatchParams::default(), &theirs).await?;
    assert_eq!(pod.metadata.finalizers.unwrap(), ["example.com/theirs", "flyte/flytek8s"]);
    let job = jobs.api.patch("held-job-0", &PatchParams::default(), &theirs).await?;
    assert_eq!(job.metadata.finalizers.unwrap(), ["example.com/theirs", "flyte/flytek8s"]);
    if let Some(sandbox) = bench.cluster.sandbox() {
        sandbox.faults().add(Fault::Times(Match::of("patch", "pods"), 409, 2));
    }
    for name in ["held", "held-job"] {
        space.delete(name).await?;
        space.until_gone(name).await?;
    }
    assert_eq!(space.pods.get("held-0").await?.metadata.finalizers.unwrap(), ["example.com/theirs"]);
    assert_eq!(jobs.api.get("held-job-0").await?.metadata.finalizers.unwrap(), ["example.com/theirs"]);
    executor.stop().await
}

/// The object of an ended task stays with either setting. When the action is deleted, the abort deletes the object. With the
/// setting, the finalization sends a second delete. A foreign finalizer keeps the object, so that the second delete finds
/// it.
async fn objects_are_deleted_on_finalize_if_so_configured(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    for (is_set, deletions) in [(false, 1), (true, 2)] {
        let space = bench.space(&format!("on-finalize-{is_set}")).await?;
        owned_by_other(&space).await?;
        let settings = bench.settings().with(&["plugins", "k8s", "delete-resource-on-finalize"], is_set);
        let executor = Executor::start(&bench.cluster, &settings).await?;
        for name in ["done", "theirs"] {
            space.submit(&Task::container(name)).await?;
        }
        assert_eq!(space.until_ended("done").await?.outcome().unwrap().0, "Succeeded");
        assert_eq!(space.until_ended("theirs").await?.outcome().unwrap().0, "Failed");
        space.until_pods(&["done-0", "theirs-0"]).await?;
        let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/theirs"]}}));
        let held = space.pods.patch("done-0", &PatchParams::default(), &held).await?;
        ensure!(held.metadata.deletion_timestamp.is_none(), "the pod must stay as long as its action");
        let before = space.requests()?.len();
        for name in ["done", "theirs"] {
            space.delete(name).await?;
            space.until_gone(name).await?;
        }
        // Only requests before our finalizer was removed from the action: a change of the pod may start another round.
        let requests = space.requests()?.split_off(before);
        let first_round = requests.iter().take_while(|request| (&*request.verb, &*request.name) != ("patch", "done"));
        let deleted: Vec<_> = first_round.filter(|request| request.verb == "delete").collect();
        assert_eq!(deleted.len(), deletions, "{requests:?}");
        ensure!(deleted.iter().all(|request| request.name == "done-0" && request.code < 300), "{deleted:?}");
        ensure!(!requests.iter().any(|request| request.name == "theirs-0" && request.verb != "get"), "{requests:?}");
        space
            .pods
            .patch("done-0", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
            .await?;
        space.until_pods(&["theirs-0"]).await?;
        executor.stop().await?;
    }
    Ok(())
}
