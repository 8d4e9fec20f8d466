#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use aileron_idl::flyteidl2::common::{ActionIdentifier, RunIdentifier};
use futures::future::join_all;
use tokio::time::Instant;

use super::*;
use crate::services::connect::Code;

/// One call as the service saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    at: Duration,
    events: Vec<(String, u32)>,
    accepted: bool,
}

type Script = dyn Fn(&[(String, u32)], Duration) -> (Duration, Result<(), Code>) + Send + Sync;

/// A service that answers by a script, after some time, and checks the order per action.
struct Service {
    started: Instant,
    script: Box<Script>,
    calls: Mutex<Vec<Call>>,
    in_flight: Mutex<HashMap<String, usize>>,
    most_calls: Mutex<(usize, usize)>,
}

impl Service {
    fn new(
        script: impl Fn(&[(String, u32)], Duration) -> (Duration, Result<(), Code>) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            script: Box::new(script),
            calls: Mutex::default(),
            in_flight: Mutex::default(),
            most_calls: Mutex::default(),
        })
    }

    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Accepted versions per action, in order of acceptance.
    fn accepted(&self) -> HashMap<String, Vec<u32>> {
        let mut all: HashMap<String, Vec<u32>> = HashMap::new();
        for call in self.calls().into_iter().filter(|call| call.accepted) {
            for (action, version) in call.events {
                all.entry(action).or_default().push(version);
            }
        }
        all
    }
}

#[async_trait]
impl EventTransport for Service {
    async fn record(&self, events: Vec<ActionEvent>) -> Result<(), ConnectError> {
        let events: Vec<_> = events.iter().map(|event| (event.id.clone().unwrap().name, event.version)).collect();
        let actions: BTreeSet<_> = events.iter().map(|(action, _)| action.clone()).collect();
        {
            let mut in_flight = self.in_flight.lock().unwrap();
            for action in &actions {
                let count = in_flight.entry(action.clone()).or_default();
                *count += 1;
                assert_eq!(*count, 1, "two calls with events of {action} at a time");
            }
            let mut most = self.most_calls.lock().unwrap();
            most.0 += 1;
            most.1 = most.1.max(most.0);
        }
        let at = self.started.elapsed();
        let (time, result) = (self.script)(&events, at);
        tokio::time::sleep(time).await;
        let mut in_flight = self.in_flight.lock().unwrap();
        for action in &actions {
            *in_flight.get_mut(action).unwrap() -= 1;
        }
        self.most_calls.lock().unwrap().0 -= 1;
        self.calls.lock().unwrap().push(Call { at, events, accepted: result.is_ok() });
        result.map_err(|code| ConnectError::new(code, "scripted"))
    }
}

fn event(action: &str, version: u32) -> ActionEvent {
    let run = RunIdentifier { org: "o".into(), project: "p".into(), domain: "d".into(), name: "r".into() };
    ActionEvent {
        id: Some(ActionIdentifier { run: Some(run), name: action.into() }),
        attempt: 1,
        version,
        ..ActionEvent::default()
    }
}

fn batcher(service: &Arc<Service>) -> Arc<EventBatcher> {
    with(service, BatcherOptions { give_up_after: None, ..BatcherOptions::default() })
}

fn with(service: &Arc<Service>, options: BatcherOptions) -> Arc<EventBatcher> {
    Arc::new(EventBatcher::start(service.clone(), options))
}

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_single_event_goes_at_once() {
    let service = Service::new(|_, _| (MS * 3, Ok(())));
    let sink = batcher(&service);
    sink.record(event("a", 0)).await.unwrap();
    assert_eq!(service.started.elapsed(), MS * 3, "no delay before the call");
}

