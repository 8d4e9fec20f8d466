//! How long nobody tries to take a token after the server did not let somebody.

use std::time::Duration;

use aileron_kubekit::ApiError;
use aileron_machinery::backoff::ExponentialBackoff;
use aileron_machinery::{Pending, PendingReason};
use jiff::{SignedDuration, Timestamp};

use crate::refusal::Refusal;

/// The first pause, doubled each time: a server that restarts is back after a few of them.
const FIRST: Duration = Duration::from_secs(1);
/// Longer would leave tasks waiting for nothing, and one try in this time is nothing to a server.
const LONGEST: Duration = Duration::from_secs(30);

/// A pause of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// Until when.
    pub(super) until: Timestamp,
    /// What those who wait are told.
    pub(super) pending: Pending,
    /// Failures in a row, this one included.
    failures: u32,
}

impl Pause {
    /// The pause after a failure, longer if one went before.
    pub(super) fn after(before: Option<&Self>, pool: &str, error: &ApiError, now: Timestamp) -> Self {
        let failures = before.map_or(1, |before| before.failures.saturating_add(1));
        let until =
            ExponentialBackoff::doubling(FIRST, LONGEST).pause(failures).max(error.retry_after.unwrap_or_default());
        let until = SignedDuration::try_from(until).ok().and_then(|wait| now.checked_add(wait).ok()).unwrap_or(now);
        let refusal = Refusal::of(error);
        let (reason, what) = match &refusal {
            Refusal::Quota(_) => (PendingReason::Quota, error.message.as_str()),
            Refusal::Overload { what, .. } => (what.reason(), what.text()),
            Refusal::Other => (PendingReason::BackOff, error.message.as_str()),
        };
        let pending = Pending::new(reason, format!("pool {pool}: a token cannot be taken now: {what}"));
        Self { until, pending, failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_the_servers_wish_counts() {
        let now = Timestamp::UNIX_EPOCH;
        let error = ApiError { code: 503, message: "no".into(), ..ApiError::default() };
        let mut pause = Pause::after(None, "p", &error, now);
        assert_eq!(pause.pending.message, "pool p: a token cannot be taken now: the API server is not available");
        for expected in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(pause.until.duration_since(now), SignedDuration::from_secs(expected));
            pause = Pause::after(Some(&pause), "p", &error, now);
        }
        let patient = ApiError { retry_after: Some(Duration::from_secs(50)), ..error };
        assert_eq!(Pause::after(None, "p", &patient, now).until.duration_since(now), SignedDuration::from_secs(50));
    }

    #[test]
    fn a_quota_on_leases_is_told_as_one() {
        let message = "leases is forbidden: exceeded quota: q, requested: count/leases=1, used: count/leases=1, limited: count/leases=1";
        let error = ApiError { code: 403, reason: "Forbidden".into(), message: message.into(), ..ApiError::default() };
        let pending = Pause::after(None, "p", &error, Timestamp::UNIX_EPOCH).pending;
        assert_eq!(pending.reason, PendingReason::Quota);
        assert!(pending.message.ends_with(message));
    }
}
