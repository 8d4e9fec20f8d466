//! Leader election by a Lease, in the record that client-go writes, so that Go and Rust replicas can share one lock.

mod elector;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

pub use elector::{Elector, LeaseApi, LeaseError};

/// The lock of the Go executor; the same name keeps the two from leading at once.
pub const LEASE_NAME: &str = "abf369a8.flyte.org";

/// Who competes for which lock, and how fast. The times are controller-runtime's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Name of the Lease.
    pub name: String,
    /// Name of this process; must be unique among all that compete.
    pub identity: String,
    /// How long others wait after the last sign of life before they take over.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it gives up; shorter than the duration, so that it stops first.
    pub renew_deadline: Duration,
    /// Time between two tries.
    pub retry_period: Duration,
}

/// What to do about the lease.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// There is no lease: create it with this content.
    Create(LeaseSpec),
    /// The lease is free or has expired: take it by writing this content.
    Take(LeaseSpec),
    /// The lease is ours: prove it by writing this content.
    Renew(LeaseSpec),
    /// Somebody else leads.
    Wait {
        /// Who.
        holder: String,
    },
}

impl LeaseConfig {
    /// Competes as `identity` for the executor's lock, with controller-runtime's times.
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

/// Decides from the lease as read. Mirrors `LeaderElector.tryAcquireOrRenew`.
///
/// `unchanged_for` is how long *we* have seen the record unchanged. The times inside the record are never compared
/// with our clock, so clocks that disagree cannot make two leaders.
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
    // The holder's own duration counts: it is the promise the holder relies on.
    let seconds = observed.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    if holder.is_empty() || unchanged_for >= Duration::from_secs(seconds) {
        return Decision::Take(record(config, now, now, transitions.saturating_add(1)));
    }
    Decision::Wait { holder: holder.to_owned() }
}

/// The record that frees the lock for anybody. Mirrors `LeaderElector.release`.
pub fn released(observed: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: None,
        // Readers that ignore the empty holder must not wait long either.
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
