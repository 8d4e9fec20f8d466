//! The work of controllers that the server does by itself: owned objects, namespaces, quotas.
#![allow(clippy::unwrap_used, clippy::panic)]

use aileron_apiserver::{ApiServer, Fault, Match, Options};
use http::Request;
use serde_json::{Value, json};

async fn send(server: &ApiServer, method: &str, path: &str, body: Value) -> (u16, Value) {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", media).body(body.into()).unwrap();
    let response = server.client().send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn map(server: &ApiServer, name: &str, owners: &[&str], finalizers: &[&str]) -> String {
    let owners: Vec<Value> = owners
        .iter()
        .map(
            |uid| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": uid, "blockOwnerDeletion": true}),
        )
        .collect();
    let object = json!({"metadata": {"name": name, "ownerReferences": owners, "finalizers": finalizers}});
    let (code, made) = send(server, "POST", MAPS, object).await;
    assert_eq!(code, 201, "{made}");
    made["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn names(server: &ApiServer) -> Vec<String> {
    let all = server.store().objects("configmaps");
    all.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn pod(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "m", "image": "i", "resources": resources}]}})
}

#[tokio::test]
async fn owned_objects_are_deleted_with_their_last_owner() {
    let server = ApiServer::new(Options::default());
    let (a, b) = (map(&server, "a", &[], &[]).await, map(&server, "b", &[], &[]).await);
    let of_a = map(&server, "of-a", &[&a], &[]).await;
    map(&server, "of-of-a", &[&of_a], &[]).await;
    map(&server, "of-both", &[&a, &b], &[]).await;
    send(&server, "DELETE", &format!("{MAPS}/a"), Value::Null).await;
    assert_eq!(names(&server), ["b", "of-both"]);
    let left = server.store().object("configmaps", "default", "of-both").unwrap();
    assert_eq!(left["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    send(&server, "DELETE", &format!("{MAPS}/b"), Value::Null).await;
    assert!(names(&server).is_empty());
}

#[tokio::test]
async fn an_object_without_existing_owners_is_deleted_at_once() {
    let server = ApiServer::new(Options::default());
    map(&server, "late", &["no-such-uid"], &[]).await;
    assert!(names(&server).is_empty());
    let bare = ApiServer::new(Options { controllers: false, ..Options::default() });
    map(&bare, "late", &["no-such-uid"], &[]).await;
    assert_eq!(names(&bare), ["late"]);
}

#[tokio::test]
async fn with_foreground_propagation_the_owner_is_deleted_last() {
    let server = ApiServer::new(Options::default());
    let owner = map(&server, "owner", &[], &[]).await;
    map(&server, "held", &[&owner], &["a.b/c"]).await;
    let (_, marked) =
        send(&server, "DELETE", &format!("{MAPS}/owner"), json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(names(&server), ["held", "owner"]);
    send(&server, "PATCH", &format!("{MAPS}/held"), json!({"metadata": {"finalizers": null}})).await;
    assert!(names(&server).is_empty());
}

#[tokio::test]
async fn with_orphan_propagation_dependents_stay_without_their_owner_reference() {
    let server = ApiServer::new(Options::default());
    let owner = map(&server, "owner", &[], &[]).await;
    map(&server, "child", &[&owner], &[]).await;
    send(&server, "DELETE", &format!("{MAPS}/owner"), json!({"propagationPolicy": "Orphan"})).await;
    assert_eq!(names(&server), ["child"]);
    let child = server.store().object("configmaps", "default", "child").unwrap();
    assert!(child["metadata"]["ownerReferences"].is_null());
}

#[tokio::test]
async fn a_deleted_namespace_is_removed_when_it_is_empty() {
    let server = ApiServer::new(Options::default());
    send(&server, "POST", "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    let maps = "/api/v1/namespaces/n/configmaps";
    send(&server, "POST", maps, json!({"metadata": {"name": "a"}})).await;
    send(&server, "POST", maps, json!({"metadata": {"name": "b", "finalizers": ["a.b/c"]}})).await;
    send(&server, "DELETE", "/api/v1/namespaces/n", Value::Null).await;
    assert_eq!(names(&server), ["b"]);
    assert_eq!(send(&server, "GET", "/api/v1/namespaces/n", Value::Null).await.1["status"]["phase"], "Terminating");
    send(&server, "PATCH", &format!("{maps}/b"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(send(&server, "GET", "/api/v1/namespaces/n", Value::Null).await.0, 404);
}

#[tokio::test]
async fn quotas_count_created_and_deleted_objects() {
    let server = ApiServer::new(Options::default());
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2", "requests.cpu": "3"}}});
    send(&server, "POST", "/api/v1/namespaces/default/resourcequotas", quota).await;
    let used = || server.store().object("resourcequotas", "default", "q").unwrap()["status"]["used"].clone();
    assert_eq!(used(), json!({"pods": "0", "requests.cpu": "0"}));
    assert_eq!(send(&server, "POST", PODS, pod("a", "2")).await.0, 201);
    assert_eq!(used(), json!({"pods": "1", "requests.cpu": "2"}));
    let (code, refused) = send(&server, "POST", PODS, pod("b", "2")).await;
    let text = "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=2, limited: requests.cpu=3";
    assert_eq!((code, refused["message"].as_str().unwrap()), (403, text));
    // A terminated pod uses no resources.
    send(&server, "PATCH", &format!("{PODS}/a/status"), json!({"status": {"phase": "Succeeded"}})).await;
    assert_eq!(used(), json!({"pods": "0", "requests.cpu": "0"}));
    assert_eq!(send(&server, "POST", PODS, pod("b", "2")).await.0, 201);
    send(&server, "DELETE", &format!("{PODS}/b"), Value::Null).await;
    assert_eq!(used(), json!({"pods": "0", "requests.cpu": "0"}));
}

#[tokio::test]
async fn the_objects_of_a_deleted_definition_are_deleted() {
    let server = ApiServer::new(Options::default());
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"metadata": {"name": "ks.a.b"}, "spec": {
        "group": "a.b", "scope": "Cluster", "names": {"kind": "K", "plural": "ks"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
    }});
    let (code, made) = send(&server, "POST", definitions, definition.clone()).await;
    assert_eq!((code, &made["status"]["conditions"][1]["type"]), (201, &json!("Established")));
    let object = json!({"apiVersion": "a.b/v1", "kind": "K", "metadata": {"name": "k"}, "any": {"thing": 1}});
    assert_eq!(send(&server, "POST", "/apis/a.b/v1/ks", object).await.1["any"]["thing"], 1);
    send(&server, "DELETE", &format!("{definitions}/ks.a.b"), Value::Null).await;
    assert_eq!(send(&server, "GET", "/apis/a.b/v1/ks", Value::Null).await.0, 404);
    send(&server, "POST", definitions, definition).await;
    assert_eq!(send(&server, "GET", "/apis/a.b/v1/ks", Value::Null).await.1["items"], json!([]));
}

#[tokio::test]
async fn a_snapshot_restores_all_objects_and_their_owners() {
    let server = ApiServer::new(Options::default());
    let owner = map(&server, "owner", &[], &[]).await;
    map(&server, "child", &[&owner], &[]).await;
    let text = serde_json::to_string(&server.store().snapshot()).unwrap();
    let revision = server.store().revision();

    let next = ApiServer::new(Options::default());
    next.restore(&serde_json::from_str(&text).unwrap());
    assert_eq!(names(&next), ["child", "owner"]);
    assert!(next.store().revision() > revision);
    // The restored server knows the owner references.
    send(&next, "DELETE", &format!("{MAPS}/owner"), Value::Null).await;
    assert!(names(&next).is_empty());
}

#[tokio::test]
async fn faults_occur_as_often_as_configured() {
    let server = ApiServer::new(Options::default());
    server.faults().add(Fault::Times(Match::of("get", "configmaps"), 503, 2));
    let get = || send(&server, "GET", "/api/v1/namespaces/default/configmaps/x", Value::Null);
    let (code, status) = get().await;
    assert_eq!((code, &status["reason"]), (503, &json!("ServiceUnavailable")));
    assert_eq!([get().await.0, get().await.0], [503, 404]);
    assert_eq!(send(&server, "GET", MAPS, Value::Null).await.0, 200);

    server.faults().add(Fault::Sometimes(Match::default(), 500, 0.5));
    let mut failed = 0;
    for _ in 0..200 {
        failed += usize::from(get().await.0 == 500);
    }
    assert!((50..150).contains(&failed), "{failed}");
    server.faults().clear();
    server.faults().add(Fault::Decide(Box::new(|verb, _, _, name| {
        (verb == "get" && name == "x").then(|| aileron_apiserver::ApiError::of_code(429, "slow down"))
    })));
    assert_eq!(get().await.0, 429);
}
