//! What becomes of the objects of ended tasks, over restarts too; and of what others put on them.

use std::time::Duration;

use aileron_apiserver::{Fault, Match};
use aileron_idl::flyteidl2::core::{K8sObjectMetadata, K8sPod, task_template::Target};
use aileron_idl::json_to_struct;
use aileron_parity::suite::{Executor, LEFT_RUNNING, Server, Shown, Space, Task};
use aileron_sandbox::install_definitions;
use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::operators::kinds::Kind;

aileron_parity::on_both!(
    finished_objects_go_as_configured_and_no_others,
    only_our_finalizer_comes_off,
    objects_are_deleted_on_finalize_if_so_configured
);

/// Between two looks of the executor there are two seconds, and times of objects are whole ones.
const LOOKS: Duration = Duration::from_secs(4);

/// How long containers may go on after their task.
const LINGER: SignedDuration = SignedDuration::from_secs(10);

/// A task with a container beside it that never ends.
fn with_shipper(name: &str) -> Task {
    let mut task = Task::container(name).task_type("sidecar");
    task.template.task_type_version = 2;
    // Nothing in its arguments says where outputs go, so it has none.
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

/// A pod that looks like ours, but no action owns it.
async fn somebody_elses(space: &Space<'_>) -> Result<()> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "theirs-0", "labels": {"flyte.org/managed": "true"}},
        "spec": {"containers": [{"name": "main", "image": "registry.test/task:1"}]},
    }))?;
    space.pods.create(&PostParams::default(), &pod).await?;
    Ok(())
}

/// One executor after the other, each with another policy. All see pods of tasks that ended before they began.
async fn finished_objects_go_as_configured_and_no_others(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("finished").await?;
    let settings = |which: &str| {
        let settings = bench.settings().with(&["plugins", "k8s", "inject-finalizer"], true);
        settings.with(&["plugins", "k8s", "delete-finished"], which)
    };
    somebody_elses(&space).await?;

    let on_success = Executor::start(&bench.cluster, &settings("on-success")).await?;
    space.submit(&Task::container("good")).await?;
    space.submit(&Task::container("bad").attempts(&["error:Broken:unrecoverable"])).await?;
    assert_eq!(space.until_ended("good").await?.outcome().unwrap().0, "Succeeded");
    assert_eq!(space.until_ended("bad").await?.outcome().unwrap().0, "Failed");
    space.until_pods(&["bad-0", "theirs-0"]).await?;
    ensure!(space.actions.get_opt("good").await?.is_some(), "the action stays until it is collected");
    // The container beside it runs on, so this pod has not ended.
    space.submit(&with_shipper("ships")).await?;
    let shipped = space.until_ended("ships").await?;
    assert_eq!(shipped.outcome().unwrap().0, "Succeeded", "{}", space.dump("ships").await);
    let ended_at = shipped.shown().ended_at().unwrap();
    on_success.stop().await?;

    let never = Executor::start(&bench.cluster, &settings("never")).await?;
    space.submit(&Task::container("kept")).await?;
    space.until_ended("kept").await?;
    let early = Timestamp::now().duration_since(ended_at) < LINGER - SignedDuration::from_secs(3);
    ensure!(!early || space.pods.get_opt("ships-0").await?.is_some(), "it was not given its time");
    space.until_pods(&["bad-0", "theirs-0", "kept-0"]).await?;
    let lingered = Timestamp::now().duration_since(ended_at);
    ensure!(lingered >= LINGER && lingered < LINGER * 2, "{lingered:?}");
    never.stop().await?;

    let delayed = settings("always").with(&["plugins", "k8s", "delete-finished-after"], "6s");
    let always = Executor::start(&bench.cluster, &delayed).await?;
    space.submit(&Task::container("late").attempts(&["fail:1"])).await?;
    let ended_at = space.until_ended("late").await?.shown().ended_at().unwrap();
    space.until_pods(&["theirs-0"]).await?;
    let kept = Timestamp::now().duration_since(ended_at);
    let least = SignedDuration::from_secs(5);
    ensure!(kept >= least && kept < least + SignedDuration::try_from(LOOKS)? * 2, "{kept:?}");
    always.stop().await
}

/// An action is deleted, and with it our finalizer comes off its object: ours alone, also after a conflict.
async fn only_our_finalizer_comes_off(on: Server) -> Result<()> {
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

/// Objects stay when their task has ended, whatever is configured here. When the action goes, its plugin stops the task,
/// which deletes the object; and what stopping has left is deleted once more where that is configured. Somebody else
/// holds the object, so that it is there to be deleted.
async fn objects_are_deleted_on_finalize_if_so_configured(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    for (is_set, deletions) in [(false, 1), (true, 2)] {
        let space = bench.space(&format!("on-finalize-{is_set}")).await?;
        somebody_elses(&space).await?;
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
        ensure!(held.metadata.deletion_timestamp.is_none(), "it stays as long as its action");
        let before = space.requests()?.len();
        for name in ["done", "theirs"] {
            space.delete(name).await?;
            space.until_gone(name).await?;
        }
        // Until the action was let go; what happened to the pod may have started another round before the action was gone.
        let asked = space.requests()?.split_off(before);
        let first_round = asked.iter().take_while(|asked| (&*asked.verb, &*asked.name) != ("patch", "done"));
        let deleted: Vec<_> = first_round.filter(|asked| asked.verb == "delete").collect();
        assert_eq!(deleted.len(), deletions, "{asked:?}");
        ensure!(deleted.iter().all(|asked| asked.name == "done-0" && asked.code < 300), "{deleted:?}");
        ensure!(!asked.iter().any(|asked| asked.name == "theirs-0" && asked.verb != "get"), "{asked:?}");
        space
            .pods
            .patch("done-0", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
            .await?;
        space.until_pods(&["theirs-0"]).await?;
        executor.stop().await?;
    }
    Ok(())
}
