//! What happens after a create request was refused.

use aileron_machinery::PendingReason;

use super::*;
use crate::time::after;

/// Chooses the middle of the jitter.
const RANDOM: f64 = 0.5;

#[test]
fn without_visible_quotas_one_request_at_a_time_probes_after_a_refusal() {
    let gate = TestGate::new();
    let permit = gate.permit("b", pod("1"), at(0));
    let other = gate.permit("c", pod("1"), at(0));
    let waiting = waits_after(permit.refused(&exceeded(), at(0), RANDOM));
    assert_eq!(waiting.reason.text, "waiting for quota team: requested pods=1, used pods=2, limited pods=2");
    assert!(!other.is_valid(at(1)), "a request that was about to be sent is not sent");
    assert_eq!(other.not_sent(at(1)).reason.code, PendingReason::Quota);
    for name in ["d", "a", "e", "f"] {
        gate.waits(name, pod("1"), at(2));
    }
    assert_eq!(gate.woken(), Vec::<String>::new());
    let due = gate.wake_due(at(3)).unwrap();
    assert_eq!(due, at(1100), "one second and half of its jitter");
    assert!(gate.wake_due(due).is_some());
    assert_eq!(gate.woken(), ["a"]);
    assert!(gate.creates("a", pod("1"), due));
    assert_eq!(gate.woken(), ["b", "c"], "after the success two more are permitted");
    let permit = gate.permit("b", pod("1"), due);
    waits_after(permit.refused(&exceeded(), due, RANDOM));
    gate.object_ended(&key("a"), &ResourceKind::of::<Pod>(), due);
    let earlier = gate.wake_due(due).unwrap();
    assert!(earlier <= after(due, Duration::from_millis(200)), "an object ended, so the next request is tried soon");
}

#[test]
fn after_an_overload_no_request_is_sent_before_retry_after() {
    let gate = TestGate::new();
    let permit = gate.permit("a", pod("1"), at(0));
    let busy = ApiError { code: 429, retry_after: Some(Duration::from_secs(9)), ..ApiError::default() };
    let waiting = waits_after(permit.refused(&busy, at(0), RANDOM));
    assert_eq!((waiting.recheck_at, waiting.reason.code), (at(9000), PendingReason::BackOff));
    assert_eq!(
        gate.waits("b", pod("1m"), at(8999)).reason.text,
        "waiting for the API server: the API server has too many requests"
    );
    gate.wake_due(at(9000));
    assert_eq!(gate.woken(), ["a"]);
}

#[test]
fn amounts_that_the_cluster_adds_to_an_object_are_learned_from_the_refusal() {
    let gate = TestGate::new();
    let limits = |version, used| quota(version, &[("limits.cpu", "2")], &[("limits.cpu", used)]);
    gate.quota_changed("ns", &limits(1, "2"), at(0));
    let permit = gate.permit("a", pod("1"), at(0));
    let message = "exceeded quota: team, requested: limits.cpu=1, used: limits.cpu=2, limited: limits.cpu=2";
    let refusal = ApiError { message: message.into(), ..exceeded() };
    waits_after(permit.refused(&refusal, at(0), RANDOM));
    gate.quota_changed("ns", &limits(2, "1500m"), at(1));
    assert_eq!(gate.woken(), Vec::<String>::new(), "half a CPU is not enough");
    gate.quota_changed("ns", &limits(3, "1"), at(2));
    assert_eq!(gate.woken(), ["a"]);
}

#[test]
fn after_another_error_the_action_does_not_wait_and_its_reservation_expires() {
    let gate = TestGate::with_pod_quota("1", "0");
    let permit = gate.permit("a", pod("1"), at(0));
    let forbidden = ApiError { code: 403, reason: "Forbidden".into(), message: "no".into(), retry_after: None };
    assert_eq!(permit.refused(&forbidden, at(0), RANDOM), RefusedCreate::OtherError);
    gate.waits("b", pod("1"), at(1));
    gate.wake_due(at(999));
    assert_eq!(gate.woken(), Vec::<String>::new());
    gate.wake_due(at(1000));
    assert_eq!(
        gate.woken(),
        ["b"],
        "the API server may have counted the object, so the reservation lasts a second longer"
    );
}

#[test]
fn a_back_off_that_is_not_used_for_ten_minutes_is_forgotten() {
    let gate = TestGate::new();
    let permit = gate.permit("a", pod("1"), at(0));
    waits_after(permit.refused(&exceeded(), at(0), RANDOM));
    gate.withdraw(&key("a"), at(1));
    gate.wake_due(at(100_000));
    gate.maintain(at(100_000));
    assert_eq!(gate.namespaces(), 1);
    gate.maintain(at(700_000));
    assert_eq!(gate.namespaces(), 0);
}

#[test]
fn a_permit_that_is_dropped_without_a_result_counts_as_an_object_that_may_exist() {
    let gate = TestGate::with_pod_quota("1", "0");
    drop(gate.permit("a", pod("1"), at(0)));
    gate.waits("b", pod("1"), at(DROPPED_AT));
    gate.wake_due(at(DROPPED_AT + 999));
    assert_eq!(gate.woken(), Vec::<String>::new());
    gate.wake_due(at(DROPPED_AT + 1000));
    assert_eq!(gate.woken(), ["b"]);
}
