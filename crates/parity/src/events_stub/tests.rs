#![allow(clippy::unwrap_used)]

use aileron_idl::flyteidl2::cacheservice as base;
use aileron_idl::flyteidl2::cacheservice::v2;
use aileron_idl::flyteidl2::common::ActionIdentifier;
use axum::body::{Body, to_bytes};
use http::Request;
use jiff::SignedDuration;
use prost::Message;
use tower::ServiceExt;

use super::*;

fn app() -> (Arc<Shared>, Router) {
    let shared = Arc::<Shared>::default();
    (shared.clone(), routes(shared))
}

async fn post_proto(app: &Router, path: &str, message: &impl Message) -> (u16, Bytes) {
    let request = Request::post(path)
        .header("content-type", "application/proto")
        .body(Body::from(message.encode_to_vec()))
        .unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    (response.status().as_u16(), to_bytes(response.into_body(), usize::MAX).await.unwrap())
}

fn event(action: &str) -> RecordRequest {
    let id = Some(ActionIdentifier { name: action.to_owned(), ..ActionIdentifier::default() });
    RecordRequest { events: vec![ActionEvent { id, attempt: 1, ..ActionEvent::default() }] }
}

const RECORD_PATH: &str = "/flyteidl2.workflow.EventsProxyService/Record";

#[tokio::test]
async fn events_are_kept_in_order_of_arrival() {
    let (shared, app) = app();
    for action in ["a", "b"] {
        assert_eq!(post_proto(&app, RECORD_PATH, &event(action)).await.0, 200);
    }
    let seen: Vec<_> = shared.inner().events.iter().map(|r| (r.request, action_name(&r.event).to_owned())).collect();
    assert_eq!(seen, [(0, "a".to_owned()), (1, "b".to_owned())]);
}

#[tokio::test]
async fn a_refused_event_is_not_stored_and_a_lost_answer_is() {
    let (shared, app) = app();
    shared.inner().fault = Fault::refuse(Code::ResourceExhausted).times(1);
    let (status, body) = post_proto(&app, RECORD_PATH, &event("a")).await;
    assert_eq!(status, 429);
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&body).unwrap()["code"], "resource_exhausted");
    assert!(shared.inner().events.is_empty());

    shared.inner().fault = Fault::lose_answers().times(1);
    assert_eq!(post_proto(&app, RECORD_PATH, &event("a")).await.0, 503);
    assert_eq!(shared.inner().events.len(), 1);

    assert_eq!(post_proto(&app, RECORD_PATH, &event("a")).await.0, 200, "healed by itself");
    let inner = shared.inner();
    assert_eq!((inner.events.len(), inner.requests), (2, 3));
}

#[tokio::test]
async fn an_event_without_an_attempt_is_invalid_as_in_the_real_service() {
    let (shared, app) = app();
    let mut request = event("a");
    request.events[0].attempt = 0;
    assert_eq!(post_proto(&app, RECORD_PATH, &request).await.0, 400);
    assert!(shared.inner().events.is_empty());
}

#[tokio::test]
async fn other_procedures_and_encodings_are_unimplemented() {
    let (_, app) = app();
    assert_eq!(post_proto(&app, "/flyteidl2.workflow.EventsProxyService/Erase", &event("a")).await.0, 501);
    let json = Request::post(RECORD_PATH).header("content-type", "application/json").body(Body::from("{}")).unwrap();
    assert_eq!(app.oneshot(json).await.unwrap().status().as_u16(), 501);
}

#[tokio::test]
async fn it_listens_and_waiting_ends_with_the_event() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let stub = EventsStub::start().await.unwrap();
    let body = event("a").encode_to_vec();
    let head = format!(
        "POST {RECORD_PATH} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/proto\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(stub.url().trim_start_matches("http://")).await.unwrap();
    let send = async {
        stream.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let second = Duration::from_secs(1);
    let (events, answer) = tokio::join!(stub.wait_for(10 * second, |events| !events.is_empty()), send);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(events.unwrap(), stub.events_of("a"));
    let error = stub.wait_for(second / 20, |events| events.len() > 1).await.unwrap_err().to_string();
    assert!(error.contains("a attempt 1"), "{error}");
}

fn scope() -> Option<v2::Identifier> {
    Some(v2::Identifier { project: "p".to_owned(), domain: "d".to_owned(), ..v2::Identifier::default() })
}

fn put(uri: &str) -> Bytes {
    let output = Some(base::cached_output::Output::OutputUri(uri.to_owned()));
    let output = Some(base::CachedOutput { output, ..base::CachedOutput::default() });
    let request = base::PutCacheRequest { key: "k".to_owned(), output, ..base::PutCacheRequest::default() };
    v2::PutCacheRequest { base_request: Some(request), identifier: scope() }.encode_to_vec().into()
}

fn get() -> Bytes {
    let request = base::GetCacheRequest { key: "k".to_owned() };
    v2::GetCacheRequest { base_request: Some(request), identifier: scope() }.encode_to_vec().into()
}

#[test]
fn what_was_put_is_got_and_is_not_overwritten_unasked() {
    let mut cache = Cache::default();
    let now = Timestamp::UNIX_EPOCH;
    assert_eq!(cache.call("Get", &get(), now).unwrap_err(), Code::NotFound.because("cache entry \"p-d-k\" not found"));
    cache.call("Put", &put("s3://a"), now).unwrap();
    assert!(cache.call("Put", &put("s3://b"), now).is_err());
    let got = base::GetCacheResponse::decode(cache.call("Get", &get(), now).unwrap()).unwrap();
    assert_eq!(got.output.unwrap().output, Some(base::cached_output::Output::OutputUri("s3://a".to_owned())));
    assert_eq!(cache.calls(), ["Get p-d-k", "Put p-d-k", "Put p-d-k", "Get p-d-k"]);
}

fn reserve(cache: &mut Cache, owner: &str, now: Timestamp) -> String {
    let request = base::GetOrExtendReservationRequest {
        key: "k".to_owned(),
        owner_id: owner.to_owned(),
        heartbeat_interval: Some(prost_types::Duration { seconds: 2, nanos: 0 }),
    };
    let body = v2::GetOrExtendReservationRequest { base_request: Some(request), identifier: scope() }.encode_to_vec();
    let answer = cache.call("GetOrExtendReservation", &body.into(), now).unwrap();
    base::GetOrExtendReservationResponse::decode(answer).unwrap().reservation.unwrap().owner_id
}

#[test]
fn a_reservation_is_held_until_three_heartbeats_are_missed() {
    let mut cache = Cache::default();
    let at = |seconds: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
    assert_eq!(reserve(&mut cache, "a", at(0)), "a");
    assert_eq!(reserve(&mut cache, "b", at(5)), "a");
    assert_eq!(reserve(&mut cache, "a", at(5)), "a", "extended to 11");
    assert_eq!(reserve(&mut cache, "b", at(10)), "a");
    assert_eq!(reserve(&mut cache, "b", at(11)), "b");
}

#[test]
fn only_the_owner_releases() {
    let mut cache = Cache::default();
    cache.reserve("p-d-k", "a", Timestamp::MAX);
    for (owner, left) in [("b", Some("a")), ("a", None)] {
        let request = base::ReleaseReservationRequest { key: "k".to_owned(), owner_id: owner.to_owned() };
        let body = v2::ReleaseReservationRequest { base_request: Some(request), identifier: scope() }.encode_to_vec();
        cache.call("ReleaseReservation", &body.into(), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(cache.owner("p-d-k"), left);
    }
}
