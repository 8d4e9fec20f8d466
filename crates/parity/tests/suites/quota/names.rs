//! What a task needs is in somebody else's hands: its name, or its kind.

use std::time::{Duration, Instant};

use aileron_idl::json_to_struct;
use aileron_parity::suite::{LOOK_EVERY, Server, Shown, Task};
use aileron_sandbox::{Rules, install_definitions};
use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::quota::{check, limited};

aileron_parity::on_both!(
    a_foreign_pod_of_the_same_name_is_reported_and_left_alone,
    a_pod_of_the_same_name_that_goes_away_is_waited_for,
    a_task_waits_until_its_kind_is_installed
);

const THEIRS: &str = "example.com/theirs";

fn pod(name: &str, finalizers: &[&str]) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": name, "finalizers": finalizers, "annotations": {"kubelet.aileron.test/end": "run"},
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))?)
}

/// Requests that change or remove a pod.
fn meddles(verb: &str) -> bool {
    ["update", "patch", "delete", "deletecollection"].contains(&verb)
}

async fn a_foreign_pod_of_the_same_name_is_reported_and_left_alone(on: Server) -> Result<()> {
    let space = limited(on).await?.space("taken").await?;
    let foreign = space.pods.create(&PostParams::default(), &pod("mine-0", &[])?).await?;
    space.submit(&Task::container("mine")).await?;
    let ended = space.until_ended("mine").await?;
    let error = ended.shown().error_state.unwrap();
    assert_eq!((ended.outcome().unwrap().0.as_str(), error.kind.as_str()), ("Failed", "SYSTEM"), "{}", ended.summary());
    assert!(error.message.contains("Pod [taken/mine-0] exists and does not belong to"), "{}", error.message);
    let now = space.pods.get("mine-0").await?;
    assert_eq!((now.uid(), now.metadata.deletion_timestamp), (foreign.uid(), None));
    let meddled: Vec<_> =
        space.requests()?.into_iter().filter(|asked| asked.resource == "pods" && meddles(&asked.verb)).collect();
    assert!(meddled.iter().all(|asked| asked.code >= 400), "{meddled:?}");
    assert_eq!(space.runs().iter().filter(|run| run.name == "mine-0").count(), 1);
    Ok(())
}

async fn a_pod_of_the_same_name_that_goes_away_is_waited_for(on: Server) -> Result<()> {
    let space = limited(on).await?.space("going").await?;
    let foreign = space.pods.create(&PostParams::default(), &pod("next-0", &[THEIRS])?).await?;
    space.pods.delete("next-0", &DeleteParams::default()).await?;
    space.submit(&Task::container("next")).await?;
    let waits =
        space.until("next", "waiting", |action| action.shown().plugin_phase == "PhaseWaitingForResources").await?;
    let conditions = waits.shown().conditions;
    assert!(
        conditions.iter().any(|it| it.message == "waiting for the terminating Pod [going/next-0] to go away"),
        "{conditions:?}"
    );
    let held = space.pods.get("next-0").await?;
    assert_eq!((held.uid(), held.finalizers()), (foreign.uid(), [THEIRS.to_owned()].as_slice()));
    let released = json!({"metadata": {"finalizers": null}});
    space.pods.patch("next-0", &PatchParams::default(), &Patch::Merge(released)).await?;
    check(&[space.until_ended("next").await?]);
    assert_ne!(space.pods.get("next-0").await?.uid(), foreign.uid());
    Ok(())
}

async fn a_task_waits_until_its_kind_is_installed(on: Server) -> Result<()> {
    let space = limited(on).await?.space("kindless").await?;
    let resource = ApiResource {
        group: "ray.io".into(),
        version: "v1".into(),
        api_version: "ray.io/v1".into(),
        kind: "RayJob".into(),
        plural: "rayjobs".into(),
    };
    let mut task = Task::container("early").task_type("ray");
    task.template.interface = None;
    let workers: Value = json!({"rayCluster": {"workerGroupSpec": [{"groupName": "w", "replicas": 1}]}});
    task.template.custom = Some(json_to_struct(&workers)?);
    space.submit(&task).await?;
    let waits =
        space.until("early", "waiting", |action| action.shown().plugin_phase == "PhaseWaitingForResources").await?;
    assert_eq!((waits.shown().attempts, waits.shown().system_failures), (1, 0), "{}", waits.summary());
    let rules: Vec<_> = Rules::builtin().into_iter().filter(|rules| rules.qualified() == "rayjobs.ray.io").collect();
    install_definitions(&space.admin, &rules).await?;
    // Its object tells: the status of a step that passes soon is not written.
    let jobs: Api<DynamicObject> = Api::namespaced_with(space.admin.clone(), &space.namespace, &resource);
    let begin = Instant::now();
    while jobs.get_opt("early-0").await?.is_none() {
        assert!(begin.elapsed() < Duration::from_secs(5), "{}", space.dump("early").await);
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
