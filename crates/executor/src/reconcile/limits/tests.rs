#![allow(clippy::unwrap_used, clippy::panic)]

use aileron_idl::flyteidl2::core::{Backoff, RetryStrategy, TimeoutStrategy};
use aileron_machinery::{Pending, PhaseInfo, TaskInfo};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_000_000_000_000 + millis).unwrap()
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

fn limits(run: i64, queued: i64, deadline: i64) -> TaskMetadata {
    TaskMetadata {
        timeout: Some(seconds(run)),
        timeouts: Some(TimeoutStrategy { queued_timeout: Some(seconds(queued)), deadline: Some(seconds(deadline)) }),
        ..TaskMetadata::default()
    }
}

fn action() -> TaskAction {
    let mut action = TaskAction::new("a", Default::default());
    action.metadata.creation_timestamp = Some(Time(at(0)));
    action
}

/// A status in which these phases were shown at these times.
fn after(phases: &[(PhaseInfo, i64)]) -> TaskActionStatus {
    let mut status = TaskActionStatus { attempts: 1, ..TaskActionStatus::default() };
    for (phase, millis) in phases {
        status.show_phase(phase, at(*millis));
    }
    status
}

fn queued() -> PhaseInfo {
    PhaseInfo::queued("waiting", TaskInfo::at(at(0)))
}

fn running() -> PhaseInfo {
    PhaseInfo::running(TaskInfo::at(at(0)))
}

fn checked(metadata: &TaskMetadata, status: &TaskActionStatus, millis: i64) -> LimitCheck {
    check_limits(Some(metadata), &action(), status, at(millis))
}

/// The time in milliseconds at which a limit is reached that counts from this second.
fn end(began: i64, limit: i64) -> i64 {
    (began + limit) * 1000 + 999
}

#[test]
fn the_run_time_of_an_attempt_is_limited_and_its_time_in_the_queue_does_not_count() {
    let limits = limits(10, 0, 0);
    let status = after(&[(queued(), 0), (running(), 60_300)]);
    assert_eq!(checked(&limits, &status, end(60, 10) - 1), LimitCheck::Within(Some(at(end(60, 10)))));
    let LimitCheck::Exceeded(over) = checked(&limits, &status, end(60, 10)) else { panic!("no limit was reached") };
    assert_eq!((over.error.code.as_str(), over.ends_action, over.before_start), ("MAX_RUNTIME_EXCEEDED", false, false));
    assert_eq!(over.error.message, "attempt 1 ran for 10s, the longest that the task allows, and was stopped");
    assert_eq!(checked(&limits, &after(&[(queued(), 0)]), 90_000), LimitCheck::Within(None));
}

#[test]
fn the_error_of_a_queue_timeout_names_what_the_attempt_waited_for() {
    let limits = limits(0, 5, 0);
    assert_eq!(checked(&limits, &TaskActionStatus::default(), 2), LimitCheck::Within(Some(at(end(0, 5)))));
    let mut status = after(&[(queued(), 0)]);
    status.show_pending(Some(&Pending::new(PendingReason::Quota, "waiting for quota q")), at(1));
    let LimitCheck::Exceeded(over) = checked(&limits, &status, end(0, 5)) else { panic!("no limit was reached") };
    assert_eq!(over.error.code, "QUEUED_TIMEOUT_EXCEEDED");
    assert!(over.before_start && !over.ends_action && over.error.message.ends_with("task allows: waiting for quota q"));
    assert_eq!(checked(&limits, &after(&[(queued(), 0), (running(), 2)]), 9000), LimitCheck::Within(None));
}

#[test]
fn the_deadline_counts_for_all_attempts_together() {
    let limits = limits(10, 10, 20);
    let mut status = after(&[(queued(), 0), (running(), 2000), (queued(), 15_000)]);
    status.attempts = 2;
    assert_eq!(checked(&limits, &status, 16_000), LimitCheck::Within(Some(at(end(0, 20)))));
    assert!(matches!(
        checked(&limits, &status, end(0, 20)),
        LimitCheck::Exceeded(LimitExceeded { ends_action: true, .. })
    ));
}

