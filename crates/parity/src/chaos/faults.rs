//! Faults of the services, of the storage and of the connection to the API server, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use http::StatusCode;

use super::world::World;
use crate::cluster::{AuditRecord, FaultyAnswer, Proxy, RefusalRule};
use crate::events_stub::{Code, Fault, Service};
use crate::storage_stub::StorageFault;

/// How long a fault lasts at most. Tasks wait for a service that does not work, so this only slows a run down.
const LONGEST_MS: u64 = 4_000;
/// How many requests the API server refuses at most, one after the other.
const MOST_REFUSALS: usize = 12;

/// How often faults happen, and which ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Shortest and longest time between two faults, in milliseconds.
    pub pause_ms: (u64, u64),
    /// Whether requests for the leader lease may be refused. A leader may then lose the lease, and its process ends.
    pub lease: bool,
}

/// How many faults there were.
#[derive(Debug, Default)]
pub(super) struct FaultCounts {
    pub services: AtomicU64,
    pub storage: AtomicU64,
    pub api: AtomicU64,
}

/// Lets faults happen until dropped. Call [`heal`] then.
pub(super) async fn inject(world: &World, proxies: &[Arc<Proxy>], mut random: Rng, pace: Pace, counts: &FaultCounts) {
    loop {
        tokio::time::sleep(Duration::from_millis(random.u64(pace.pause_ms.0..pace.pause_ms.1))).await;
        let span = Duration::from_millis(random.u64(200..LONGEST_MS));
        match random.u8(..5) {
            0 | 1 => {
                let service = if random.bool() { Service::Events } else { Service::Cache };
                let fault = service_fault(&mut random).of(service);
                world.recorder.note(format!("{service:?} service: {:?} for {span:?}", fault.kind));
                world.stub.fault(fault);
                counts.services.fetch_add(1, Ordering::Relaxed);
            }
            2 => {
                let fault = match random.u8(..3) {
                    0 => StorageFault::Refuse(StatusCode::SERVICE_UNAVAILABLE),
                    1 => StorageFault::LoseAnswers,
                    _ => StorageFault::Slow(Duration::from_millis(random.u64(100..2_000))),
                };
                world.recorder.note(format!("storage: {fault:?} for {span:?}"));
                world.storage.fault(fault);
                counts.storage.fetch_add(1, Ordering::Relaxed);
            }
            _ => {
                if let Some(proxy) = proxies.get(random.usize(..proxies.len())) {
                    disturb(world, proxy, &mut random, pace.lease);
                }
                counts.api.fetch_add(1, Ordering::Relaxed);
            }
        }
        tokio::time::sleep(span).await;
        heal(world, proxies);
    }
}

/// Ends all faults.
pub(super) fn heal(world: &World, proxies: &[Arc<Proxy>]) {
    world.stub.heal();
    world.storage.heal();
    proxies.iter().for_each(|proxy| proxy.stop_refusing());
}

fn service_fault(random: &mut Rng) -> Fault {
    match random.u8(..4) {
        0 => Fault::refuse(Code::Unavailable),
        1 => Fault::refuse(Code::ResourceExhausted),
        2 => Fault::lose_answers(),
        _ => Fault::slow(Duration::from_millis(random.u64(100..2_000))),
    }
}

/// Refuses some requests of one replica, or ends its watches.
fn disturb(world: &World, proxy: &Proxy, random: &mut Rng, lease: bool) {
    if random.u8(..3) == 0 {
        world.recorder.note("the watches of a replica end");
        proxy.drop_watches();
        return;
    }
    let verbs: &'static [&'static str] = match random.u8(..4) {
        0 => &["create"],
        1 => &["patch", "update"],
        2 => &["delete"],
        _ => &["get", "list", "watch"],
    };
    let times = 1 + random.usize(..MOST_REFUSALS);
    let answer = match random.u8(..3) {
        0 => FaultyAnswer::Lost,
        1 => FaultyAnswer::Refused { code: 429, retry_after: random.bool().then_some(1) },
        _ => FaultyAnswer::Refused { code: 503, retry_after: random.bool().then_some(1) },
    };
    world.recorder.note(format!("{times} times {verbs:?} of a replica: {answer:?}"));
    let matches =
        move |request: &AuditRecord| verbs.contains(&request.verb.as_str()) && (lease || request.resource != "leases");
    proxy.refuse(RefusalRule { matches: Box::new(matches), answer, times });
}
