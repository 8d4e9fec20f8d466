//! Leader election as client-go does it, with the timeouts that controller-runtime sets. It shares no code with
//! `aileron-lease`, so that the suites compare two implementations of one protocol.

use std::time::Duration;

use aileron_lease::LEASE_NAME;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::time::Instant;

/// How long a standby waits after the last change of the lease. It is the default of controller-runtime.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long the leader tries to renew before its process ends. It is the default of controller-runtime.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The pause between two tries. It is the default of controller-runtime.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// A standby waits for up to this part of the pause longer, by chance. It is a constant of client-go.
const JITTER: f64 = 1.2;

/// One candidate for the lease of the executor.
pub(super) struct Election {
    leases: Api<Lease>,
    identity: String,
    observed: Option<Observed>,
}

/// The lease as this candidate read or wrote it last, and when it saw a change for the last time.
struct Observed {
    lease: Lease,
    changed: Instant,
}

impl Observed {
    fn spec(&self) -> LeaseSpec {
        self.lease.spec.clone().unwrap_or_default()
    }

    fn holder(&self) -> String {
        self.spec().holder_identity.unwrap_or_default()
    }

    /// By the clock of this candidate; times in the lease do not count.
    fn is_valid(&self) -> bool {
        let seconds = self.spec().lease_duration_seconds.unwrap_or_default();
        self.changed.elapsed() < Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    }
}

impl Election {
    pub fn new(leases: Api<Lease>, host: &str) -> Self {
        // The form of a UUID.
        let (high, low) = (fastrand::u64(..), fastrand::u64(..));
        let uuid = format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        );
        Self { leases, identity: format!("{host}_{uuid}"), observed: None }
    }

    /// Waits until this candidate holds the lease.
    pub async fn acquire(&mut self) {
        while !self.attempt().await {
            tokio::time::sleep(RETRY_PERIOD.mul_f64(1.0 + JITTER * fastrand::f64())).await;
        }
    }

    /// Renews the lease until this has failed for the renew deadline. The lease is not released: controller-runtime does so
    /// only if a program asks for it, and the Go executor does not.
    pub async fn renew_until_lost(&mut self) {
        loop {
            let renewed = async {
                while !self.attempt().await {
                    tokio::time::sleep(RETRY_PERIOD).await;
                }
            };
            if tokio::time::timeout(RENEW_DEADLINE, renewed).await.is_err() {
                return;
            }
            tokio::time::sleep(RETRY_PERIOD).await;
        }
    }

    /// One try to take or renew the lease. Follows the rules of client-go's `tryAcquireOrRenew`.
    async fn attempt(&mut self) -> bool {
        let now = Timestamp::now();
        if let Some(observed) = &self.observed
            && observed.holder() == self.identity
            && observed.is_valid()
        {
            // The leader first assumes that nobody else has changed the lease.
            let (spec, metadata) = (self.renewed(&observed.spec(), now), observed.lease.metadata.clone());
            if self.write(metadata, spec).await {
                return true;
            }
        }
        match self.leases.get_opt(LEASE_NAME).await {
            Ok(Some(lease)) => self.observe(lease),
            Ok(None) => return self.create(now).await,
            Err(_) => return false,
        }
        let Some(observed) = &self.observed else { return false };
        let (holder, old) = (observed.holder(), observed.spec());
        let spec = if holder == self.identity {
            self.renewed(&old, now)
        } else if !holder.is_empty() && observed.is_valid() {
            return false;
        } else {
            self.record(now, now, old.lease_transitions.unwrap_or_default() + 1)
        };
        let metadata = observed.lease.metadata.clone();
        self.write(metadata, spec).await
    }

    fn renewed(&self, old: &LeaseSpec, now: Timestamp) -> LeaseSpec {
        let acquired = old.acquire_time.as_ref().map_or(now, |time| time.0);
        self.record(acquired, now, old.lease_transitions.unwrap_or_default())
    }

    fn record(&self, acquired: Timestamp, renewed: Timestamp, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: Some(MicroTime(acquired)),
            renew_time: Some(MicroTime(renewed)),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    async fn create(&mut self, now: Timestamp) -> bool {
        let metadata = ObjectMeta { name: Some(LEASE_NAME.to_owned()), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(self.record(now, now, 0)) };
        let created = self.leases.create(&PostParams::default(), &lease).await;
        self.written(created)
    }

    async fn write(&mut self, metadata: ObjectMeta, spec: LeaseSpec) -> bool {
        let lease = Lease { metadata, spec: Some(spec) };
        let written = self.leases.replace(LEASE_NAME, &PostParams::default(), &lease).await;
        self.written(written)
    }

    fn written(&mut self, outcome: kube::Result<Lease>) -> bool {
        let Ok(lease) = outcome else { return false };
        self.observed = Some(Observed { lease, changed: Instant::now() });
        true
    }

    fn observe(&mut self, lease: Lease) {
        let unchanged = self.observed.as_ref().filter(|observed| observed.lease.spec == lease.spec);
        let changed = unchanged.map_or_else(Instant::now, |observed| observed.changed);
        self.observed = Some(Observed { lease, changed });
    }
}
