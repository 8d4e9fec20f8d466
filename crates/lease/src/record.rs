//! The content of the lease, in the format of client-go, so that Go and Rust replicas can share one lease; and what to do
//! about it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The lease of the Go executor. With the same name, a Go and a Rust replica never lead at the same time.
pub const LEASE_NAME: &str = "abf369a8.flyte.org";

/// What replicas of Aileron have in their identity and Go executors have not: the Go executor writes `<host>_<uuid>`.
const REPLICA_MARK: &str = "aileron-";

/// The holder of a lease that a replica has released beside a Go executor. Replicas of Aileron may take it at once. A Go
/// executor sees a name that it does not know, and waits for [`RELEASED_DURATION`]. So a rolling update of Aileron does not
/// make the Go executor lead for a moment.
pub const RELEASED: &str = "aileron-released";

/// How long a released lease is kept for other replicas of Aileron: twice the time between two tries to take it.
pub const RELEASED_DURATION: Duration = Duration::from_secs(4);

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
    /// Takes the lease from a Go executor that holds it, and does not create it. See [`beside_go`].
    pub take_over: bool,
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
    /// A Go executor may be working under this lease: take it by writing this content, and work only after the Go executor
    /// has noticed.
    TakeOver {
        /// The new content.
        record: LeaseSpec,
        /// The identity of the Go executor.
        from: String,
        /// The Go executor stops within this time after the lease was taken.
        stops_within: Duration,
    },
    /// Another replica leads.
    Wait {
        /// The identity of the leader.
        holder: String,
    },
    /// No Go executor takes part in the election, although one is expected to.
    WaitForGo,
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
            take_over: false,
        }
    }

    /// The same beside a Go executor: see [`beside_go`].
    #[must_use]
    pub fn with_take_over(self, take_over: bool) -> Self {
        Self { take_over, ..self }
    }
}

/// The identity of a replica in a pod. Other replicas see from it that the holder of a lease is no Go executor. `random`
/// tells the processes of one pod apart.
#[must_use]
pub fn replica_identity(pod: &str, random: u64) -> String {
    format!("{pod}_{REPLICA_MARK}{random:016x}")
}

/// Whether [`replica_identity`] made this identity.
fn is_replica(identity: &str) -> bool {
    identity.rsplit_once('_').is_some_and(|(_, process)| process.starts_with(REPLICA_MARK))
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
    if holder.is_empty() || holder == RELEASED || unchanged_for >= duration(observed) {
        return Decision::Take(record(config, now, now, transitions.saturating_add(1)));
    }
    Decision::Wait { holder: holder.to_owned() }
}

/// Changes the decision of a replica that does not lead and replaces a Go executor. `go_renews` says whether this process has
/// seen another program change the lease.
///
/// - The lease does not exist, or a Go executor holds it and never renews it: a Go executor without leader election may be
///   working, and nothing shows it. So the replica neither creates nor takes the lease. It waits for a Go executor with
///   leader election.
/// - A Go executor holds the lease and renews it: the replica writes itself into the lease. The Go executor cannot renew it
///   any more, and ends within the duration of the lease, as after an outage of the API server. Until then the replica does no
///   work.
pub fn beside_go(
    decision: Decision,
    observed: Option<&LeaseSpec>,
    go_renews: bool,
    config: &LeaseConfig,
    now: Timestamp,
) -> Decision {
    let Some(observed) = observed else {
        return if matches!(decision, Decision::Create(_)) { Decision::WaitForGo } else { decision };
    };
    let holder = observed.holder_identity.as_deref().filter(|holder| !holder.is_empty() && *holder != RELEASED);
    let Some(go) = holder.filter(|holder| *holder != config.identity && !is_replica(holder)) else { return decision };
    match decision {
        Decision::Wait { .. } if go_renews => {
            let transitions = observed.lease_transitions.unwrap_or_default().saturating_add(1);
            let record = record(config, now, now, transitions);
            Decision::TakeOver { record, from: go.to_owned(), stops_within: duration(observed) }
        }
        Decision::Take(_) if !go_renews => Decision::WaitForGo,
        decision => decision,
    }
}

/// The lease for the next leader. Mirrors `LeaderElector.release`.
///
/// # Differs from upstream
///
/// With [`LeaseConfig::take_over`] the lease is not free for everybody at once: for a few seconds only replicas of Aileron
/// may take it, then also a Go executor.
pub fn released(observed: &LeaseSpec, config: &LeaseConfig, now: Timestamp) -> LeaseSpec {
    // A replica that ignores an empty holder waits for one second.
    let (holder, duration) =
        if config.take_over { (Some(RELEASED.to_owned()), RELEASED_DURATION) } else { (None, Duration::from_secs(1)) };
    LeaseSpec {
        holder_identity: holder,
        lease_duration_seconds: Some(whole_seconds(duration)),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..observed.clone()
    }
}

fn record(config: &LeaseConfig, acquired: Timestamp, renewed: Timestamp, transitions: i32) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(config.identity.clone()),
        lease_duration_seconds: Some(whole_seconds(config.lease_duration)),
        acquire_time: Some(MicroTime(acquired)),
        renew_time: Some(MicroTime(renewed)),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

/// The duration in the lease. It applies to others too, because the holder relies on it.
fn duration(observed: &LeaseSpec) -> Duration {
    let seconds = observed.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Duration::from_secs(seconds.unwrap_or_default())
}

fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}
