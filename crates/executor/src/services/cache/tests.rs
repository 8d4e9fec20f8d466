#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use aileron_idl::flyteidl2::cacheservice::{self as v1, CachedOutput, Metadata, cached_output, v2};
use aileron_idl::flyteidl2::core::{Identifier, NodeExecutionIdentifier, TypedInterface, WorkflowExecutionIdentifier};
use aileron_machinery::time::clock::Clock;
use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde::Deserialize;

use super::*;
use crate::services::connect::{ConnectClient, ConnectOptions};
use crate::storage::MemoryStore;

const INPUTS: &str = "s3://bkt/in/inputs.pb";
const OUTPUTS: &str = "s3://bkt/out/outputs.pb";

/// A key as the Go code computes it, with its ingredients as wire bytes.
#[derive(Deserialize)]
struct Golden {
    name: String,
    identifier: String,
    interface: String,
    inputs: String,
    #[serde(default)]
    ignore: Vec<String>,
    version: String,
    key: String,
}

fn message<M: Message + Default>(text: &str) -> M {
    M::decode(STANDARD.decode(text).unwrap().as_slice()).unwrap()
}

fn bytes(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

#[tokio::test]
async fn keys_are_the_ones_go_computes() {
    let goldens: Vec<Golden> = serde_json::from_str(include_str!("testdata/keys.json")).unwrap();
    assert!(goldens.len() > 20);
    for golden in goldens {
        let store = MemoryStore::new();
        store.insert(INPUTS, bytes(&golden.inputs));
        let interface = Some(message(&golden.interface));
        let key = CacheKey::new(message(&golden.identifier), golden.version, golden.ignore, interface, INPUTS.into());
        assert_eq!(key.text(&store).await.unwrap(), golden.key, "{}", golden.name);
    }
}

#[tokio::test]
async fn a_key_reads_inputs_once_and_only_if_declared() {
    let store = MemoryStore::new();
    let undeclared =
        CacheKey::new(Identifier::default(), "v".into(), vec![], Some(TypedInterface::default()), INPUTS.into());
    undeclared.text(&store).await.unwrap();
    let declared = TypedInterface { inputs: Some(Default::default()), outputs: None };
    let key = key(Some(declared));
    assert!(matches!(key.text(&store).await, Err(CatalogError::Inputs(_))));
    store.insert(INPUTS, vec![]);
    let text = key.text(&store).await.unwrap().to_owned();
    store.remove(INPUTS);
    assert_eq!(key.clone().text(&store).await.unwrap(), text);
    let no_interface = CacheKey::new(Identifier::default(), String::new(), vec![], None, INPUTS.into());
    assert!(matches!(no_interface.text(&store).await, Err(CatalogError::Key(KeyError::NoInterface))));
}

fn key(interface: Option<TypedInterface>) -> CacheKey {
    let task =
        Identifier { org: "o".into(), project: "p".into(), domain: "d".into(), name: "t".into(), ..<_>::default() };
    CacheKey::new(task, "ck".into(), vec![], Some(interface.unwrap_or_default()), INPUTS.into())
}

type Calls = Arc<Mutex<Vec<(String, Bytes)>>>;

/// A cache service that gives the same answer to every call and remembers what it was asked.
async fn service(status: StatusCode, body: Vec<u8>) -> (ConnectClient, Calls) {
    let calls = Calls::default();
    let seen = calls.clone();
    let handler = move |Path(method): Path<String>, request: Bytes| async move {
        seen.lock().unwrap().push((method, request));
        let kind = if status == StatusCode::OK { "application/proto" } else { "application/json" };
        let response: Response = (status, [("content-type", kind)], body).into_response();
        response
    };
    let router = Router::new().route("/flyteidl2.cacheservice.v2.CacheService/{method}", post(handler));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (ConnectClient::new(&base, ConnectOptions::default()).unwrap(), calls)
}

fn now() -> Timestamp {
    "2009-11-10T23:00:00Z".parse().unwrap()
}

/// A clock that always tells [`now`].
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        now()
    }
}

fn client(service: ConnectClient, store: Arc<MemoryStore>, max_age: Option<Duration>) -> CacheServiceClient {
    CacheServiceClient::new(service, store, max_age, Arc::new(StoppedClock))
}

fn entry(output: cached_output::Output, age: i64) -> Vec<u8> {
    let metadata = Metadata {
        source_identifier: Some(Identifier { project: "sp".into(), name: "st".into(), ..Identifier::default() }),
        key_map: Some(v1::KeyMapMetadata {
            values: [("exec-attempt".to_owned(), "3".to_owned()), ("execution-name".to_owned(), "r1".to_owned())]
                .into(),
        }),
        created_at: None,
        last_updated_at: Some(prost_types::Timestamp { seconds: now().as_second() - age, nanos: 0 }),
    };
    let output = CachedOutput { output: Some(output), metadata: Some(metadata) };
    v1::GetCacheResponse { output: Some(output) }.encode_to_vec()
}

