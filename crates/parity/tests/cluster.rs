//! Tests of the test bench itself: the control plane, the simulated kubelet, and the recorded requests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use aileron_parity::cluster::{Cluster, Options, Server, User, create_namespace, install_crd};
use aileron_parity::kubelet::{Document, End, Kubelet, Script, Settings, Store, annotations};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, ResourceQuota};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use serde_json::json;

/// Time limit of a wait. It is long because the machine may be busy with other programs.
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

fn pod(name: &str, annotation: &[(&str, &str)], args: &[&str]) -> Pod {
    let annotations: serde_json::Map<_, _> = annotation.iter().map(|&(k, v)| (k.to_owned(), json!(v))).collect();
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "init", "image": "i"}],
            "containers": [{"name": "side", "image": "s"}, {"name": "main", "image": "m", "args": args}],
        },
    }))
    .unwrap();
    pod.metadata = ObjectMeta { annotations: serde_json::from_value(annotations.into()).unwrap(), ..pod.metadata };
    pod
}

async fn until(pods: &Api<Pod>, name: &str, what: &str, done: impl Fn(&Pod) -> bool) -> Result<Pod> {
    let condition = |pod: Option<&Pod>| pod.is_some_and(&done);
    let reached = tokio::time::timeout(WAIT_TIMEOUT, await_condition(pods.clone(), name, condition)).await;
    let pod = reached.with_context(|| format!("{name} did not become {what}"))??;
    pod.with_context(|| format!("{name} is gone"))
}

async fn until_phase(pods: &Api<Pod>, name: &str, phase: &str) -> Result<Pod> {
    until(pods, name, phase, |pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase)).await
}

async fn until_gone(pods: &Api<Pod>, name: &str) -> Result<()> {
    let gone = await_condition(pods.clone(), name, |pod: Option<&Pod>| pod.is_none());
    tokio::time::timeout(WAIT_TIMEOUT, gone).await.with_context(|| format!("{name} was not deleted"))??;
    Ok(())
}

fn exit_code(pod: &Pod, container: &str) -> Option<i32> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    Some(statuses.iter().find(|status| status.name == container)?.state.as_ref()?.terminated.as_ref()?.exit_code)
}

/// Creates a namespace in the shared cluster, and starts a kubelet for this namespace only.
async fn bench(namespace: &str, settings: Settings) -> Result<(Client, Api<Pod>, Kubelet)> {
    let cluster = Cluster::shared().await?;
    let client = cluster.client(User::Admin).await?;
    create_namespace(&client, namespace).await?;
    let kubelet = Kubelet::start(cluster.client(User::Sim).await?, settings.namespace(namespace));
    Ok((client.clone(), Api::namespaced(client, namespace), kubelet))
}

#[tokio::test]
async fn a_task_runs_to_its_end_and_leaves_its_outputs() -> Result<()> {
    let root = tempfile::tempdir()?;
    let (_, pods, kubelet) = bench("succeeds", Settings::default().store(Store::Local(root.path().into()))).await?;
    let args = ["a0", "--outputs-path", "s3://bucket/run/0"];
    pods.create(&PostParams::default(), &pod("p", &[], &args)).await?;

    let ended = until_phase(&pods, "p", "Succeeded").await?;
    assert_eq!((exit_code(&ended, "main"), exit_code(&ended, "side")), (Some(0), Some(0)));
    assert_eq!(ended.spec.unwrap().node_name.as_deref(), Some("sim-0"));
    let Document::Outputs(expected) = Document::one_output() else { panic!("no outputs") };
    assert_eq!(std::fs::read(root.path().join("bucket/run/0/outputs.pb"))?, expected);
    assert_eq!(kubelet.runs().len(), 1);
    kubelet.check()
}