#[tokio::test(start_paused = true)]
async fn events_gather_behind_calls_in_flight() {
    let service = Service::new(|_, _| (MS * 50, Ok(())));
    let sink = with(&service, BatcherOptions { max_calls: 2, max_batch: 400, ..BatcherOptions::default() });
    let first = tokio::spawn({
        let sink = sink.clone();
        async move { join_all((0..2).map(|i| sink.record(event(&format!("first{i}"), 0)))).await }
    });
    tokio::time::sleep(MS).await;
    let names: Vec<_> = (0..1000).map(|i| format!("a{i}")).collect();
    let results = join_all(names.iter().map(|name| sink.record(event(name, 0)))).await;
    assert!(results.iter().all(Result::is_ok));
    first.await.unwrap();
    let mut sizes: Vec<_> = service.calls().iter().map(|call| call.events.len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes.iter().sum::<usize>(), 1002);
    assert!(sizes.len() <= 6 && sizes.contains(&400), "few and large: {sizes:?}");
    assert!(service.most_calls.lock().unwrap().1 <= 2);
}

#[tokio::test(start_paused = true)]
async fn events_of_one_action_stay_in_order() {
    // Every third call fails somehow.
    let count = Mutex::new(0_usize);
    let codes = [Code::Unavailable, Code::Internal, Code::ResourceExhausted, Code::DeadlineExceeded];
    let service = Service::new(move |_, _| {
        let mut count = count.lock().unwrap();
        *count += 1;
        let result = if count.is_multiple_of(3) { Err(codes[(*count / 3) % codes.len()]) } else { Ok(()) };
        (MS * 7, result)
    });
    let sink = batcher(&service);
    let events: Vec<_> =
        (0..20).flat_map(|version| (0..10).map(move |action| event(&format!("a{action}"), version))).collect();
    let results = join_all(events.into_iter().map(|event| sink.record(event))).await;
    assert!(results.iter().all(Result::is_ok));
    let accepted = service.accepted();
    assert_eq!(accepted.len(), 10);
    for (action, versions) in accepted {
        assert_eq!(versions, (0..20).collect::<Vec<_>>(), "{action}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_event_fails_alone() {
    let poison = |events: &[(String, u32)]| events.iter().any(|(name, _)| name == "bad");
    let service = Service::new(move |events, _| (MS, if poison(events) { Err(Code::InvalidArgument) } else { Ok(()) }));
    let sink = with(&service, BatcherOptions { max_calls: 1, give_up_after: None, ..BatcherOptions::default() });
    let names: Vec<_> = (0..100).map(|i| if i == 37 { "bad".to_owned() } else { format!("a{i}") }).collect();
    let results = join_all(names.iter().map(|name| sink.record(event(name, 0)))).await;
    for (name, result) in names.iter().zip(results) {
        match name.as_str() {
            "bad" => assert!(matches!(result, Err(EventError::Rejected(error)) if error.code == Code::InvalidArgument)),
            _ => assert_eq!(result, Ok(()), "{name}"),
        }
    }
    assert!(service.calls().len() <= 20, "halved, not sent one by one: {}", service.calls().len());
    // The next event of the refused action is not held back.
    assert!(matches!(sink.record(event("bad", 1)).await, Err(EventError::Rejected(_))));
    sink.record(event("a1", 1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_that_breaks_the_service_is_isolated() {
    let poison = |events: &[(String, u32)]| events.iter().any(|(name, _)| name == "bad");
    let service = Service::new(move |events, _| (MS, if poison(events) { Err(Code::Internal) } else { Ok(()) }));
    let options = BatcherOptions { max_calls: 1, give_up_after: Some(Duration::from_secs(60)), ..<_>::default() };
    let sink = with(&service, options);
    let names: Vec<_> = (0..50).map(|i| if i == 20 { "bad".to_owned() } else { format!("a{i}") }).collect();
    let good = names.iter().filter(|name| *name != "bad").map(|name| sink.record(event(name, 0)));
    let (bad, good) = tokio::join!(sink.record(event("bad", 0)), join_all(good));
    assert!(good.iter().all(Result::is_ok));
    assert!(matches!(bad, Err(EventError::GaveUp { last: Some(error), .. }) if error.code == Code::Internal));
    // Others were done long before it gave up.
    let last_good = service.calls().iter().filter(|call| call.accepted).map(|call| call.at).max().unwrap();
    assert!(last_good < Duration::from_secs(40), "{last_good:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_delays_but_loses_nothing() {
    let outage = Duration::from_secs(30);
    let service = Service::new(move |_, at| (MS, if at < outage { Err(Code::Unavailable) } else { Ok(()) }));
    let sink = batcher(&service);
    let events = (0..500).map(|i| {
        let sink = &sink;
        async move {
            tokio::time::sleep(MS * 20 * i).await;
            sink.record(event(&format!("a{i}"), 0)).await
        }
    });
    let results = join_all(events).await;
    assert!(results.iter().all(Result::is_ok));
    let ended = service.started.elapsed();
    assert!(ended < outage + Duration::from_secs(4), "found back soon: {ended:?}");
    let calls = service.calls();
    let failed = calls.iter().filter(|call| !call.accepted).count();
    assert!(failed < 30, "a service that is away is not hammered: {failed} calls");
    assert_eq!(service.accepted().len(), 500);
}

#[tokio::test(start_paused = true)]
async fn a_service_in_maintenance_delays_events_but_none_is_dropped() {
    let maintenance = Duration::from_secs(120);
    let service =
        Service::new(move |_, at| (MS, if at < maintenance { Err(Code::FailedPrecondition) } else { Ok(()) }));
    let sink = batcher(&service);
    let names: Vec<_> = (0..200).map(|i| format!("a{i}")).collect();
    let results = join_all(names.iter().map(|name| sink.record(event(name, 0)))).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let ended = service.started.elapsed();
    assert!(ended < maintenance + Duration::from_secs(4), "found back soon: {ended:?}");
    let failed = service.calls().iter().filter(|call| !call.accepted).count();
    assert!(failed < 100, "one call at a time asks whether it is over: {failed} calls");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_meets_no_precondition_does_not_delay_others() {
    let poison = |events: &[(String, u32)]| events.iter().any(|(name, _)| name == "bad");
    let service =
        Service::new(move |events, _| (MS, if poison(events) { Err(Code::FailedPrecondition) } else { Ok(()) }));
    let sink = with(&service, BatcherOptions { give_up_after: Some(Duration::from_secs(60)), ..<_>::default() });
    let good = (0..50).map(|i| {
        let sink = &sink;
        async move {
            tokio::time::sleep(MS * 100 * (i / 10)).await;
            sink.record(event(&format!("a{i}"), 0)).await
        }
    });
    let (bad, good) = tokio::join!(sink.record(event("bad", 0)), join_all(good));
    assert!(good.iter().all(Result::is_ok));
    assert!(matches!(bad, Err(EventError::GaveUp { .. })), "the caller decides again: {bad:?}");
    let last_good = service.calls().iter().filter(|call| call.accepted).map(|call| call.at).max().unwrap();
    assert!(last_good < Duration::from_secs(15), "{last_good:?}");
}

/// An event of this size, roughly.
fn sized(action: &str, bytes: usize) -> ActionEvent {
    let mut event = event(action, 0);
    event.id.as_mut().unwrap().run.as_mut().unwrap().org = "x".repeat(bytes);
    event
}

#[tokio::test(start_paused = true)]
async fn batches_are_bounded_in_bytes() {
    let service = Service::new(|_, _| (MS, Ok(())));
    let sink = with(&service, BatcherOptions { max_calls: 1, max_batch_bytes: 10_000, ..<_>::default() });
    let sizes = (0..20).map(|i| if i == 7 { 50_000 } else { 3_000 });
    let events: Vec<_> = sizes.enumerate().map(|(i, bytes)| sized(&format!("a{i}"), bytes)).collect();
    let results = join_all(events.into_iter().map(|event| sink.record(event))).await;
    assert!(results.iter().all(Result::is_ok));
    let calls = service.calls();
    assert!(calls.iter().all(|call| call.events.len() <= 3), "{calls:?}");
    assert!(calls.iter().any(|call| call.events == [("a7".to_owned(), 0)]), "the large one goes alone: {calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_with_a_smaller_limit_gets_smaller_batches() {
    // Four events at most: about 400 kB.
    let service = Service::new(|events, _| (MS, if events.len() > 4 { Err(Code::ResourceExhausted) } else { Ok(()) }));
    let sink = with(&service, BatcherOptions { max_calls: 1, give_up_after: None, ..<_>::default() });
    let burst = |round: usize| {
        let sink = &sink;
        let events: Vec<_> = (0..16).map(|i| sized(&format!("r{round}a{i}"), 100_000)).collect();
        join_all(events.into_iter().map(|event| sink.record(event)))
    };
    assert!(burst(0).await.iter().all(Result::is_ok));
    let refused = || service.calls().iter().filter(|call| !call.accepted).count();
    let learned = refused();
    assert!(learned > 0);
    assert!(burst(1).await.iter().all(Result::is_ok));
    assert_eq!(refused(), learned, "the limit is remembered");
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_does_not_block_other_actions() {
    let slow = |events: &[(String, u32)]| events.iter().any(|(name, _)| name == "slow");
    let service = Service::new(move |events, _| (if slow(events) { Duration::from_secs(20) } else { MS }, Ok(())));
    let sink = batcher(&service);
    let waiting = tokio::spawn({
        let sink = sink.clone();
        async move { sink.record(event("slow", 0)).await }
    });
    tokio::time::sleep(MS).await;
    let started = Instant::now();
    for version in 0..100 {
        sink.record(event("quick", version)).await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(!waiting.is_finished());
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_that_hang_do_not_delay_the_return_from_an_outage() {
    let hangs = |events: &[(String, u32)]| events.iter().any(|(name, _)| name.starts_with("hang"));
    let service = Service::new(move |events, at| match (hangs(events), at < Duration::from_secs(1)) {
        (true, _) => (Duration::from_secs(25), Ok(())),
        (false, true) => (MS, Err(Code::Unavailable)),
        (false, false) => (MS, Ok(())),
    });
    let sink = with(&service, BatcherOptions { max_calls: 4, max_batch: 1, give_up_after: None, ..<_>::default() });
    let hanging = tokio::spawn({
        let sink = sink.clone();
        async move { join_all((0..3).map(|i| sink.record(event(&format!("hang{i}"), 0)))).await }
    });
    tokio::time::sleep(MS).await;
    sink.record(event("a", 0)).await.unwrap();
    assert!(service.started.elapsed() < Duration::from_secs(5), "{:?}", service.started.elapsed());
    assert!(hanging.await.unwrap().iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_given_a_deadline_and_repeated() {
    let service = Service::new(|_, at| (if at < MS { Duration::from_secs(3600) } else { MS }, Ok(())));
    let sink = with(&service, BatcherOptions { give_up_after: None, ..BatcherOptions::default() });
    // The fake counts a dropped call as in flight, so the second try must not look like a second event.
    let sunk = sink.record(event("a", 0));
    let check = async {
        tokio::time::sleep(Duration::from_secs(29)).await;
        service.in_flight.lock().unwrap().clear();
    };
    let (result, ()) = tokio::join!(sunk, check);
    result.unwrap();
    assert!(service.started.elapsed() < Duration::from_secs(31));
}

#[tokio::test(start_paused = true)]
async fn giving_up_frees_the_action() {
    let service = Service::new(|_, at| (MS, if at < Duration::from_secs(8) { Err(Code::Unavailable) } else { Ok(()) }));
    let options = BatcherOptions { give_up_after: Some(Duration::from_secs(5)), ..BatcherOptions::default() };
    let sink = with(&service, options);
    let error = sink.record(event("a", 0)).await.unwrap_err();
    assert!(matches!(&error, EventError::GaveUp { last: Some(last), .. } if last.code == Code::Unavailable), "{error}");
    assert_eq!(service.started.elapsed(), Duration::from_secs(5));
    tokio::time::sleep(Duration::from_secs(15)).await;
    sink.record(event("a", 1)).await.unwrap();
    assert_eq!(service.accepted()["a"], [1], "what was given up is not sent later");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_makes_callers_wait() {
    let service = Service::new(|_, at| (MS, if at < Duration::from_secs(2) { Err(Code::Unavailable) } else { Ok(()) }));
    let sink = with(&service, BatcherOptions { capacity: 10, give_up_after: None, ..BatcherOptions::default() });
    let names: Vec<_> = (0..100).map(|i| format!("a{i}")).collect();
    let results = join_all(names.iter().map(|name| sink.record(event(name, 0)))).await;
    assert!(results.iter().all(Result::is_ok));
    assert!(service.calls().iter().all(|call| call.events.len() <= 10));
    assert_eq!(service.accepted().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_what_was_accepted() {
    let service = Service::new(|_, _| (MS * 100, Ok(())));
    let sink = with(&service, BatcherOptions { max_calls: 1, ..BatcherOptions::default() });
    let waiting = tokio::spawn({
        let sink = sink.clone();
        async move { join_all((0..3).map(|version| sink.record(event("a", version)))).await }
    });
    tokio::time::sleep(MS).await;
    assert!(sink.shutdown(Duration::from_secs(10)).await);
    assert!(waiting.await.unwrap().iter().all(Result::is_ok));
    assert_eq!(sink.record(event("a", 9)).await, Err(EventError::Closed));
    assert!(sink.shutdown(Duration::ZERO).await, "twice is once");
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_ever() {
    let service = Service::new(|_, _| (MS, Err(Code::Unavailable)));
    let sink = batcher(&service);
    let waiting = tokio::spawn({
        let sink = sink.clone();
        async move { sink.record(event("a", 0)).await }
    });
    tokio::time::sleep(MS).await;
    assert!(!sink.shutdown(Duration::from_secs(3)).await);
    assert_eq!(waiting.await.unwrap(), Err(EventError::Closed));
    assert!(service.started.elapsed() < Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn incomplete_events_cost_no_call() {
    let service = Service::new(|_, _| (MS, Ok(())));
    let sink = batcher(&service);
    let no_id = ActionEvent { id: None, ..event("a", 0) };
    let no_attempt = ActionEvent { attempt: 0, ..event("a", 0) };
    for bad in [no_id, no_attempt, event("", 0)] {
        assert!(matches!(sink.record(bad).await, Err(EventError::Invalid(_))));
    }
    assert!(service.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_exists_is_recorded() {
    let service = Service::new(|_, _| (MS, Err(Code::AlreadyExists)));
    batcher(&service).record(event("a", 0)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_caller_does_not_stop_the_next_event() {
    let service = Service::new(|_, _| (MS * 100, Ok(())));
    let sink = batcher(&service);
    let dropped = tokio::time::timeout(MS * 10, sink.record(event("a", 0))).await;
    assert!(dropped.is_err());
    sink.record(event("a", 1)).await.unwrap();
    assert_eq!(service.accepted()["a"], [0, 1], "the first was in flight already and stays first");
}

#[tokio::test(start_paused = true)]
async fn events_that_belong_together_go_in_one_call() {
    let service = Service::new(|_, _| (MS, Ok(())));
    let sink = with(&service, BatcherOptions { max_batch: 1, ..BatcherOptions::default() });
    sink.record_all(vec![event("a", 0), event("a", 1)]).await.unwrap();
    let calls: Vec<_> = service.calls().into_iter().map(|call| call.events).collect();
    assert_eq!(calls, [vec![("a".to_owned(), 0), ("a".to_owned(), 1)]]);
}