#[tokio::test]
async fn a_hit_reads_the_outputs_it_refers_to() {
    let (service, calls) = service(StatusCode::OK, entry(cached_output::Output::OutputUri(OUTPUTS.into()), 5)).await;
    let store = Arc::new(MemoryStore::new());
    let client = client(service, store.clone(), None);
    let key = key(None);
    let gone = client.lookup(&key).await.unwrap_err();
    assert!(matches!(gone, CatalogError::CachedOutputs { .. }), "{gone}");
    store.insert(OUTPUTS, vec![]);
    let hit = client.lookup(&key).await.unwrap().unwrap();
    assert_eq!(hit.output_uri.as_deref(), Some(OUTPUTS));
    assert_eq!(hit.source.retry_attempt, 3);
    let node = hit.source.node_execution_id.unwrap();
    assert_eq!(node.node_id, "unknown");
    let run = node.execution_id.unwrap();
    assert_eq!((run.project.as_str(), run.name.as_str()), ("sp", "r1"));
    let (method, request) = calls.lock().unwrap().pop().unwrap();
    assert_eq!(method, "Get");
    let request = v2::GetCacheRequest::decode(request).unwrap();
    assert_eq!(request.base_request.unwrap().key, key.text(store.as_ref()).await.unwrap());
    let scope = v2::Identifier { org: "o".into(), project: "p".into(), domain: "d".into() };
    assert_eq!(request.identifier, Some(scope));
}

#[tokio::test]
async fn misses_are_not_errors() {
    let body = br#"{"code":"not_found","message":"no entry"}"#.to_vec();
    let (service_, _) = service(StatusCode::NOT_FOUND, body).await;
    assert_eq!(client(service_, Arc::default(), None).lookup(&key(None)).await.unwrap(), None);
    // Too old.
    let literals = cached_output::Output::OutputLiterals(LiteralMap::default());
    let (service_, _) = service(StatusCode::OK, entry(literals.clone(), 61)).await;
    let limited = client(service_.clone(), Arc::default(), Some(Duration::from_secs(60)));
    assert_eq!(limited.lookup(&key(None)).await.unwrap(), None);
    let unlimited = client(service_, Arc::default(), Some(Duration::ZERO));
    assert_eq!(unlimited.lookup(&key(None)).await.unwrap().unwrap().output_uri, None);
}

#[tokio::test]
async fn failures_keep_their_code() {
    let body = br#"{"code":"already_exists","message":"entry exists"}"#.to_vec();
    let (service_, _) = service(StatusCode::CONFLICT, body).await;
    let store = Arc::new(MemoryStore::new());
    let client_ = client(service_, store.clone(), None);
    let metadata = CacheMetadata { execution: None, created_at: now() };
    let error = client_.put(&key(None), OUTPUTS, &metadata, false).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound, "nothing to refer to");
    store.insert(OUTPUTS, vec![]);
    let error = client_.put(&key(None), OUTPUTS, &metadata, false).await.unwrap_err();
    assert!(error.is_already_exists());
    let error = client_.lookup(&key(None)).await.unwrap_err();
    assert_eq!(error.code(), Code::AlreadyExists);
    let (service_, _) = service(StatusCode::OK, vec![]).await;
    let error = client(service_, store, None).lookup(&key(None)).await.unwrap_err();
    assert_eq!(error.code(), Code::Internal);
}

#[tokio::test]
async fn an_entry_says_where_it_comes_from() {
    let (service, calls) = service(StatusCode::OK, vec![]).await;
    let store = Arc::new(MemoryStore::new());
    store.insert(OUTPUTS, vec![]);
    let client = client(service, store, None);
    let execution = TaskExecutionIdentifier {
        task_id: Some(Identifier { version: "v42".into(), ..Identifier::default() }),
        retry_attempt: 2,
        node_execution_id: Some(NodeExecutionIdentifier {
            node_id: "a0".into(),
            execution_id: Some(WorkflowExecutionIdentifier {
                project: "ep".into(),
                domain: "ed".into(),
                name: "run".into(),
                org: "eo".into(),
            }),
        }),
    };
    let metadata = CacheMetadata { execution: Some(execution), created_at: now() };
    client.put(&key(None), OUTPUTS, &metadata, true).await.unwrap();
    let (method, request) = calls.lock().unwrap().pop().unwrap();
    assert_eq!(method, "Put");
    let request = v2::PutCacheRequest::decode(request).unwrap().base_request.unwrap();
    assert!(request.overwrite.unwrap().overwrite);
    let output = request.output.unwrap();
    assert_eq!(output.output, Some(cached_output::Output::OutputUri(OUTPUTS.into())));
    let values: Vec<_> = output.metadata.unwrap().key_map.unwrap().values.into_iter().collect();
    let expected = [
        ("exec-attempt", "2"),
        ("exec-domain", "ed"),
        ("exec-node", "a0"),
        ("exec-org", "eo"),
        ("exec-project", "ep"),
        ("execution-name", "run"),
        ("task-version", "v42"),
    ];
    assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[tokio::test]
async fn reservations_name_their_owner() {
    let reservation = v1::Reservation {
        owner_id: "ns/other".into(),
        heartbeat_interval: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
        expires_at: Some(prost_types::Timestamp { seconds: 30, nanos: 0 }),
        ..v1::Reservation::default()
    };
    let answer = v1::GetOrExtendReservationResponse { reservation: Some(reservation) };
    let (service, calls) = service(StatusCode::OK, answer.encode_to_vec()).await;
    let client = client(service, Arc::default(), None);
    let found = client.reserve(&key(None), "ns/me", Duration::from_secs(10)).await.unwrap();
    assert_eq!(found.owner_id, "ns/other");
    assert_eq!(found.expires_at, Some(Timestamp::from_second(30).unwrap()));
    let (method, request) = calls.lock().unwrap().pop().unwrap();
    assert_eq!(method, "GetOrExtendReservation");
    let request = v2::GetOrExtendReservationRequest::decode(request).unwrap().base_request.unwrap();
    assert_eq!((request.owner_id.as_str(), request.heartbeat_interval.unwrap().seconds), ("ns/me", 10));
    client.release(&key(None), "ns/me").await.unwrap();
    assert_eq!(calls.lock().unwrap().pop().unwrap().0, "ReleaseReservation");
}
