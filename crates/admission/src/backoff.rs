//! Back-off after refused create requests: how long creates of one kind in one namespace are not sent.
//!
//! Periods are measured with the monotonic clock, so a correction of the time of day neither lengthens nor shortens them.
//! This is a state machine without a clock and without random numbers of its own: every call passes the current time, and the
//! caller passes the random number for the jitter.

use std::time::{Duration, Instant};

use aileron_machinery::time::backoff::{ExponentialBackoff, Jitter};

use crate::amounts::{self, Amounts};
use crate::time::after;

/// The configuration section `tasks.backoff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffSettings {
    /// `base-second`: the n-th back-off period lasts this number to the power of n, in seconds, starting with n = 0. With
    /// 0 every period has the same length.
    pub base_seconds: u32,
    /// `max-duration`: the longest back-off period, without its jitter.
    pub max_duration: Duration,
}

/// Why a create request was refused, as far as back-off is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackoffCause {
    /// A quota was used up. A smaller create request may still fit.
    Quota,
    /// The API server is overloaded or not available. A create request of any size would make this worse.
    Overload,
}

/// Back-off periods that grow with each refusal, and the amounts that were refused.
///
/// # Differs from upstream
///
/// Flyte 2's executor has no back-off. Compared with Flyte 1: back-off is kept for every kind, not only for pods. Every
/// resource of a refusal becomes a ceiling, and amounts are compared exactly. After an overload only the timer counts.
/// Periods have a random part. A success below the ceilings does not end the period, because it says nothing about larger
/// requests. With `base-second: 0` a refused create waits a fixed period, where Flyte 1 tries again in every round.
#[derive(Clone, Debug)]
pub struct Backoff {
    settings: BackoffSettings,
    /// The exponent of the next period.
    exponent: u32,
    /// The last period, which may be over.
    period: Option<Period>,
    /// The smallest refused amount of each resource.
    ceilings: Amounts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Period {
    ends_at: Instant,
    cause: BackoffCause,
}

/// Length of the first back-off period: any base to the power of zero, in seconds.
const FIRST_PERIOD: Duration = Duration::from_secs(1);

/// Length of every back-off period when `base-second` is 0. Long enough not to load the API server, short compared with
/// the duration of a task.
const FIXED_PERIOD: Duration = Duration::from_secs(5);

/// Back-off state that has not been used for this long is reset, because the cluster may have changed since. Longer than
/// any usual back-off period, so that state of a kind that is still created is not lost.
const BACKOFF_STATE_TTL: Duration = Duration::from_secs(600);

/// The random part of a period: at most a fifth is added. Executors and kinds that were refused at the same time then do not
/// retry at the same time.
const JITTER: Jitter = Jitter { from: 1.0, to: 1.2 };

impl Default for BackoffSettings {
    fn default() -> Self {
        Self { base_seconds: 2, max_duration: Duration::from_secs(20) }
    }
}

impl BackoffSettings {
    /// The length of the period with this exponent, without jitter.
    fn period(&self, exponent: u32) -> Duration {
        if self.base_seconds == 0 {
            return FIXED_PERIOD.min(self.max_duration);
        }
        let backoff = ExponentialBackoff { first: FIRST_PERIOD, factor: self.base_seconds, longest: self.max_duration };
        backoff.pause(exponent.saturating_add(1))
    }
}

impl Backoff {
    /// The state before any refusal.
    #[must_use]
    pub fn new(settings: BackoffSettings) -> Self {
        Self { settings, exponent: 0, period: None, ceilings: Amounts::new() }
    }

    /// The cause of the current back-off period; `None` outside a period.
    #[must_use]
    pub fn active_cause(&self, now: Instant) -> Option<BackoffCause> {
        self.period.filter(|period| now < period.ends_at).map(|period| period.cause)
    }

    /// When the current back-off period ends; `None` outside a period.
    #[must_use]
    pub fn ends_at(&self, now: Instant) -> Option<Instant> {
        self.period.map(|period| period.ends_at).filter(|ends_at| now < *ends_at)
    }

    /// Whether the last period ended so long ago that the state should be dropped.
    #[must_use]
    pub fn is_stale(&self, now: Instant) -> bool {
        let ttl = self.settings.max_duration.max(BACKOFF_STATE_TTL);
        self.period.is_none_or(|period| after(period.ends_at, ttl) <= now)
    }

    /// Whether the state is the same as before any refusal.
    #[must_use]
    pub fn is_reset(&self) -> bool {
        self.period.is_none() && self.ceilings.is_empty()
    }

    /// Whether a create request with these amounts may be sent. Outside a period it always may. During a period for quota
    /// it may if every amount is below what was refused.
    #[must_use]
    pub fn allows(&self, requested: &Amounts, now: Instant) -> bool {
        match self.active_cause(now) {
            None => true,
            Some(BackoffCause::Overload) => false,
            Some(BackoffCause::Quota) => !self.ceilings.is_empty() && self.is_below_ceilings(requested),
        }
    }

    /// Records that a create request was refused. `random` is between 0 and 1 and chooses the jitter.
    ///
    /// A refusal during a period does not start another one: requests that were in flight together are refused for the
    /// same cause. But the period never ends before the time that the API server asked for in `retry_after`.
    pub fn create_refused(
        &mut self,
        cause: BackoffCause,
        refused: &Amounts,
        retry_after: Option<Duration>,
        now: Instant,
        random: f64,
    ) {
        let earliest_end = after(now, retry_after.unwrap_or_default());
        match self.period.as_mut().filter(|period| now < period.ends_at) {
            Some(period) => {
                period.ends_at = period.ends_at.max(earliest_end);
                if cause == BackoffCause::Overload {
                    period.cause = cause;
                }
            }
            None => self.period = Some(self.start_period(cause, earliest_end, now, random)),
        }
        if cause == BackoffCause::Quota {
            self.lower_ceilings(refused);
        }
    }

    /// Records that a create request succeeded. This resets the state, unless the request was below the ceilings of the
    /// current period: such a success says nothing about larger requests.
    pub fn create_succeeded(&mut self, requested: &Amounts, now: Instant) {
        let was_small = self.active_cause(now).is_some() && self.is_below_ceilings(requested);
        if !was_small {
            *self = Self::new(self.settings);
        }
    }

    /// Records that part of the quota became free: a period for quota ends at `retry_at` at the latest, and the next
    /// periods are short again.
    pub fn quota_freed(&mut self, retry_at: Instant) {
        if let Some(period) = self.period.as_mut().filter(|period| period.cause == BackoffCause::Quota) {
            period.ends_at = period.ends_at.min(retry_at);
            self.exponent = 0;
        }
    }

    fn start_period(&mut self, cause: BackoffCause, earliest_end: Instant, now: Instant, random: f64) -> Period {
        let length = self.settings.period(self.exponent);
        // At the maximum the exponent stays, because a larger one would change nothing.
        if length < self.settings.max_duration {
            self.exponent = self.exponent.saturating_add(1);
        }
        let ends_at = after(now, JITTER.applied(length, random));
        Period { ends_at: ends_at.max(earliest_end), cause }
    }

    fn lower_ceilings(&mut self, refused: &Amounts) {
        amounts::lower_to(&mut self.ceilings, refused);
        for (name, amount) in refused {
            self.ceilings.entry(name.clone()).or_insert_with(|| amount.clone());
        }
    }

    fn is_below_ceilings(&self, requested: &Amounts) -> bool {
        self.ceilings.iter().all(|(name, ceiling)| requested.get(name).is_none_or(|amount| amount < ceiling))
    }
}

#[cfg(test)]
mod tests;
