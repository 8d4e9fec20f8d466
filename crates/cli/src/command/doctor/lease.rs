//! The lease of leader election: who holds it, and whether that fits the configuration.

use std::time::Duration;

use aileron_executor::cluster::LEASE_NAME;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client};

use super::answer::Answer;
use super::finding::Finding;
use crate::display::duration;

pub const LEASE: &str = "lease";

/// The program that wrote the identity of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// controller-runtime appends a UUID to the host name.
    GoExecutor,
    /// `aileron run` appends 16 hexadecimal digits.
    Aileron,
    Other,
}

/// Reads the lease.
pub async fn look(client: &Client, namespace: &str, timeout: Duration) -> Answer<LeaseSpec> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    Answer::of(timeout, leases.get(LEASE_NAME)).await.map(|lease| lease.spec.unwrap_or_default())
}

/// What is wrong with the lease. `now` is the time of the API server.
pub fn judge(lease: &Answer<LeaseSpec>, namespace: &str, leader_elect: bool, now: Timestamp) -> Finding {
    let name = format!("{namespace}/{LEASE_NAME}");
    let free = |text: String| {
        let text = if leader_elect { text } else { format!("{text}; executor.leaderElect is off") };
        Finding::ok(LEASE, text)
    };
    let spec = match lease {
        Answer::Found(spec) => spec,
        Answer::Missing | Answer::NotServed => return free(format!("{name} does not exist yet")),
        Answer::Forbidden(problem) if !leader_elect => {
            return Finding::skipped(
                LEASE,
                format!("executor.leaderElect is off, and {name} may not be read: {problem}"),
            );
        }
        other => {
            return Finding::skipped(LEASE, format!("cannot read {name}: {}", other.problem().unwrap_or_default()));
        }
    };
    let identity = spec.holder_identity.as_deref().unwrap_or_default();
    if identity.is_empty() {
        return free(format!("{name} is free"));
    }
    let holder = holder(identity);
    let since = spec.acquire_time.as_ref().map(|time| duration::age(duration::between(time.0, now)));
    let since = since.map(|since| format!(" for {since}")).unwrap_or_default();
    let program = holder.text();
    let text = format!("{identity} ({program}) has held {name}{since}");
    if is_expired(spec, now) {
        return free(format!("{text}; it has not renewed it in time, and another replica may take it"));
    }
    match (leader_elect, holder) {
        (false, _) => Finding::failed(
            LEASE,
            format!("{text}, and executor.leaderElect is off here"),
            "set executor.leaderElect: true, or stop the other executor: two executors must not work on the same actions",
        ),
        (true, Holder::GoExecutor) => Finding::warning(
            LEASE,
            format!("{text}, and renews it"),
            "this executor waits as a standby until the Go executor is stopped (docs/running.md#changing-executors)",
        ),
        (true, Holder::Aileron) => {
            Finding::ok(LEASE, format!("{text}, and renews it; another replica waits as a standby"))
        }
        (true, Holder::Other) => Finding::warning(
            LEASE,
            format!("{text}, and renews it"),
            "find out which program holds the lease: this executor waits until it is released",
        ),
    }
}

impl Holder {
    fn text(self) -> &'static str {
        match self {
            Self::GoExecutor => "the Go executor",
            Self::Aileron => "Aileron",
            Self::Other => "an unknown program",
        }
    }
}

fn holder(identity: &str) -> Holder {
    let Some((_, suffix)) = identity.rsplit_once('_') else { return Holder::Other };
    let is_hex =
        |text: &str, length: usize| text.len() == length && text.chars().all(|letter| letter.is_ascii_hexdigit());
    let groups: Vec<_> = suffix.split('-').collect();
    if is_hex(suffix, 16) {
        return Holder::Aileron;
    }
    let is_uuid = groups.len() == 5 && groups.iter().zip([8, 4, 4, 4, 12]).all(|(group, length)| is_hex(group, length));
    if is_uuid { Holder::GoExecutor } else { Holder::Other }
}

fn is_expired(spec: &LeaseSpec, now: Timestamp) -> bool {
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    let Some(renewed) = &spec.renew_time else { return true };
    now.duration_since(renewed.0) > SignedDuration::from_secs(seconds.into())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::super::finding::Outcome;
    use super::*;

    const GO: &str = "flyte-binary-0_3f1c2a4e-9d7b-4c55-8a01-0123456789ab";
    const OWN: &str = "aileron-5d_00112233445566ff";

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    fn judged(identity: &str, leader_elect: bool, now: i64) -> Finding {
        let spec = LeaseSpec {
            holder_identity: Some(identity.into()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(MicroTime(at(0))),
            renew_time: Some(MicroTime(at(100))),
            ..LeaseSpec::default()
        };
        judge(&Answer::Found(spec), "flyte", leader_elect, at(now))
    }

    #[test]
    fn the_program_of_the_holder_is_recognised() {
        assert_eq!(holder(GO), Holder::GoExecutor);
        assert_eq!(holder(OWN), Holder::Aileron);
        assert_eq!(holder("somebody"), Holder::Other);
        assert_eq!(holder("host_name"), Holder::Other);
    }

    #[test]
    fn a_live_holder_fits_only_an_executor_that_waits_for_the_lease() {
        assert_eq!(judged(OWN, true, 105).outcome, Outcome::Ok);
        assert_eq!(judged(GO, true, 105).outcome, Outcome::Warning);
        assert_eq!(judged("somebody", true, 105).outcome, Outcome::Warning);
        let two = judged(GO, false, 105);
        assert_eq!(two.outcome, Outcome::Failed);
        assert!(two.found.contains("(the Go executor) has held flyte/abf369a8.flyte.org for"), "{two:?}");
        assert!(two.remedy.is_some_and(|remedy| remedy.contains("executor.leaderElect")));
    }

    #[test]
    fn an_expired_lease_and_a_free_one_are_ok() {
        let expired = judged(GO, false, 116);
        assert_eq!(expired.outcome, Outcome::Ok);
        assert!(expired.found.contains("has not renewed it in time"), "{expired:?}");
        assert_eq!(judged("", true, 105).found, "flyte/abf369a8.flyte.org is free");
        assert_eq!(judge(&Answer::Missing, "flyte", true, at(0)).outcome, Outcome::Ok);
        assert_eq!(judge(&Answer::Forbidden("no".into()), "flyte", true, at(0)).outcome, Outcome::Skipped);
    }
}