#[test]
fn the_pause_before_a_retry_grows_to_its_cap_and_does_not_count_as_time_in_the_queue() {
    let backoff = Backoff { base: Some(seconds(1)), factor: Some(2.0), cap: Some(seconds(5)) };
    let mut metadata = limits(0, 3, 0);
    metadata.retries = Some(RetryStrategy { retries: 9, backoff: Some(backoff) });
    let pauses: Vec<_> = (1..6).map(|attempt| retry_pause(Some(&metadata), attempt).as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 5, 5]);
    assert_eq!(retry_pause(Some(&TaskMetadata::default()), 3), SignedDuration::ZERO);

    let retried = queued().because(PendingReason::Retry);
    let mut status = after(&[(queued(), 0), (running(), 2000), (retried, 10_000)]);
    status.attempts = 3;
    assert_eq!(retry_pause_end(Some(&metadata), &status), Some(at(end(10, 2))));
    assert_eq!(checked(&metadata, &status, 10_002), LimitCheck::Within(Some(at(end(10, 5)))));
    status.show_phase(&queued(), at(12_001));
    assert_eq!(retry_pause_end(Some(&metadata), &status), None);
    assert_eq!(checked(&metadata, &status, 12_002), LimitCheck::Within(Some(at(end(10, 5)))));
}

#[test]
fn without_limits_no_time_is_named() {
    let status = after(&[(queued(), 1), (running(), 2)]);
    assert_eq!(checked(&limits(0, 0, 0), &status, i64::from(i32::MAX)), LimitCheck::Within(None));
    assert_eq!(checked(&limits(-5, -5, -5), &status, 10_000), LimitCheck::Within(None));
    assert_eq!(check_limits(None, &action(), &status, at(1)), LimitCheck::Within(None));
}

proptest! {
    /// For all settings of a task: no pause is negative, none exceeds the cap, and none is shorter than the one before.
    #[test]
    fn pauses_are_in_order(
        base in any::<i64>(), nanos in any::<i32>(), factor in any::<f64>(), cap in proptest::option::of(0_i64..1_000_000),
        attempt in 1_u32..5000,
    ) {
        let backoff = Backoff {
            base: Some(prost_types::Duration { seconds: base, nanos }),
            factor: Some(factor),
            cap: cap.map(seconds),
        };
        let retries = Some(RetryStrategy { retries: 1, backoff: Some(backoff) });
        let metadata = TaskMetadata { retries, ..TaskMetadata::default() };
        let (one, next) = (retry_pause(Some(&metadata), attempt), retry_pause(Some(&metadata), attempt + 1));
        prop_assert!(!one.is_negative() && one <= next);
        if let Some(cap) = cap {
            prop_assert!(next <= SignedDuration::from_secs(cap));
        }
    }

    /// The result of a check stays the same until the time that it names, and not longer.
    #[test]
    fn a_check_changes_at_the_time_it_names(
        run in 0_i64..50, queued_for in 0_i64..50, deadline in 0_i64..90, started in proptest::option::of(0_i64..60_000),
        now in 0_i64..120_000,
    ) {
        let limits = limits(run, queued_for, deadline);
        let mut phases = vec![(queued(), 0)];
        phases.extend(started.map(|millis| (running(), millis + 2)));
        let status = after(&phases);
        if let LimitCheck::Within(Some(until)) = checked(&limits, &status, now) {
            prop_assert!(until > at(now));
            let before = until.checked_sub(SignedDuration::from_millis(1)).unwrap();
            prop_assert_eq!(check_limits(Some(&limits), &action(), &status, before), LimitCheck::Within(Some(until)));
            prop_assert!(!matches!(check_limits(Some(&limits), &action(), &status, until), LimitCheck::Within(_)));
        }
    }
}
