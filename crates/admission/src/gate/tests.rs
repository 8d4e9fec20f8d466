#![allow(clippy::unwrap_used, clippy::panic)]

mod cluster;
mod order;
mod random_order;
mod reasons;
mod refusals;

use std::ops::Deref;
use std::sync::Mutex;
use std::time::Duration;

use aileron_kubekit::ApiError;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::amounts::of;
use crate::time::testing::at_milli as at;

/// A waker that records which actions were woken. All actions were created at the same time.
#[derive(Clone, Default)]
struct RecordingWaker {
    woken: Arc<Mutex<Vec<String>>>,
    /// Actions that the executor no longer knows.
    unknown: Arc<Mutex<BTreeSet<String>>>,
}

impl ActionWaker for RecordingWaker {
    fn wake(&self, key: &ActionKey) {
        self.woken.lock().unwrap().push(key.name.to_string());
    }

    fn created_at(&self, key: &ActionKey) -> Option<Timestamp> {
        (!self.unknown.lock().unwrap().contains(&*key.name)).then(Timestamp::default)
    }
}

/// A clock that does not move.
struct StoppedClock(Instant);

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::default()
    }

    fn instant(&self) -> Instant {
        self.0
    }
}

/// When a permit is dropped in a test.
const DROPPED_AT: i64 = 1_000;

/// A gate with its waker.
struct TestGate {
    gate: Gate,
    waker: RecordingWaker,
}

impl Deref for TestGate {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.gate
    }
}

impl TestGate {
    /// Without a settle time, which most tests are not about.
    fn new() -> Self {
        Self::with_settle_time(Duration::ZERO)
    }

    fn with_settle_time(settle: Duration) -> Self {
        Self::with_settings(GateSettings { settle, ..GateSettings::default() })
    }

    fn with_settings(settings: GateSettings) -> Self {
        let waker = RecordingWaker::default();
        let clock = Arc::new(StoppedClock(at(DROPPED_AT)));
        Self { gate: Gate::new(settings, Box::new(waker.clone()), clock), waker }
    }

    /// With a quota for pods in the namespace.
    fn with_pod_quota(hard: &str, used: &str) -> Self {
        let gate = Self::new();
        gate.quota_changed("ns", &quota(1, &[("pods", hard)], &[("pods", used)]), at(0));
        gate
    }

    /// Whether the action gets a permit. It then creates its object at once.
    fn creates(&self, name: &str, request: CreateRequest, now: Instant) -> bool {
        match self.request_permit(&key(name), request, now) {
            Admission::Permit(permit) => {
                permit.created(None, now);
                true
            }
            Admission::Wait(_) => false,
            Admission::NeverFits(text) => panic!("{text}"),
        }
    }

    fn permit(&self, name: &str, request: CreateRequest, now: Instant) -> CreatePermit<'_> {
        match self.request_permit(&key(name), request, now) {
            Admission::Permit(permit) => permit,
            Admission::Wait(_) | Admission::NeverFits(_) => panic!("{name} gets no permit"),
        }
    }

    fn waits(&self, name: &str, request: CreateRequest, now: Instant) -> Waiting {
        match self.request_permit(&key(name), request, now) {
            Admission::Wait(waiting) => waiting,
            Admission::Permit(_) | Admission::NeverFits(_) => panic!("{name} does not wait"),
        }
    }

    /// The actions that were woken since the last call.
    fn woken(&self) -> Vec<String> {
        std::mem::take(&mut self.waker.woken.lock().unwrap())
    }

    /// How many namespaces have admission state.
    fn namespaces(&self) -> usize {
        self.gate.shared.lock().by_name.len()
    }
}

fn key(name: &str) -> ActionKey {
    ActionKey::new("ns", name)
}

fn pod(cpu: &str) -> CreateRequest {
    let kind = ResourceKind::of::<Pod>();
    CreateRequest { kind, amounts: of(&[("pods", "1"), ("requests.cpu", cpu)]), pod_traits: Some(Default::default()) }
}

fn quota(version: u64, hard: &[(&str, &str)], used: &[(&str, &str)]) -> Quota {
    Quota::without_scopes("team", version, of(hard), of(used))
}

/// The refusal of a pod because of a quota.
fn exceeded() -> ApiError {
    let message = "pods \"x\" is forbidden: exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2";
    ApiError { code: 403, reason: "Forbidden".into(), message: message.into(), retry_after: None }
}

/// The refusal must make the action wait.
fn waits_after(refused: RefusedCreate) -> Waiting {
    match refused {
        RefusedCreate::Wait(waiting) => waiting,
        RefusedCreate::NeverFits(_) | RefusedCreate::OtherError => panic!("the action does not wait: {refused:?}"),
    }
}
