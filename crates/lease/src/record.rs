//! The content of the lease, in the format of client-go, so that Go and Rust replicas can share one lease; and what to do
//! about it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The lease of the Go executor. With the same name, a Go and a Rust replica never lead at the same time.
pub const LEASE_NAME: &str = "abf369a8.flyte.org";

/// Which process competes for which lease, and its timeouts. The defaults are those of controller-runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Name of the Lease.
    pub name: String,
    /// The name of this process. It must be unique among the replicas.
    pub identity: String,
    /// How long other replicas wait after the last renewal before they take the lease.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it stops. Shorter than `lease_duration`, so that it stops before another
    /// replica takes the lease.
    pub renew_deadline: Duration,
    /// The time between two tries to take or renew the lease.
    pub retry_period: Duration,
}

/// What to do about the lease.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// There is no lease: create it with this content.
    Create(LeaseSpec),
    /// The lease is free or has expired: take it by writing this content.
    Take(LeaseSpec),
    /// This process holds the lease: renew it by writing this content.
    Renew(LeaseSpec),
    /// Another replica leads.
    Wait {
        /// The identity of the leader.
        holder: String,
    },
}

impl LeaseConfig {
    /// Competes as `identity` for the lease of the executor, with the timeouts of controller-runtime.
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            name: LEASE_NAME.to_owned(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Decides what to do about the lease as it was read. Mirrors `LeaderElector.tryAcquireOrRenew`.
///
/// `unchanged_for` is how long this process has seen the lease unchanged. The times in the lease are never compared with
/// the local clock, so replicas whose clocks differ cannot both lead.
pub fn decide(observed: Option<&LeaseSpec>, config: &LeaseConfig, now: Timestamp, unchanged_for: Duration) -> Decision {
    let Some(observed) = observed else {
        return Decision::Create(record(config, now, now, 0));
    };
    let transitions = observed.lease_transitions.unwrap_or_default();
    let holder = observed.holder_identity.as_deref().unwrap_or_default();
    if holder == config.identity {
        let acquired = observed.acquire_time.as_ref().map_or(now, |time| time.0);
        return Decision::Renew(record(config, acquired, now, transitions));
    }
    // The duration in the lease applies, because the holder relies on it.
    let seconds = observed.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    if holder.is_empty() || unchanged_for >= Duration::from_secs(seconds) {
        return Decision::Take(record(config, now, now, transitions.saturating_add(1)));
    }
    Decision::Wait { holder: holder.to_owned() }
}

/// The lease without a holder, which any replica may take. Mirrors `LeaderElector.release`.
pub fn released(observed: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: None,
        // A replica that ignores the empty holder waits only this long.
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..observed.clone()
    }
}

fn record(config: &LeaseConfig, acquired: Timestamp, renewed: Timestamp, transitions: i32) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(config.identity.clone()),
        lease_duration_seconds: Some(i32::try_from(config.lease_duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: Some(MicroTime(acquired)),
        renew_time: Some(MicroTime(renewed)),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}
