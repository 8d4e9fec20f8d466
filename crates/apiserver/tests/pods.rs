//! Logs of pods, and mutating webhooks.
#![allow(clippy::unwrap_used, clippy::panic)]

use aileron_apiserver::{ApiServer, LogLine, Options};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use futures::AsyncBufReadExt;
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, LogParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

fn pod(name: &str) -> Pod {
    let spec = json!({"nodeName": "n", "containers": [{"name": "main", "image": "i"}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

async fn with_pod(server: &ApiServer) -> (Api<Pod>, String) {
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let made = pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    (pods, made.metadata.uid.unwrap())
}

fn line(seconds: i64, text: &str) -> LogLine {
    LogLine { time: Timestamp::from_second(seconds).unwrap(), text: text.to_owned() }
}

#[tokio::test]
async fn logs_are_read_with_all_options() {
    let server = ApiServer::new(Options::default());
    let (pods, uid) = with_pod(&server).await;
    server.logs().start(&uid, "main");
    server.logs().append(&uid, "main", line(0, "old"));
    server.logs().append(&uid, "main", LogLine { time: Timestamp::now(), text: "new".to_owned() });
    let read = async |params: LogParams| pods.logs("p", &params).await;
    assert_eq!(read(LogParams::default()).await.unwrap(), "old\nnew\n");
    assert_eq!(read(LogParams { tail_lines: Some(1), ..LogParams::default() }).await.unwrap(), "new\n");
    assert_eq!(read(LogParams { since_seconds: Some(60), ..LogParams::default() }).await.unwrap(), "new\n");
    let stamped = read(LogParams { timestamps: true, ..LogParams::default() }).await.unwrap();
    assert!(stamped.starts_with("1970-01-01T00:00:00.000000000Z old\n"), "{stamped}");
    let refused = read(LogParams { previous: true, ..LogParams::default() }).await.unwrap_err().to_string();
    assert!(refused.contains("previous terminated container \"main\" in pod \"p\" not found"), "{refused}");

    server.logs().end(&uid, "main");
    server.logs().start(&uid, "main");
    server.logs().append(&uid, "main", line(9, "again"));
    assert_eq!(read(LogParams::default()).await.unwrap(), "again\n");
    assert_eq!(read(LogParams { previous: true, ..LogParams::default() }).await.unwrap(), "old\nnew\n");
}

#[tokio::test]
async fn a_log_is_followed_until_the_container_ends() {
    let server = ApiServer::new(Options::default());
    let (pods, uid) = with_pod(&server).await;
    let params = LogParams { follow: true, ..LogParams::default() };
    let lines = pods.log_stream("p", &params).await.unwrap().lines();
    let writer = tokio::spawn(async move {
        for number in 0..100 {
            server.logs().append(&uid, "main", line(number, &number.to_string()));
            tokio::task::yield_now().await;
        }
        server.logs().end(&uid, "main");
    });
    let lines: Vec<String> = lines.try_collect().await.unwrap();
    writer.await.unwrap();
    assert_eq!(lines, (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
}

/// A webhook that adds a label to every pod and refuses pods with the name `bad`.
async fn admit(Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let uid = &request["uid"];
    if request["name"] == "bad" {
        let status = json!({"code": 403, "message": "no bad pods"});
        return Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": uid, "allowed": false, "status": status}}));
    }
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"admitted": "yes"}}]).to_string();
    let patch = base64::engine::general_purpose::STANDARD.encode(patch);
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch}}))
}

#[tokio::test]
async fn webhooks_change_and_refuse_pods() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hooks = tokio::spawn(async move { axum::serve(listener, Router::new().route("/mutate", post(admit))).await });

    let server = ApiServer::new(Options::default());
    server.route_service("flyte", "webhook", &format!("http://{address}"));
    let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration");
    let configurations: Api<DynamicObject> = Api::all_with(server.client(), &ApiResource::from_gvk(&gvk));
    let configuration = serde_json::from_value(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hook"},
        "webhooks": [{
            "name": "hook.example.org", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "flyte", "name": "webhook", "path": "/mutate"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        }],
    }))
    .unwrap();
    configurations.create(&PostParams::default(), &configuration).await.unwrap();

    let (pods, _) = with_pod(&server).await;
    assert_eq!(pods.get("p").await.unwrap().metadata.labels.unwrap()["admitted"], "yes");
    let refused = pods.create(&PostParams::default(), &pod("bad")).await.unwrap_err().to_string();
    assert!(refused.contains("admission webhook \"hook.example.org\" denied the request: no bad pods"), "{refused}");

    hooks.abort();
    let _ = hooks.await;
    let failed = pods.create(&PostParams::default(), &pod("q")).await.unwrap_err().to_string();
    assert!(failed.contains("failed calling webhook \"hook.example.org\""), "{failed}");
}
