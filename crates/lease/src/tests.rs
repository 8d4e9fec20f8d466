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

use crate::record::{Decision, beside_go, decide, released, replica_identity};
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
    let free = released(&held_by("other"), &config("other"), at(9));
    assert_eq!((free.holder_identity.as_ref(), free.lease_duration_seconds), (None, Some(1)));
    assert!(matches!(decide(Some(&free), &config("me"), at(9), Duration::ZERO), Decision::Take(_)));
    let empty = LeaseSpec { holder_identity: Some(String::new()), ..held_by("") };
    assert!(matches!(decide(Some(&empty), &config("me"), at(9), Duration::ZERO), Decision::Take(_)));
}

/// What a standby replica beside a Go executor does.
fn decide_beside_go(observed: Option<&LeaseSpec>, go_renews: bool, unchanged_for: Duration) -> Decision {
    let config = config("me").with_take_over(true);
    beside_go(decide(observed, &config, at(300), unchanged_for), observed, go_renews, &config, at(300))
}

#[test]
fn the_lease_is_taken_from_a_go_executor_only_if_that_one_takes_part_in_the_election() {
    const ALIVE: Duration = Duration::ZERO;
    const EXPIRED: Duration = Duration::from_secs(15);
    let go = held_by("flyte-binary-7d9c-x2_8f2c1f60-3c1e-4b1d-9d3e-0f6f7a1b2c3d");
    let replica = held_by(&replica_identity("aileron-5f-abc", 7));
    assert_eq!(decide_beside_go(None, true, ALIVE), Decision::WaitForGo, "it may work without a lease");
    let Decision::TakeOver { record, from, stops_within } = decide_beside_go(Some(&go), true, ALIVE) else { panic!() };
    assert_eq!((record.holder_identity.as_deref(), record.lease_transitions), (Some("me"), Some(5)));
    assert_eq!((from, stops_within), (go.holder_identity.clone().unwrap(), EXPIRED));
    assert!(matches!(decide_beside_go(Some(&go), false, ALIVE), Decision::Wait { .. }), "it may be an old lease");
    assert_eq!(decide_beside_go(Some(&go), false, EXPIRED), Decision::WaitForGo, "it is an old lease");
    assert!(matches!(decide_beside_go(Some(&go), true, EXPIRED), Decision::Take(_)), "it has stopped");
    assert!(matches!(decide_beside_go(Some(&replica), true, ALIVE), Decision::Wait { .. }));
    assert!(matches!(decide_beside_go(Some(&replica), false, EXPIRED), Decision::Take(_)));
    assert!(matches!(decide_beside_go(Some(&held_by("me")), false, ALIVE), Decision::Renew(_)));
}

