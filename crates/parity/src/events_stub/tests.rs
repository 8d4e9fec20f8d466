#![allow(clippy::unwrap_used)]

use aileron_executor::services::connect::{ConnectClient, ConnectOptions};
use aileron_idl::flyteidl2::common::ActionIdentifier;
use aileron_idl::flyteidl2::workflow::{RecordRequest, RecordResponse};
use http::HeaderMap;
use prost::Message;

use super::*;

const RECORD: &str = "flyteidl2.workflow.EventsProxyService/Record";

fn event(action: &str) -> RecordRequest {
    let id = Some(ActionIdentifier { name: action.to_owned(), ..ActionIdentifier::default() });
    RecordRequest { events: vec![ActionEvent { id, attempt: 1, ..ActionEvent::default() }] }
}

async fn record(shared: &Shared, action: &str) -> Result<Bytes, Code> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/proto".parse().unwrap());
    let call = Call { procedure: RECORD.to_owned(), headers, body: event(action).encode_to_vec().into() };
    shared.answer(&call, None).await.map_err(|refusal| refusal.code)
}

#[tokio::test]
async fn events_are_kept_in_order_of_arrival() {
    let shared = Shared::default();
    for action in ["a", "b"] {
        record(&shared, action).await.unwrap();
    }
    let state = shared.state();
    let seen: Vec<_> =
        state.services.events.events.iter().map(|one| (one.request, action_name(&one.event).to_owned())).collect();
    assert_eq!(seen, [(0, "a".to_owned()), (1, "b".to_owned())]);
}

#[tokio::test]
async fn a_refused_event_is_not_stored_and_an_event_with_a_lost_answer_is() {
    let shared = Shared::default();
    shared.state().fault = Fault::refuse(Code::ResourceExhausted).times(1);
    assert_eq!(record(&shared, "a").await, Err(Code::ResourceExhausted));
    assert!(shared.state().services.events.events.is_empty());

    shared.state().fault = Fault::lose_answers().times(1);
    assert_eq!(record(&shared, "a").await, Err(Code::Unavailable));
    assert_eq!(shared.state().services.events.events.len(), 1);

    assert!(record(&shared, "a").await.is_ok(), "the fault is over after one request");
    let events = &shared.state().services.events;
    assert_eq!((events.events.len(), events.requests), (2, 3));
}

#[tokio::test]
async fn the_stub_listens_and_a_wait_ends_with_the_event() {
    crate::init();
    let stub = EventsStub::start().await.unwrap();
    let client = ConnectClient::new(&stub.url(), ConnectOptions::default()).unwrap();
    let second = Duration::from_secs(1);
    let (request, started) = (event("a"), std::time::Instant::now());
    let send = client.call::<_, RecordResponse>(RECORD, &request);
    let (events, answer) = tokio::join!(stub.wait_for(120 * second, |events| !events.is_empty()), send);
    answer.unwrap();
    assert_eq!(events.unwrap(), stub.events_of("a"));
    let error = stub.wait_for(second / 20, |events| events.len() > 1).await.unwrap_err().to_string();
    assert!(error.contains("a attempt 1"), "{error}");

    stub.fault(Fault::slow(second / 10));
    client.call::<_, RecordResponse>(RECORD, &request).await.unwrap();
    assert!(started.elapsed() > second / 10);
}

#[tokio::test]
async fn a_follower_gets_each_event_with_the_name_of_its_sender() {
    crate::init();
    let stub = EventsStub::start().await.unwrap();
    let (mut followed, listener) = (stub.follow(), stub.listen_for("first").await.unwrap());
    for url in [listener.url(), stub.url()] {
        let client = ConnectClient::new(&url, ConnectOptions::default()).unwrap();
        client.call::<_, RecordResponse>(RECORD, &event("a")).await.unwrap();
    }
    stub.forget_events();
    assert_eq!(followed.recv().await.unwrap().sender.as_deref(), Some("first"));
    let second = followed.recv().await.unwrap();
    assert!(second.sender.is_none() && second.arrived <= second.at);
    assert!(stub.events().is_empty());
}

#[tokio::test]
async fn a_fault_of_one_service_leaves_the_other_alone() {
    let shared = Shared::default();
    shared.state().fault = Fault::refuse(Code::Unavailable).of(Service::Cache);
    record(&shared, "a").await.unwrap();
    shared.state().fault = Fault::refuse(Code::Unavailable).of(Service::Events);
    assert_eq!(record(&shared, "a").await, Err(Code::Unavailable));
}
