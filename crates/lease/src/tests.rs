#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aileron_machinery::time::clock::Clock;
use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::Status;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::record::{Decision, decide, released};
use crate::{Elector, Fence, LeaseApi, LeaseConfig, LeaseError, NotLeading};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn config(identity: &str) -> LeaseConfig {
    LeaseConfig::new(identity)
}

fn held_by(holder: &str) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(MicroTime(at(100))),
        renew_time: Some(MicroTime(at(200))),
        lease_transitions: Some(4),
        ..LeaseSpec::default()
    }
}

#[test]
fn creates_what_does_not_exist() {
    let Decision::Create(spec) = decide(None, &config("me"), at(5), Duration::ZERO) else { panic!() };
    assert_eq!(spec.holder_identity.as_deref(), Some("me"));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(0)));
    assert_eq!((spec.acquire_time, spec.renew_time), (Some(MicroTime(at(5))), Some(MicroTime(at(5)))));
}

#[test]
fn renews_its_own_and_keeps_the_history() {
    let Decision::Renew(spec) = decide(Some(&held_by("me")), &config("me"), at(300), Duration::ZERO) else { panic!() };
    assert_eq!(spec.acquire_time, Some(MicroTime(at(100))));
    assert_eq!(spec.renew_time, Some(MicroTime(at(300))));
    assert_eq!(spec.lease_transitions, Some(4));
}

#[test]
fn waits_for_our_own_clock_not_for_the_record() {
    let other = held_by("other");
    // The record looks ancient, but we have only just seen it.
    let wait = Decision::Wait { holder: "other".to_owned() };
    assert_eq!(decide(Some(&other), &config("me"), at(1_000_000), Duration::from_secs(14)), wait);
    // The record lies in the future, but nothing has moved for its duration.
    let Decision::Take(spec) = decide(Some(&other), &config("me"), at(1), Duration::from_secs(15)) else { panic!() };
    assert_eq!(spec.lease_transitions, Some(5));
    assert_eq!(spec.acquire_time, Some(MicroTime(at(1))));
}

#[test]
fn takes_what_was_released() {
    let free = released(&held_by("other"), at(9));
    assert_eq!((free.holder_identity.as_ref(), free.lease_duration_seconds), (None, Some(1)));
    assert!(matches!(decide(Some(&free), &config("me"), at(9), Duration::ZERO), Decision::Take(_)));
    let empty = LeaseSpec { holder_identity: Some(String::new()), ..held_by("") };
    assert!(matches!(decide(Some(&empty), &config("me"), at(9), Duration::ZERO), Decision::Take(_)));
}

#[test]
fn times_are_written_with_microseconds() {
    let Decision::Create(spec) = decide(None, &config("me"), at(5), Duration::ZERO) else { panic!() };
    let json = serde_json::to_value(spec).unwrap();
    assert_eq!(json["renewTime"], "1970-01-01T00:00:05.000000Z");
}

/// A lease in memory with resource versions; can be made to fail or hang.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
    failing: bool,
    hanging: bool,
    answer_after: Duration,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Server>>);

impl Fake {
    async fn gate(&self) -> Result<(), kube::Error> {
        let (failing, hanging, answer_after) = {
            let server = self.0.lock().unwrap();
            (server.failing, server.hanging, server.answer_after)
        };
        tokio::time::sleep(answer_after).await;
        if hanging {
            std::future::pending::<()>().await;
        }
        if failing { Err(error(500, "InternalError")) } else { Ok(()) }
    }

    fn store(&self, mut lease: Lease) -> Lease {
        let mut server = self.0.lock().unwrap();
        server.version += 1;
        lease.metadata.resource_version = Some(server.version.to_string());
        server.lease = Some(lease.clone());
        lease
    }

    fn spec(&self) -> LeaseSpec {
        self.0.lock().unwrap().lease.clone().unwrap().spec.unwrap()
    }

    fn set(&self, spec: LeaseSpec) {
        self.store(Lease { spec: Some(spec), ..Lease::default() });
    }
}

fn error(code: u16, reason: &str) -> kube::Error {
    kube::Error::Api(Box::new(Status::failure("fake", reason).with_code(code)))
}

#[async_trait]
impl LeaseApi for Fake {
    async fn get(&self, _name: &str) -> Result<Option<Lease>, kube::Error> {
        self.gate().await?;
        Ok(self.0.lock().unwrap().lease.clone())
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, kube::Error> {
        self.gate().await?;
        if self.0.lock().unwrap().lease.is_some() {
            return Err(error(409, "AlreadyExists"));
        }
        Ok(self.store(lease.clone()))
    }

    async fn replace(&self, _name: &str, lease: &Lease) -> Result<Lease, kube::Error> {
        self.gate().await?;
        let current = self.0.lock().unwrap().lease.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
        if current != lease.metadata.resource_version {
            return Err(error(409, "Conflict"));
        }
        Ok(self.store(lease.clone()))
    }
}

/// The time of day does not move: no pause and no deadline may depend on it.
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        at(1_000_000)
    }
}

fn elector(fake: &Fake, identity: &str) -> Elector<Fake> {
    fenced(fake, identity, Fence::closed())
}

fn fenced(fake: &Fake, identity: &str, fence: Fence) -> Elector<Fake> {
    Elector::new(fake.clone(), config(identity), Arc::new(StoppedClock), fence)
}

