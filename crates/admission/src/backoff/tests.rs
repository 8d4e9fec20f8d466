#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::amounts::of;
use crate::time::testing::at_milli as at;

fn period_lengths(settings: BackoffSettings, count: usize, random: f64) -> Vec<Duration> {
    let mut backoff = Backoff::new(settings);
    let mut now = at(0);
    let mut lengths = Vec::new();
    for _ in 0..count {
        backoff.create_refused(BackoffCause::Quota, &of(&[("pods", "1")]), None, now, random);
        let ends_at = backoff.ends_at(now).unwrap();
        lengths.push(ends_at.duration_since(now));
        now = ends_at;
    }
    lengths
}

#[test]
fn periods_grow_by_the_base_up_to_the_maximum() {
    let seconds: Vec<_> = period_lengths(BackoffSettings::default(), 7, 0.0).iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 20, 20]);
    let ten_minutes = BackoffSettings { base_seconds: 2, max_duration: Duration::from_secs(600) };
    assert_eq!(period_lengths(ten_minutes, 12, 0.0).last(), Some(&Duration::from_secs(600)));
    let growth_off = BackoffSettings { base_seconds: 0, ..BackoffSettings::default() };
    assert_eq!(period_lengths(growth_off, 3, 0.0), [FIXED_PERIOD; 3]);
}

#[test]
fn refusals_of_requests_in_flight_together_start_one_period() {
    let mut backoff = Backoff::new(BackoffSettings::default());
    for _ in 0..20 {
        backoff.create_refused(BackoffCause::Quota, &of(&[("pods", "1")]), None, at(0), 0.0);
    }
    assert_eq!(backoff.ends_at(at(0)), Some(at(1000)));
    backoff.create_refused(BackoffCause::Quota, &of(&[("pods", "1")]), None, at(1000), 0.0);
    assert_eq!(backoff.ends_at(at(1000)), Some(at(3000)));
}

#[test]
fn during_a_quota_period_a_smaller_request_is_allowed_and_an_equal_one_is_not() {
    let mut backoff = Backoff::new(BackoffSettings::default());
    backoff.create_refused(
        BackoffCause::Quota,
        &of(&[("limits.cpu", "700m"), ("limits.memory", "1Gi")]),
        None,
        at(0),
        0.0,
    );
    backoff.create_refused(BackoffCause::Quota, &of(&[("limits.cpu", "500m")]), None, at(1), 0.0);
    let allows = |cpu: &str, memory: &str| {
        backoff.allows(&of(&[("limits.cpu", cpu), ("limits.memory", memory), ("pods", "1")]), at(2))
    };
    assert!(allows("499m", "1Mi"));
    assert!(!allows("500m", "1Mi"), "amounts are compared exactly, also below one unit");
    assert!(!allows("1m", "1Gi"));
    assert!(backoff.allows(&of(&[("pods", "1")]), at(2)), "requests no resource that was refused");
    assert!(allows("1m", "1Mi") && backoff.allows(&of(&[("limits.cpu", "9")]), at(1000)), "the period is over");
}

#[test]
fn overload_and_a_quota_refusal_without_amounts_block_every_request() {
    let mut backoff = Backoff::new(BackoffSettings::default());
    backoff.create_refused(BackoffCause::Overload, &Amounts::new(), None, at(0), 0.0);
    assert!(!backoff.allows(&Amounts::new(), at(1)));
    let mut backoff = Backoff::new(BackoffSettings::default());
    backoff.create_refused(BackoffCause::Quota, &Amounts::new(), None, at(0), 0.0);
    assert!(!backoff.allows(&of(&[("pods", "1")]), at(1)));
}

#[test]
fn a_period_never_ends_before_retry_after() {
    let mut backoff = Backoff::new(BackoffSettings::default());
    backoff.create_refused(BackoffCause::Overload, &Amounts::new(), Some(Duration::from_secs(60)), at(0), 1.0);
    assert_eq!(backoff.ends_at(at(0)), Some(at(60_000)), "also beyond the maximum");
    backoff.create_refused(BackoffCause::Overload, &Amounts::new(), Some(Duration::from_secs(1)), at(1), 1.0);
    assert_eq!(backoff.ends_at(at(1)), Some(at(60_000)));
}