#[tokio::test]
async fn pods_fail_wait_and_stay_as_their_annotations_say() -> Result<()> {
    let (_, pods, kubelet) = bench("annotated", Settings::default()).await?;
    for (name, end) in [
        ("oom", "fail:137:OOMKilled:too big"),
        ("evicted", "evict:Evicted:disk"),
        ("image", "waiting:ImagePullBackOff:no such image"),
        ("nowhere", "unschedulable:0/1 nodes"),
        ("stuck", "pending"),
    ] {
        pods.create(&PostParams::default(), &pod(name, &[(annotations::END, end)], &["--outputs-path", "s3://b"]))
            .await?;
    }

    let oom = until_phase(&pods, "oom", "Failed").await?;
    assert_eq!((exit_code(&oom, "main"), exit_code(&oom, "side")), (Some(137), Some(0)));
    let evicted = until_phase(&pods, "evicted", "Failed").await?.status.unwrap();
    assert_eq!((evicted.reason.as_deref(), evicted.message.as_deref()), (Some("Evicted"), Some("disk")));
    let waits = |pod: &Pod| {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        statuses.is_some_and(|all| all.iter().all(|one| one.state.as_ref().is_some_and(|s| s.waiting.is_some())))
    };
    until(&pods, "image", "waiting", waits).await?;
    let refused = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.reason.as_deref() == Some("Unschedulable")))
    };
    until(&pods, "nowhere", "unschedulable", refused).await?;
    assert_eq!(pods.get("stuck").await?.spec.unwrap().node_name, None);
    kubelet.check()
}

#[tokio::test]
async fn a_deleted_running_pod_is_removed() -> Result<()> {
    let (_, pods, kubelet) = bench("deleted", Settings::default().decide(|_| Script::new(End::Run))).await?;
    pods.create(&PostParams::default(), &pod("p", &[], &[])).await?;
    until_phase(&pods, "p", "Running").await?;
    pods.delete("p", &DeleteParams::default()).await?; // graceful: 30 s, unless a kubelet finishes it
    until_gone(&pods, "p").await?;

    pods.create(&PostParams::default(), &pod("p", &[], &[])).await?;
    until_phase(&pods, "p", "Running").await?;
    // The status is visible a moment before the kubelet records the run.
    while kubelet.runs().len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let uids: Vec<_> = kubelet.runs().into_iter().map(|run| run.uid).collect();
    assert_eq!(uids.len(), 2);
    assert_ne!(uids[0], uids[1]);
    kubelet.check()
}

#[tokio::test]
async fn a_sidecar_keeps_running_and_events_are_recorded() -> Result<()> {
    let decide = |_: &Pod| Script {
        leave_running: vec!["side".to_owned()],
        events: vec![("Pulled".to_owned(), "from the cache".to_owned())],
        ..Script::default()
    };
    let (client, pods, kubelet) = bench("sidecar", Settings::default().decide(decide)).await?;
    pods.create(&PostParams::default(), &pod("p", &[], &["--outputs-path", "s3://b"])).await?;
    let ended = until(&pods, "p", "done", |pod| exit_code(pod, "main") == Some(0)).await?;
    assert_eq!(exit_code(&ended, "side"), None);
    assert_eq!(ended.status.unwrap().phase.as_deref(), Some("Running"));
    let events: Api<Event> = Api::namespaced(client, "sidecar");
    let seen = events.list(&ListParams::default().fields("involvedObject.name=p")).await?.items;
    assert_eq!(seen.iter().map(|event| event.reason.as_deref()).collect::<Vec<_>>(), [Some("Pulled")]);
    kubelet.check()
}

#[tokio::test]
async fn a_vanishing_pod_is_removed_while_it_runs() -> Result<()> {
    let (_, pods, kubelet) = bench("vanishes", Settings::default().decide(|_| Script::new(End::Vanish))).await?;
    pods.create(&PostParams::default(), &pod("p", &[], &[])).await?;
    until_gone(&pods, "p").await?;
    assert_eq!(kubelet.runs().len(), 1);
    kubelet.check()
}

#[tokio::test]
async fn a_definition_is_served_once_it_is_installed() -> Result<()> {
    let client = Cluster::shared().await?.client(User::Admin).await?;
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "things.test.aileron"},
        "spec": {
            "group": "test.aileron",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }))?;
    install_crd(&client, &crd).await?;
    install_crd(&client, &crd).await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("test.aileron", "v1", "Thing"));
    let things: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    things.create(&PostParams::default(), &DynamicObject::new("one", &resource)).await?;
    assert_eq!(things.list(&ListParams::default()).await?.items.len(), 1);
    Ok(())
}