#[tokio::test(start_paused = true)]
async fn takes_over_only_after_silence() {
    let fake = Fake::default();
    let stop = CancellationToken::new();
    assert!(elector(&fake, "a").acquire(&stop).await);
    let started = Instant::now();
    let mut b = elector(&fake, "b");
    assert!(b.acquire(&stop).await);
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(15) && waited < Duration::from_secs(18), "{waited:?}");
    assert_eq!((fake.spec().holder_identity.as_deref(), fake.spec().lease_transitions), (Some("b"), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn frees_the_lease_on_shutdown() {
    let fake = Fake::default();
    let stop = CancellationToken::new();
    let mut a = elector(&fake, "a");
    assert!(a.acquire(&stop).await);
    let held = tokio::spawn({
        let stop = stop.clone();
        async move { a.hold(&stop).await }
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!held.is_finished());
    stop.cancel();
    held.await.unwrap().unwrap();
    let started = Instant::now();
    assert!(elector(&fake, "b").acquire(&CancellationToken::new()).await);
    assert_eq!(started.elapsed(), Duration::ZERO, "the successor need not wait");
}

#[tokio::test(start_paused = true)]
async fn survives_a_short_outage_and_stops_in_a_long_one() {
    for hanging in [false, true] {
        let fake = Fake::default();
        let stop = CancellationToken::new();
        let mut a = elector(&fake, "a");
        assert!(a.acquire(&stop).await);
        let held = tokio::spawn(async move { a.hold(&CancellationToken::new()).await });
        let outage = |on: bool| {
            let mut server = fake.0.lock().unwrap();
            if hanging {
                server.hanging = on;
            } else {
                server.failing = on;
            }
        };
        tokio::time::sleep(Duration::from_secs(3)).await;
        if !hanging {
            outage(true);
            tokio::time::sleep(Duration::from_secs(5)).await;
            outage(false);
            tokio::time::sleep(Duration::from_secs(30)).await;
            assert!(!held.is_finished());
        }
        let started = Instant::now();
        outage(true);
        let error = held.await.unwrap().unwrap_err();
        assert!(matches!(error, LeaseError::NotRenewed { .. }), "{error}");
        assert!(started.elapsed() <= Duration::from_secs(10), "before others may take over: {:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn yields_to_a_usurper_at_once() {
    let fake = Fake::default();
    let stop = CancellationToken::new();
    let mut a = elector(&fake, "a");
    assert!(a.acquire(&stop).await);
    fake.set(held_by("go-replica"));
    let error = a.hold(&stop).await.unwrap_err();
    assert!(matches!(&error, LeaseError::Taken { holder, .. } if holder == "go-replica"), "{error}");
    // And does not free what is not its own.
    assert_eq!(fake.spec().holder_identity.as_deref(), Some("go-replica"));
}

#[tokio::test(start_paused = true)]
async fn acquiring_can_be_stopped() {
    let fake = Fake::default();
    fake.set(held_by("other"));
    fake.0.lock().unwrap().hanging = true;
    let stop = CancellationToken::new();
    let mut a = elector(&fake, "a");
    let waiting = tokio::spawn({
        let stop = stop.clone();
        async move { a.acquire(&stop).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop.cancel();
    assert!(!waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_fence_is_open_while_the_lease_is_held_and_closed_before_it_is_released() {
    let (fake, fence, stop) = (Fake::default(), Fence::closed(), CancellationToken::new());
    let mut a = fenced(&fake, "a", fence.clone());
    assert_eq!(fence.check(), Err(NotLeading));
    assert!(a.acquire(&stop).await);
    let held = tokio::spawn({
        let stop = stop.clone();
        async move { a.hold(&stop).await }
    });
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(fence.check(), Ok(()));
    }
    fake.0.lock().unwrap().hanging = true;
    let stopped = Instant::now();
    stop.cancel();
    fence.until_closed().await;
    assert_eq!(stopped.elapsed(), Duration::ZERO, "closed at once, and not when the lease expires");
    assert_eq!(fake.spec().holder_identity.as_deref(), Some("a"), "the release is still under way");
    held.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_counts_from_its_request_and_not_from_its_answer() {
    let (fake, fence, began) = (Fake::default(), Fence::closed(), Instant::now());
    let mut a = fenced(&fake, "a", fence.clone());
    assert!(a.acquire(&CancellationToken::new()).await);
    let held = tokio::spawn(async move { a.hold(&CancellationToken::new()).await });
    // The renewal at 2 s is answered 7 s later, and the one after it never.
    tokio::time::sleep(Duration::from_millis(1_900)).await;
    fake.0.lock().unwrap().answer_after = Duration::from_secs(7);
    tokio::time::sleep(Duration::from_secs(8)).await;
    fake.0.lock().unwrap().hanging = true;
    fence.until_closed().await;
    assert!(began.elapsed() <= Duration::from_secs(12), "10 s after the request: {:?}", began.elapsed());
    let error = held.await.unwrap().unwrap_err();
    assert!(matches!(error, LeaseError::NotRenewed { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_fence_closes_at_once_when_another_replica_has_the_lease() {
    let (fake, fence, stop) = (Fake::default(), Fence::closed(), CancellationToken::new());
    let mut a = fenced(&fake, "a", fence.clone());
    assert!(a.acquire(&stop).await);
    fake.set(held_by("other"));
    a.hold(&stop).await.unwrap_err();
    assert_eq!(fence.check(), Err(NotLeading));
}
