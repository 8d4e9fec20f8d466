//! Ten thousand pods and a hundred watchers: every event arrives, and memory stays bounded.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use aileron_apiserver::{ApiServer, Options};
use axum::body::Body;
use futures::TryStreamExt;
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tower::ServiceExt;

const PODS: usize = 10_000;
const WATCHERS: usize = 100;
/// Upper bound of the additional memory for the pods, their history and the unread events of watches. It is twice the
/// measured value, so only a leak or an unnecessary copy exceeds it.
const LIMIT_MIB: u64 = 200;

/// Memory of this process in MiB; `None` on a system without `/proc`.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

/// Opens a watch. It sees every change from now on.
async fn open(server: &ApiServer) -> Body {
    let request =
        Request::get("/api/v1/namespaces/default/pods?watch=1&resourceVersion=0").body(Body::empty()).unwrap();
    server.router().oneshot(request).await.unwrap().into_body()
}

/// Reads the stream until it has this many events. Events are not parsed, because the test would then measure the
/// parser.
async fn count(body: Body, wanted: usize) {
    let mut stream = body.into_data_stream();
    let mut seen = 0;
    while seen < wanted {
        let chunk = stream.try_next().await.unwrap().expect("the stream goes on");
        seen += chunk.iter().filter(|byte| **byte == b'\n').count();
    }
    assert_eq!(seen, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_pods_and_a_hundred_watchers() {
    // The history holds all changes, so that slow watches do not have to list again.
    let server = ApiServer::new(Options { history: 2 * PODS, ..Options::default() });
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let before = resident();
    let begin = Instant::now();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"generateName": "p-", "labels": {"app": "scale", "task": "t"}},
        "spec": {"containers": [{
            "name": "main", "image": "registry.example.org/image:v1", "args": ["a0", "--inputs", "s3://bucket/inputs.pb"],
            "env": [{"name": "A", "value": "B"}, {"name": "C", "value": "D"}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
        }]},
    }))
    .unwrap();
    let mut names = Vec::new();
    for _ in 0..PODS {
        names.push(pods.create(&PostParams::default(), &pod).await.unwrap().metadata.name.unwrap());
    }
    let created = begin.elapsed();
    let with_pods = resident();

    // Each watch sees all pods, and then a change of every tenth pod.
    let changes = PODS / 10;
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        watchers.push(tokio::spawn(count(open(&server).await, PODS + changes)));
    }
    for name in names.iter().take(changes) {
        let patch = Patch::Merge(json!({"status": {"phase": "Running"}}));
        pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
    for watcher in watchers {
        tokio::time::timeout(Duration::from_secs(300), watcher).await.unwrap().unwrap();
    }
    let after = resident();
    println!("memory in MiB: {before:?} at first, {with_pods:?} with the pods, {after:?} with the watchers");
    println!("creates took {created:?}, all {:?}", begin.elapsed());
    assert_eq!(server.store().count("pods"), PODS);
    if let (Some(before), Some(after)) = (before, after) {
        assert!(after - before < LIMIT_MIB, "{before} -> {with_pods:?} -> {after} MiB");
    }
}