#[test]
fn a_lease_that_is_released_beside_a_go_executor_is_kept_for_replicas() {
    let kept = released(&held_by("me"), &config("me").with_take_over(true), at(9));
    let holder = kept.holder_identity.clone().unwrap();
    assert!(!holder.is_empty(), "a Go executor takes a lease without a holder at once");
    assert_eq!(kept.lease_duration_seconds, Some(4));
    assert!(matches!(decide_beside_go(Some(&kept), false, Duration::ZERO), Decision::Take(_)));
    assert!(matches!(decide(Some(&kept), &config("other"), at(9), Duration::ZERO), Decision::Take(_)));
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

fn electing_beside_go(fake: &Fake, identity: &str, fence: Fence) -> Elector<Fake> {
    Elector::new(fake.clone(), config(identity).with_take_over(true), Arc::new(StoppedClock), fence)
}

/// The lease of a Go executor, renewed at this second of its clock.
fn renewed_by_go(second: i64) -> LeaseSpec {
    LeaseSpec { renew_time: Some(MicroTime(at(second))), ..held_by("go") }
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_go_executor_is_taken_at_its_next_renewal_and_work_waits_for_its_end() {
    let (fake, fence, stop) = (Fake::default(), Fence::closed(), CancellationToken::new());
    fake.set(renewed_by_go(200));
    let mut a = electing_beside_go(&fake, "a", fence.clone());
    let acquired = tokio::spawn(async move {
        assert!(a.acquire(&CancellationToken::new()).await);
        a
    });
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(fake.spec(), renewed_by_go(200), "nothing shows that it is alive");
    fake.set(renewed_by_go(202));
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(fake.spec().holder_identity.as_deref(), Some("a"));
    let taken = Instant::now();
    let writes = fake.0.lock().unwrap().version;
    tokio::time::sleep(Duration::from_millis(14_800)).await;
    assert_eq!(fence.check(), Err(NotLeading), "the Go executor may work for another moment");
    let renewals = fake.0.lock().unwrap().version - writes;
    assert!(renewals >= 6, "nobody else may take the lease meanwhile: {renewals}");
    let mut a = acquired.await.unwrap();
    assert!(taken.elapsed() < Duration::from_secs(16) && fence.check().is_ok(), "{:?}", taken.elapsed());
    // Later a Go executor has the lease all the same, for example because the API server was away: there is no second take-over.
    fake.set(renewed_by_go(300));
    let error = a.hold(&stop).await.unwrap_err();
    assert!(matches!(&error, LeaseError::Taken { holder, .. } if holder == "go"), "{error}");
    assert_eq!(fake.spec(), renewed_by_go(300));
}

#[tokio::test(start_paused = true)]
async fn a_take_over_whose_answer_is_lost_waits_too() {
    let fake = Fake::default();
    fake.set(renewed_by_go(200));
    let mut a = electing_beside_go(&fake, "a", Fence::closed());
    let acquired = tokio::spawn(async move { a.acquire(&CancellationToken::new()).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    fake.set(renewed_by_go(202));
    // Both requests of a try together take longer than a try may take, so the answer to the write is not seen.
    fake.0.lock().unwrap().answer_after = Duration::from_secs(6);
    tokio::time::sleep(Duration::from_secs(12)).await;
    fake.set(held_by("a"));
    let seen = Instant::now();
    fake.0.lock().unwrap().answer_after = Duration::ZERO;
    assert!(acquired.await.unwrap());
    assert!(seen.elapsed() >= Duration::from_secs(15), "{:?}", seen.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_stops_during_a_take_over_does_not_release_the_lease() {
    let (fake, stop) = (Fake::default(), CancellationToken::new());
    fake.set(renewed_by_go(200));
    let mut a = electing_beside_go(&fake, "a_aileron-1", Fence::closed());
    let waiting = tokio::spawn({
        let stop = stop.clone();
        async move { a.acquire(&stop).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    fake.set(renewed_by_go(202));
    tokio::time::sleep(Duration::from_secs(3)).await;
    stop.cancel();
    assert!(!waiting.await.unwrap());
    assert_eq!(fake.spec().holder_identity.as_deref(), Some("a_aileron-1"));
    let started = Instant::now();
    assert!(electing_beside_go(&fake, "b_aileron-2", Fence::closed()).acquire(&CancellationToken::new()).await);
    assert!(started.elapsed() >= Duration::from_secs(15), "the Go executor may still work: {:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_replica_waits_until_a_go_executor_takes_part_in_the_election() {
    for first in [None, Some(renewed_by_go(200))] {
        let (fake, stop) = (Fake::default(), CancellationToken::new());
        if let Some(old) = first.clone() {
            fake.set(old);
        }
        let mut a = electing_beside_go(&fake, "a", Fence::closed());
        let acquired = tokio::spawn(async move {
            assert!(a.acquire(&CancellationToken::new()).await);
            a
        });
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(fake.0.lock().unwrap().lease.clone().and_then(|lease| lease.spec), first);
        for second in [800, 802] {
            fake.set(renewed_by_go(second));
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let mut a = acquired.await.unwrap();
        // A leader creates the lease again if somebody has deleted it.
        fake.0.lock().unwrap().lease = None;
        let held = tokio::spawn({
            let stop = stop.clone();
            async move { a.hold(&stop).await }
        });
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(fake.spec().holder_identity.as_deref(), Some("a"));
        stop.cancel();
        held.await.unwrap().unwrap();
        // For four seconds only replicas of Aileron may take it.
        assert_ne!(fake.spec().holder_identity.as_deref(), Some("a"));
        let started = Instant::now();
        assert!(electing_beside_go(&fake, "b", Fence::closed()).acquire(&CancellationToken::new()).await);
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