aileron_parity::on_both!(a_restart_loses_nothing_and_requests_are_counted, controllers_count_quota_and_collect_garbage,);

/// Needs its own cluster: it restarts the API server and counts all requests.
async fn a_restart_loses_nothing_and_requests_are_counted(server: Server) -> Result<()> {
    let cluster = Cluster::start(Options { server, ..Options::default() }).await?;
    let admin = cluster.client(User::Admin).await?;
    let script = Script::default().run_for(Duration::from_secs(3));
    let settings = Settings::default().decide(move |_| script.clone());
    let kubelet = Kubelet::start(cluster.client(User::Sim).await?, settings);
    let pods: Api<Pod> = Api::namespaced(admin, "flyte");
    pods.create(&PostParams::default(), &pod("p", &[], &[])).await?;
    until_phase(&pods, "p", "Running").await?;

    cluster.restart_apiserver().await?;
    until_phase(&pods, "p", "Succeeded").await?;
    assert_eq!(kubelet.runs().len(), 1);
    kubelet.check()?;

    assert_eq!(cluster.requests(User::Executor)?, []);
    let executor: Api<Pod> = Api::namespaced(cluster.client(User::Executor).await?, "flyte");
    executor.get("p").await?;
    assert!(executor.get("missing").await.is_err());
    executor.delete("p", &DeleteParams::default()).await?;
    let begin = std::time::Instant::now();
    while cluster.requests(User::Executor)?.len() < 3 && begin.elapsed() < WAIT_TIMEOUT {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seen: Vec<_> =
        cluster.requests(User::Executor)?.into_iter().map(|r| (r.verb, r.resource, r.name, r.code)).collect();
    let expected = [("get", "p", 200), ("get", "missing", 404), ("delete", "p", 200)];
    assert_eq!(seen, expected.map(|(verb, name, code)| (verb.into(), "pods".to_owned(), name.to_owned(), code)));
    assert!(cluster.requests(User::Admin).is_err(), "not audited");

    let dir = cluster.dir().to_owned();
    drop(cluster);
    assert!(!dir.exists());
    Ok(())
}

/// Retries until `attempt` succeeds: controllers react with a delay.
async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let begin = std::time::Instant::now();
    loop {
        match attempt().await {
            Err(error) if begin.elapsed() > WAIT_TIMEOUT => {
                return Err(error.context(format!("timed out waiting until {what}")));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            Ok(value) => return Ok(value),
        }
    }
}

async fn controllers_count_quota_and_collect_garbage(server: Server) -> Result<()> {
    let cluster = Cluster::start(Options { server, controllers: true, ..Options::default() }).await?;
    let client = cluster.client(User::Admin).await?;
    create_namespace(&client, "counted").await?;
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), "counted");
    let owners: Api<ConfigMap> = Api::namespaced(client.clone(), "counted");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "counted");
    let new = PostParams::default();

    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}});
    quotas.create(&new, &serde_json::from_value(quota)?).await?;
    eventually("the quota is known", async || {
        let status = quotas.get("few").await?.status.and_then(|status| status.hard);
        status.map(drop).context("not yet")
    })
    .await?;

    let owner: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "owner"}}))?;
    let uid = owners.create(&new, &owner).await?.metadata.uid;
    let mut owned = pod("owned", &[], &[]);
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    owned.metadata.owner_references = serde_json::from_value(reference)?;
    pods.create(&new, &owned).await?;
    let refusal = pods.create(&new, &pod("another", &[], &[])).await.unwrap_err().to_string();
    let expected = "exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1";
    assert!(refusal.contains(expected), "{refusal}");

    owners.delete("owner", &DeleteParams::background()).await?;
    until_gone(&pods, "owned").await?;
    eventually("the quota is free again", async || Ok(pods.create(&new, &pod("another", &[], &[])).await?)).await?;

    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete("counted", &DeleteParams::default()).await?;
    eventually("the namespace is gone", async || {
        let left = namespaces.get_opt("counted").await?;
        left.map_or(Ok(()), |left| Err(anyhow::anyhow!("{:?}", left.status)))
    })
    .await
}
