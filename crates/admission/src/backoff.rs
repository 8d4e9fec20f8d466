//! How long creates of one kind in one namespace pause after the cluster refused one.
//!
//! A state machine without a clock of its own: every call says what time it is, and the random part of a pause is
//! handed in.

use std::time::Duration;

use aileron_machinery::backoff::{ExponentialBackoff, Jitter};
use jiff::{SignedDuration, Timestamp};

use crate::amounts::Amounts;

/// What the operator may set: `tasks.backoff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffSettings {
    /// `base-second`: the n-th pause is this to the power of n, in seconds. Zero switches the growth off.
    pub base: u32,
    /// `max-duration`: the longest pause.
    pub longest: Duration,
}

/// Why creates pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A quota was used up. A smaller request may fit.
    Quota,
    /// The server has too much to do. Any request adds to that.
    Overload,
}

/// Pauses that grow with each refusal, and the amounts that were refused.
///
/// # Differs from upstream
///
/// Flyte 2's executor has no back-off. Against Flyte 1's: it is kept for every kind, not only for pods; every resource of
/// a refusal becomes a ceiling, compared exactly; overload honours the timer alone; pauses have a random part; a success
/// below the ceilings leaves the timer alone, since it says nothing about larger requests. And with `base-second` zero a
/// refused create waits a fixed pause, where Flyte 1 tries again at every look.
#[derive(Clone, Debug)]
pub struct Backoff {
    settings: BackoffSettings,
    exponent: u32,
    pause: Option<Pause>,
    ceilings: Amounts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    until: Timestamp,
    cause: Cause,
}

/// The pause after the first refusal: any base to the power of zero, in seconds.
const FIRST: Duration = Duration::from_secs(1);

/// A pause where growth is switched off: long enough not to be a burden on the server, short enough not to be noticed in
/// the length of a task.
const FIXED: Duration = Duration::from_secs(5);

/// After a pause nobody who wants the same kind of object came for so long that the cluster may be another one.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// The random part of a pause, so that executors and kinds that were refused together do not come back together.
pub const JITTER: Jitter = Jitter { from: 1.0, to: 1.2 };

impl Default for BackoffSettings {
    fn default() -> Self {
        Self { base: 2, longest: Duration::from_secs(20) }
    }
}

impl BackoffSettings {
    /// The pause after so many refusals before, without its random part.
    fn pause(&self, exponent: u32) -> Duration {
        if self.base == 0 {
            return FIXED.min(self.longest);
        }
        let backoff = ExponentialBackoff { first: FIRST, factor: self.base, longest: self.longest };
        backoff.pause(exponent.saturating_add(1))
    }
}

impl Backoff {
    /// No pause.
    #[must_use]
    pub fn new(settings: BackoffSettings) -> Self {
        Self { settings, exponent: 0, pause: None, ceilings: Amounts::new() }
    }

    /// Whether a pause is under way, and why.
    #[must_use]
    pub fn running(&self, now: Timestamp) -> Option<Cause> {
        self.pause.filter(|pause| now < pause.until).map(|pause| pause.cause)
    }

    /// When the pause ends, if one is under way.
    #[must_use]
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        self.pause.map(|pause| pause.until).filter(|until| now < *until)
    }

    /// The last pause ended so long ago that it says nothing any more.
    #[must_use]
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        self.pause.is_none_or(|pause| later(pause.until, self.settings.longest.max(FORGOTTEN)) <= now)
    }

    /// Nothing is remembered: as if nothing had ever been refused.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.pause.is_none() && self.ceilings.is_empty()
    }

    /// Whether a request may be tried: always when no pause is under way, and during one for quota if it asks for less
    /// of everything than what was refused.
    #[must_use]
    pub fn admits(&self, request: &Amounts, now: Timestamp) -> bool {
        match self.running(now) {
            None => true,
            Some(Cause::Overload) => false,
            Some(Cause::Quota) => !self.ceilings.is_empty() && self.is_below_ceilings(request),
        }
    }

    /// A create was refused. `random` is between zero and one.
    ///
    /// A pause that is under way stays as it is, whatever the number of creates that were on their way: one cause is one
    /// refusal. But the server's own wish about when to come back always counts.
    pub fn refused(
        &mut self,
        cause: Cause,
        amounts: &Amounts,
        at_least: Option<Duration>,
        now: Timestamp,
        random: f64,
    ) {
        let floor = at_least.map(|wait| later(now, wait));
        match self.pause.as_mut().filter(|pause| now < pause.until) {
            Some(pause) => {
                pause.until = floor.map_or(pause.until, |floor| floor.max(pause.until));
                if cause == Cause::Overload {
                    pause.cause = cause;
                }
            }
            None => {
                let length = self.settings.pause(self.exponent);
                // At the cap there is nothing left to grow; going on would only overflow.
                if length < self.settings.longest {
                    self.exponent = self.exponent.saturating_add(1);
                }
                let until = later(now, JITTER.applied(length, random));
                self.pause = Some(Pause { until: floor.map_or(until, |floor| floor.max(until)), cause });
            }
        }
        if cause == Cause::Quota {
            for (name, amount) in amounts {
                if self.ceilings.get(name).is_none_or(|ceiling| amount < ceiling) {
                    self.ceilings.insert(name.clone(), amount.clone());
                }
            }
        }
    }

    /// A create went through.
    pub fn succeeded(&mut self, request: &Amounts, now: Timestamp) {
        let proves_little = self.running(now).is_some() && self.is_below_ceilings(request);
        if !proves_little {
            *self = Self::new(self.settings);
        }
    }

    /// Something of the quota became free: the schedule begins anew, with a first try at `at`.
    pub fn freed(&mut self, at: Timestamp) {
        if let Some(pause) = self.pause.as_mut().filter(|pause| pause.cause == Cause::Quota) {
            pause.until = pause.until.min(at);
            self.exponent = 0;
        }
    }

    fn is_below_ceilings(&self, request: &Amounts) -> bool {
        self.ceilings.iter().all(|(name, ceiling)| request.get(name).is_none_or(|amount| amount < ceiling))
    }
}

