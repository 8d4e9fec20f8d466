//! A foreign object has the name that a task needs, or the kind of its object is not installed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use aileron_apiserver::{ApiError, Fault};
use aileron_idl::json_to_struct;
use aileron_parity::suite::{Executor, POLL_INTERVAL, Server, Space, StatusView, Task, WAIT_TIMEOUT, attempts};
use aileron_sandbox::{Rules, install_definitions};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::quota::{check, quota_bench};

aileron_parity::on_both!(
    a_foreign_pod_of_the_same_name_is_reported_and_left_alone,
    a_pod_that_replaced_ours_is_not_adopted,
    a_task_waits_for_a_terminating_pod_of_the_same_name,
    a_task_waits_until_its_kind_is_installed
);

const FOREIGN_FINALIZER: &str = "example.com/theirs";

/// Changes a copy of our pod so that it no longer belongs to the attempt.
type Change = fn(&mut Pod);

fn pod(name: &str, finalizers: &[&str]) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": name, "finalizers": finalizers, "annotations": {"kubelet.aileron.test/end": "run"},
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))?)
}

/// Whether a request with this verb changes or deletes a pod.
fn is_write(verb: &str) -> bool {
    ["update", "patch", "delete", "deletecollection"].contains(&verb)
}

/// Checks that the executor changed or deleted none of these pods.
async fn untouched(space: &Space<'_>, pods: &[Pod]) -> Result<()> {
    for pod in pods {
        let name = pod.name_any();
        let now = space.pods.get(&name).await?;
        assert_eq!((now.uid(), &now.metadata.deletion_timestamp), (pod.uid(), &None), "{name}");
        assert_eq!(now.finalizers(), pod.finalizers(), "{name}");
    }
    let writes: Vec<_> =
        space.requests()?.into_iter().filter(|request| request.resource == "pods" && is_write(&request.verb)).collect();
    assert!(writes.iter().all(|request| request.code >= 400), "{writes:?}");
    Ok(())
}

async fn a_foreign_pod_of_the_same_name_is_reported_and_left_alone(on: Server) -> Result<()> {
    let space = quota_bench(on).await?.space("taken").await?;
    let plain = pod("mine-0", &[])?;
    // This pod has our label, so the executor's watch delivers it.
    let mut posing = pod("posing-0", &["flyte/flytek8s"])?;
    posing.labels_mut().insert("flyte.org/managed".to_owned(), "true".to_owned());
    let mut foreign = Vec::new();
    for pod in [&plain, &posing] {
        foreign.push(space.pods.create(&PostParams::default(), pod).await?);
    }
    let names = ["mine", "posing"];
    for name in names {
        space.submit(&Task::container(name)).await?;
    }
    for name in names {
        let ended = space.until_ended(name).await?;
        let error = ended.status_or_default().error_state.unwrap();
        let outcome = ended.outcome().unwrap().0;
        assert_eq!((outcome.as_str(), error.kind.as_str()), ("Failed", "SYSTEM"), "{}", ended.summary());
        let expected = format!("Pod [taken/{name}-0] exists and does not belong to");
        assert!(error.message.contains(&expected), "{}", error.message);
    }
    untouched(&space, &foreign).await?;
    // The pods also stay when the actions are deleted.
    for name in names {
        space.delete(name).await?;
        space.until_gone(name).await?;
    }
    untouched(&space, &foreign).await?;
    assert_eq!(space.runs().len(), foreign.len());
    Ok(())
}

/// While no executor runs, foreign pods replace the pods of running tasks and succeed. The next executor must not take them
/// for the tasks' pods.
async fn a_pod_that_replaced_ours_is_not_adopted(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("swapped").await?;
    let swaps: [(&str, Change); 3] = [
        ("owner", |pod| pod.owner_references_mut().iter_mut().for_each(|owner| owner.uid = "another".to_owned())),
        ("attempt", |pod| drop(pod.labels_mut().insert("attempt".to_owned(), "7".to_owned()))),
        ("unmarked", |pod| (pod.metadata.labels, pod.metadata.owner_references) = (None, None)),
    ];
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    for (name, _) in swaps {
        space.submit(&Task::container(name).attempts(&["run"])).await?;
    }
    for (name, _) in swaps {
        space.until(name, "running", |action| action.reason() == "Executing").await?;
    }
    executor.stop().await?;
    let mut foreign_pods = Vec::new();
    for (name, change) in swaps {
        let pod = format!("{name}-0");
        let ours = space.pods.get(&pod).await?;
        space.pods.delete(&pod, &DeleteParams::default().grace_period(0)).await?;
        until_pod(&space, &pod, Option::is_none).await?;
        let mut foreign = Pod { spec: ours.spec, ..Pod::default() };
        foreign.metadata.name = ours.metadata.name;
        foreign.metadata.labels = ours.metadata.labels;
        foreign.metadata.owner_references = ours.metadata.owner_references;
        foreign.annotations_mut().extend([attempts(&["succeed"])]);
        foreign.spec.get_or_insert_default().node_name = None;
        change(&mut foreign);
        foreign_pods.push(space.pods.create(&PostParams::default(), &foreign).await?);
    }
    for (name, _) in swaps {
        let ended =
            |pod: &Option<Pod>| pod.as_ref().and_then(|pod| pod.status.as_ref()?.phase.as_deref()) == Some("Succeeded");
        until_pod(&space, &format!("{name}-0"), ended).await?;
    }
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    for (name, _) in swaps {
        let ended = space.until_ended(name).await?;
        assert_eq!(ended.outcome().unwrap().0, "Failed", "{}", space.dump(name).await);
        let error = ended.status_or_default().error_state.unwrap();
        assert!(error.message.contains("exists and does not belong to"), "{}", error.message);
        space.delete(name).await?;
        space.until_gone(name).await?;
    }
    untouched(&space, &foreign_pods).await?;
    executor.stop().await
}

