//! Back-off of a pool after a failed request for a token.

use std::time::Duration;

use aileron_kubekit::ApiError;
use aileron_machinery::time::backoff::ExponentialBackoff;
use aileron_machinery::{Pending, PendingReason};
use jiff::{SignedDuration, Timestamp};

use crate::refusal::Refusal;

/// The lengths of back-off periods. An API server that restarts is available again after a few periods from one second on.
/// One request in the longest period is no load for the API server, and a longer period would keep actions waiting after
/// the end of an outage.
const PERIODS: ExponentialBackoff = ExponentialBackoff::doubling(Duration::from_secs(1), Duration::from_secs(30));

/// A back-off period in which no token of the pool is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolBackoff {
    pub(super) ends_at: Timestamp,
    /// The reason that waiting actions report.
    pub(super) pending: Pending,
    /// Failed requests in a row.
    failures: u32,
}

impl PoolBackoff {
    /// The period after a failed request. `before` is the previous period, if no request has succeeded since.
    pub(super) fn after(before: Option<&Self>, pool: &str, error: &ApiError, now: Timestamp) -> Self {
        let failures = before.map_or(1, |before| before.failures.saturating_add(1));
        let length = PERIODS.pause(failures);
        let wait = SignedDuration::try_from(length.max(error.retry_after.unwrap_or_default())).ok();
        let ends_at = wait.and_then(|wait| now.checked_add(wait).ok()).unwrap_or(now);
        let refusal = Refusal::of(error);
        let (reason, what) = match &refusal {
            Refusal::Quota(_) => (PendingReason::Quota, error.message.as_str()),
            Refusal::Overload { what, .. } => (what.reason(), what.text()),
            Refusal::Other => (PendingReason::BackOff, error.message.as_str()),
        };
        let pending = Pending::new(reason, format!("pool {pool}: a token cannot be taken now: {what}"));
        Self { ends_at, pending, failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_grow_up_to_the_longest_and_never_end_before_retry_after() {
        let now = Timestamp::UNIX_EPOCH;
        let error = ApiError { code: 503, message: "no".into(), ..ApiError::default() };
        let mut backoff = PoolBackoff::after(None, "p", &error, now);
        assert_eq!(backoff.pending.message, "pool p: a token cannot be taken now: the API server is not available");
        for expected in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(backoff.ends_at.duration_since(now), SignedDuration::from_secs(expected));
            backoff = PoolBackoff::after(Some(&backoff), "p", &error, now);
        }
        let retry_later = ApiError { retry_after: Some(Duration::from_secs(50)), ..error };
        let backoff = PoolBackoff::after(None, "p", &retry_later, now);
        assert_eq!(backoff.ends_at.duration_since(now), SignedDuration::from_secs(50));
    }

    #[test]
    fn a_quota_on_leases_is_reported_as_quota() {
        let message = "leases is forbidden: exceeded quota: q, requested: count/leases=1, used: count/leases=1, limited: count/leases=1";
        let error = ApiError { code: 403, reason: "Forbidden".into(), message: message.into(), ..ApiError::default() };
        let pending = PoolBackoff::after(None, "p", &error, Timestamp::UNIX_EPOCH).pending;
        assert_eq!(pending.reason, PendingReason::Quota);
        assert!(pending.message.ends_with(message));
    }
}