#[test]
fn freed_quota_shortens_a_period_for_quota_but_not_one_for_overload() {
    let mut backoff = Backoff::new(BackoffSettings::default());
    for now in [0, 2000, 6000] {
        backoff.create_refused(BackoffCause::Quota, &of(&[("pods", "1")]), None, at(now), 0.0);
    }
    backoff.quota_freed(at(6100));
    assert_eq!(backoff.ends_at(at(6000)), Some(at(6100)));
    backoff.create_refused(BackoffCause::Quota, &of(&[("pods", "1")]), None, at(6100), 0.0);
    assert_eq!(backoff.ends_at(at(6100)), Some(at(7100)));
    backoff.create_refused(BackoffCause::Overload, &Amounts::new(), None, at(6200), 0.0);
    backoff.quota_freed(at(6300));
    assert_eq!(backoff.ends_at(at(6200)), Some(at(7100)));
}

proptest! {
    #[test]
    fn periods_never_shrink_and_never_exceed_the_maximum(
        base_seconds in 0_u32..100, max_seconds in 0_u64..100_000, random in 0.0_f64..=1.0, count in 1_usize..80,
    ) {
        let settings = BackoffSettings { base_seconds, max_duration: Duration::from_secs(max_seconds) };
        let mut backoff = Backoff::new(settings);
        let (mut now, mut before) = (at(0), Duration::ZERO);
        for _ in 0..count {
            backoff.create_refused(BackoffCause::Overload, &Amounts::new(), None, now, random);
            let ends_at = backoff.ends_at(now).unwrap_or(now);
            let length = ends_at.duration_since(now);
            prop_assert!(length >= before, "{length:?} after {before:?}");
            prop_assert!(length <= settings.max_duration.mul_f64(JITTER.to) + Duration::from_micros(1));
            (now, before) = (ends_at, length);
        }
    }

    #[test]
    fn a_success_resets_the_state(refusals in 1_usize..20, random in 0.0_f64..=1.0) {
        let mut backoff = Backoff::new(BackoffSettings::default());
        let mut now = at(0);
        for _ in 0..refusals {
            backoff.create_refused(BackoffCause::Quota, &of(&[("pods", "1")]), None, now, random);
            now = backoff.ends_at(now).unwrap();
        }
        backoff.create_succeeded(&of(&[("pods", "1")]), now);
        prop_assert!(backoff.is_reset() && backoff.allows(&of(&[("pods", "9")]), now));
        backoff.create_refused(BackoffCause::Quota, &of(&[("pods", "1")]), None, now, 0.0);
        prop_assert_eq!(backoff.ends_at(now), Some(after(now, Duration::from_secs(1))));
    }

    #[test]
    fn a_request_below_every_refused_amount_is_always_allowed(
        refused in proptest::collection::vec((0_usize..3, 1_i64..1000), 1..20), requested in proptest::collection::vec(0_i64..1000, 3),
    ) {
        let names = ["requests.cpu", "limits.memory", "requests.nvidia.com/gpu"];
        let amount = |milli: i64| format!("{milli}m");
        let mut backoff = Backoff::new(BackoffSettings::default());
        for (name, milli) in &refused {
            backoff.create_refused(BackoffCause::Quota, &of(&[(names[*name], &amount(*milli))]), None, at(0), 0.5);
        }
        let texts: Vec<_> = requested.iter().map(|milli| amount(*milli)).collect();
        let request = of(&names.iter().copied().zip(texts.iter().map(String::as_str)).collect::<Vec<_>>());
        let below = refused.iter().all(|(name, milli)| requested[*name] < *milli);
        prop_assert_eq!(backoff.allows(&request, at(1)), below);
        prop_assert!(backoff.allows(&request, at(10_000)));
    }

    #[test]
    fn the_success_of_a_small_request_does_not_allow_larger_ones(milli in 2_i64..1000) {
        let mut backoff = Backoff::new(BackoffSettings::default());
        let large = of(&[("requests.cpu", &format!("{milli}m"))]);
        backoff.create_refused(BackoffCause::Quota, &large, None, at(0), 0.0);
        backoff.create_succeeded(&of(&[("requests.cpu", "1m")]), at(1));
        prop_assert!(!backoff.allows(&large, at(2)));
    }
}