/// A moment after another; the end of time if there is none.
pub fn later(now: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::amounts::of;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn pauses(settings: BackoffSettings, count: usize, random: f64) -> Vec<Duration> {
        let mut backoff = Backoff::new(settings);
        let mut now = at(0);
        let mut lengths = Vec::new();
        for _ in 0..count {
            backoff.refused(Cause::Quota, &of(&[("pods", "1")]), None, now, random);
            let until = backoff.until(now).unwrap();
            lengths.push(Duration::try_from(until.duration_since(now)).unwrap());
            now = until;
        }
        lengths
    }

    #[test]
    fn pauses_grow_by_the_base_up_to_the_longest() {
        let seconds: Vec<_> = pauses(BackoffSettings::default(), 7, 0.0).iter().map(Duration::as_secs).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 20, 20]);
        let ten_minutes = BackoffSettings { base: 2, longest: Duration::from_secs(600) };
        assert_eq!(pauses(ten_minutes, 12, 0.0).last(), Some(&Duration::from_secs(600)));
        let off = BackoffSettings { base: 0, ..BackoffSettings::default() };
        assert_eq!(pauses(off, 3, 0.0), [FIXED; 3]);
    }

    #[test]
    fn refusals_on_their_way_together_are_one_refusal() {
        let mut backoff = Backoff::new(BackoffSettings::default());
        for _ in 0..20 {
            backoff.refused(Cause::Quota, &of(&[("pods", "1")]), None, at(0), 0.0);
        }
        assert_eq!(backoff.until(at(0)), Some(at(1000)));
        backoff.refused(Cause::Quota, &of(&[("pods", "1")]), None, at(1000), 0.0);
        assert_eq!(backoff.until(at(1000)), Some(at(3000)));
    }

    #[test]
    fn a_smaller_request_may_try_and_an_equal_one_may_not() {
        let mut backoff = Backoff::new(BackoffSettings::default());
        backoff.refused(Cause::Quota, &of(&[("limits.cpu", "700m"), ("limits.memory", "1Gi")]), None, at(0), 0.0);
        backoff.refused(Cause::Quota, &of(&[("limits.cpu", "500m")]), None, at(1), 0.0);
        let tries = |cpu: &str, memory: &str| {
            backoff.admits(&of(&[("limits.cpu", cpu), ("limits.memory", memory), ("pods", "1")]), at(2))
        };
        assert!(tries("499m", "1Mi"));
        assert!(!tries("500m", "1Mi"), "a fraction of a unit counts");
        assert!(!tries("1m", "1Gi"));
        assert!(backoff.admits(&of(&[("pods", "1")]), at(2)), "asks for nothing that was refused");
        assert!(tries("1m", "1Mi") && backoff.admits(&of(&[("limits.cpu", "9")]), at(1000)), "the pause is over");
    }

    #[test]
    fn overload_and_an_unreadable_refusal_hold_everybody() {
        let mut backoff = Backoff::new(BackoffSettings::default());
        backoff.refused(Cause::Overload, &Amounts::new(), None, at(0), 0.0);
        assert!(!backoff.admits(&Amounts::new(), at(1)));
        let mut backoff = Backoff::new(BackoffSettings::default());
        backoff.refused(Cause::Quota, &Amounts::new(), None, at(0), 0.0);
        assert!(!backoff.admits(&of(&[("pods", "1")]), at(1)));
    }

    #[test]
    fn the_server_says_when_to_come_back_at_the_earliest() {
        let mut backoff = Backoff::new(BackoffSettings::default());
        backoff.refused(Cause::Overload, &Amounts::new(), Some(Duration::from_secs(60)), at(0), 1.0);
        assert_eq!(backoff.until(at(0)), Some(at(60_000)), "also beyond the cap");
        backoff.refused(Cause::Overload, &Amounts::new(), Some(Duration::from_secs(1)), at(1), 1.0);
        assert_eq!(backoff.until(at(1)), Some(at(60_000)));
    }

    #[test]
    fn freed_quota_begins_the_schedule_anew_but_not_that_of_an_overloaded_server() {
        let mut backoff = Backoff::new(BackoffSettings::default());
        for now in [0, 2000, 6000] {
            backoff.refused(Cause::Quota, &of(&[("pods", "1")]), None, at(now), 0.0);
        }
        backoff.freed(at(6100));
        assert_eq!(backoff.until(at(6000)), Some(at(6100)));
        backoff.refused(Cause::Quota, &of(&[("pods", "1")]), None, at(6100), 0.0);
        assert_eq!(backoff.until(at(6100)), Some(at(7100)));
        backoff.refused(Cause::Overload, &Amounts::new(), None, at(6200), 0.0);
        backoff.freed(at(6300));
        assert_eq!(backoff.until(at(6200)), Some(at(7100)));
    }

    proptest! {
        #[test]
        fn pauses_never_shrink_and_never_exceed_the_cap(
            base in 0_u32..100, cap in 0_u64..100_000, random in 0.0_f64..=1.0, count in 1_usize..80,
        ) {
            let settings = BackoffSettings { base, longest: Duration::from_secs(cap) };
            let mut backoff = Backoff::new(settings);
            let (mut now, mut before) = (at(0), Duration::ZERO);
            for _ in 0..count {
                backoff.refused(Cause::Overload, &Amounts::new(), None, now, random);
                let until = backoff.until(now).unwrap_or(now);
                let length = Duration::try_from(until.duration_since(now)).unwrap();
                prop_assert!(length >= before, "{length:?} after {before:?}");
                prop_assert!(length <= settings.longest.mul_f64(JITTER.to) + Duration::from_micros(1));
                (now, before) = (until, length);
            }
        }

        #[test]
        fn a_success_forgets_everything(refusals in 1_usize..20, random in 0.0_f64..=1.0) {
            let mut backoff = Backoff::new(BackoffSettings::default());
            let mut now = at(0);
            for _ in 0..refusals {
                backoff.refused(Cause::Quota, &of(&[("pods", "1")]), None, now, random);
                now = backoff.until(now).unwrap();
            }
            backoff.succeeded(&of(&[("pods", "1")]), now);
            prop_assert!(backoff.is_clear() && backoff.admits(&of(&[("pods", "9")]), now));
            backoff.refused(Cause::Quota, &of(&[("pods", "1")]), None, now, 0.0);
            prop_assert_eq!(backoff.until(now), Some(later(now, Duration::from_secs(1))));
        }

        #[test]
        fn what_is_below_all_that_was_refused_is_never_held_back(
            refused in proptest::collection::vec((0_usize..3, 1_i64..1000), 1..20), ask in proptest::collection::vec(0_i64..1000, 3),
        ) {
            let names = ["requests.cpu", "limits.memory", "requests.nvidia.com/gpu"];
            let amount = |milli: i64| format!("{milli}m");
            let mut backoff = Backoff::new(BackoffSettings::default());
            for (name, milli) in &refused {
                backoff.refused(Cause::Quota, &of(&[(names[*name], &amount(*milli))]), None, at(0), 0.5);
            }
            let texts: Vec<_> = ask.iter().map(|milli| amount(*milli)).collect();
            let request = of(&names.iter().copied().zip(texts.iter().map(String::as_str)).collect::<Vec<_>>());
            let below = refused.iter().all(|(name, milli)| ask[*name] < *milli);
            prop_assert_eq!(backoff.admits(&request, at(1)), below);
            prop_assert!(backoff.admits(&request, at(10_000)));
        }

        #[test]
        fn a_small_success_does_not_let_large_requests_through(milli in 2_i64..1000) {
            let mut backoff = Backoff::new(BackoffSettings::default());
            let large = of(&[("requests.cpu", &format!("{milli}m"))]);
            backoff.refused(Cause::Quota, &large, None, at(0), 0.0);
            backoff.succeeded(&of(&[("requests.cpu", "1m")]), at(1));
            prop_assert!(!backoff.admits(&large, at(2)));
        }
    }
}