async fn until_pod(space: &Space<'_>, name: &str, done: impl Fn(&Option<Pod>) -> bool) -> Result<()> {
    let begin = Instant::now();
    while !done(&space.pods.get_opt(name).await?) {
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "{}", space.dump(name).await);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// The create fails with AlreadyExists, but the next read finds no pod. Only the sandbox can simulate this.
#[tokio::test]
async fn a_pod_that_just_disappeared_uses_no_attempt() -> Result<()> {
    let bench = quota_bench(Server::Sandbox).await?;
    let space = bench.space("fleeting").await?;
    let refusals = AtomicUsize::new(2);
    let taken = move |verb: &str, resource: &str, namespace: &str, _: &str| {
        let applies = (verb, resource, namespace) == ("create", "pods", "fleeting");
        let one_less = |left: usize| left.checked_sub(1);
        let refuses = applies && refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
        refuses.then(|| ApiError { reason: "AlreadyExists", ..ApiError::of_code(409, "pods already exists") })
    };
    bench.cluster.sandbox().context("the sandbox")?.faults().add(Fault::Decide(Box::new(taken)));
    space.submit(&Task::container("late")).await?;
    let ended = space.until_ended("late").await?;
    check(std::slice::from_ref(&ended));
    assert_eq!(
        (ended.status_or_default().attempts, ended.status_or_default().system_failures),
        (1, 0),
        "{}",
        ended.summary()
    );
    let creates =
        space.requests()?.into_iter().filter(|request| (&*request.verb, &*request.resource) == ("create", "pods"));
    assert_eq!(creates.map(|request| request.code).collect::<Vec<_>>(), [409, 409, 201]);
    Ok(())
}

async fn a_task_waits_for_a_terminating_pod_of_the_same_name(on: Server) -> Result<()> {
    let space = quota_bench(on).await?.space("going").await?;
    let foreign = space.pods.create(&PostParams::default(), &pod("next-0", &[FOREIGN_FINALIZER])?).await?;
    space.pods.delete("next-0", &DeleteParams::default()).await?;
    space.submit(&Task::container("next")).await?;
    let waits = space
        .until("next", "waiting", |action| action.status_or_default().plugin_phase == "PhaseWaitingForResources")
        .await?;
    let conditions = waits.status_or_default().conditions;
    assert!(
        conditions.iter().any(|it| it.message == "waiting for the terminating Pod [going/next-0] to go away"),
        "{conditions:?}"
    );
    assert_eq!(waits.pending().map(|(code, _)| code).as_deref(), Some("Terminating"));
    let held = space.pods.get("next-0").await?;
    assert_eq!((held.uid(), held.finalizers()), (foreign.uid(), [FOREIGN_FINALIZER.to_owned()].as_slice()));
    let released = json!({"metadata": {"finalizers": null}});
    space.pods.patch("next-0", &PatchParams::default(), &Patch::Merge(released)).await?;
    check(&[space.until_ended("next").await?]);
    assert_ne!(space.pods.get("next-0").await?.uid(), foreign.uid());
    Ok(())
}

async fn a_task_waits_until_its_kind_is_installed(on: Server) -> Result<()> {
    let space = quota_bench(on).await?.space("kindless").await?;
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
    let waits = space
        .until("early", "waiting", |action| action.status_or_default().plugin_phase == "PhaseWaitingForResources")
        .await?;
    assert_eq!(
        (waits.status_or_default().attempts, waits.status_or_default().system_failures),
        (1, 0),
        "{}",
        waits.summary()
    );
    let rules: Vec<_> = Rules::builtin().into_iter().filter(|rules| rules.qualified() == "rayjobs.ray.io").collect();
    install_definitions(&space.admin, &rules).await?;
    // The object is checked, because the status of a short phase is held back and may not be written.
    let jobs: Api<DynamicObject> = Api::namespaced_with(space.admin.clone(), &space.namespace, &resource);
    let begin = Instant::now();
    while jobs.get_opt("early-0").await?.is_none() {
        assert!(begin.elapsed() < WAIT_TIMEOUT, "{}", space.dump("early").await);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
