//! Which actions get a permit, and in which order.

use aileron_machinery::PendingReason;

use super::*;

#[test]
fn without_quotas_and_refusals_every_action_gets_a_permit_and_no_state_is_kept() {
    let gate = TestGate::new();
    for name in 0..100 {
        assert!(gate.creates(&name.to_string(), pod("1"), at(0)));
    }
    gate.maintain(at(1));
    assert_eq!(gate.namespaces(), 0);
}

#[test]
fn as_many_actions_as_fit_get_a_permit_and_the_others_are_woken_oldest_first() {
    let gate = TestGate::with_settle_time(Duration::from_millis(100));
    gate.quota_changed("ns", &quota(1, &[("pods", "2")], &[("pods", "0")]), at(0));
    let created: Vec<_> =
        ["e", "d", "c", "b", "a"].into_iter().filter(|name| gate.creates(name, pod("1"), at(0))).collect();
    assert_eq!(created, ["e", "d"]);
    let waiting = gate.waits("c", pod("1"), at(0));
    assert_eq!(waiting.reason.code, PendingReason::Quota);
    assert_eq!(waiting.reason.text, "waiting for quota team: requested pods=1, used pods=2, limited pods=2");
    gate.quota_changed("ns", &quota(9, &[("pods", "2")], &[("pods", "2")]), at(100));
    assert_eq!(gate.woken(), Vec::<String>::new());
    gate.quota_changed("ns", &quota(10, &[("pods", "2")], &[("pods", "1")]), at(101));
    gate.wake_due(at(300));
    assert_eq!(gate.woken(), Vec::<String>::new(), "both objects exist, so one is missing from the recount");
    gate.object_ended(&key("e"), &ResourceKind::of::<Pod>(), at(301));
    gate.wake_due(at(500));
    assert_eq!(gate.woken(), Vec::<String>::new(), "the recount may still include e instead of d");
    gate.wake_due(at(501));
    assert_eq!(gate.woken(), ["a"]);
    assert!(!gate.creates("aa", pod("1"), at(501)), "the quota is reserved for the action that was woken");
    assert!(gate.creates("a", pod("1"), at(502)));
    gate.quota_changed("ns", &quota(11, &[("pods", "2")], &[("pods", "2")]), at(600));
    gate.object_ended(&key("d"), &ResourceKind::of::<Pod>(), at(4000));
    gate.quota_changed("ns", &quota(12, &[("pods", "4")], &[("pods", "1")]), at(5000));
    gate.wake_due(at(5099));
    assert_eq!(gate.woken(), Vec::<String>::new(), "the API server does not know of the free quota yet");
    gate.wake_due(at(5100));
    assert_eq!(gate.woken(), ["aa", "b", "c"]);
}

#[test]
fn a_woken_action_that_does_not_ask_in_time_loses_its_reservation() {
    let gate = TestGate::with_pod_quota("1", "1");
    gate.waits("a", pod("1"), at(0));
    gate.waits("b", pod("1"), at(0));
    gate.quota_changed("ns", &quota(2, &[("pods", "1")], &[("pods", "0")]), at(10));
    assert_eq!(gate.woken(), ["a"]);
    assert_eq!(gate.wake_due(at(11)), Some(at(5010)));
    gate.wake_due(at(5010));
    assert_eq!(gate.woken(), ["a", "b"], "the first action is woken again, because its wake-up may have been lost");
    gate.withdraw(&key("b"), at(5011));
    assert!(gate.creates("c", pod("1"), at(5012)), "a withdrawn action releases its reservation at once");
}

#[test]
fn a_small_request_overtakes_a_large_one_until_quota_is_held_for_the_large_one() {
    let gate = TestGate::new();
    gate.quota_changed("ns", &quota(1, &[("requests.cpu", "4")], &[("requests.cpu", "2")]), at(0));
    gate.waits("a-large", pod("3"), at(0));
    assert!(gate.creates("small", pod("1"), at(1)));
    let used = |version, cpu| {
        gate.quota_changed("ns", &quota(version, &[("requests.cpu", "4")], &[("requests.cpu", cpu)]), at(59_000));
    };
    used(2, "3");
    used(3, "2");
    gate.wake_due(at(60_000));
    assert!(!gate.creates("small2", pod("1"), at(60_001)), "quota is held for the large request");
    let waiting = gate.waits("small2", pod("1"), at(60_002));
    assert_eq!(
        waiting.reason.text,
        "waiting behind older tasks for quota team: requested requests.cpu=1, used requests.cpu=2, limited requests.cpu=4"
    );
    gate.wake_due(at(660_000));
    assert_eq!(gate.woken(), ["small2"], "the hold ends");
}

#[test]
fn held_quota_is_given_to_the_action_that_it_is_held_for() {
    let gate = TestGate::new();
    let cpu = |version, used| quota(version, &[("requests.cpu", "4")], &[("requests.cpu", used)]);
    gate.quota_changed("ns", &cpu(1, "4"), at(0));
    gate.waits("a-large", pod("3"), at(0));
    gate.waits("small", pod("1"), at(0));
    gate.quota_changed("ns", &cpu(2, "2"), at(60_000));
    assert_eq!(gate.woken(), Vec::<String>::new());
    gate.quota_changed("ns", &cpu(3, "1"), at(60_001));
    assert_eq!(gate.woken(), ["a-large"]);
    gate.quota_changed("ns", &cpu(4, "0"), at(60_002));
    assert_eq!(gate.woken(), ["small"]);
}

#[test]
fn quota_is_held_again_after_a_break() {
    let gate = TestGate::new();
    let cpu = |version, used| quota(version, &[("requests.cpu", "4")], &[("requests.cpu", used)]);
    gate.quota_changed("ns", &cpu(1, "3"), at(0));
    gate.waits("a-large", pod("4"), at(0));
    let is_held = |second: i64| {
        let name = format!("small{second}");
        let created = gate.creates(&name, pod("1"), at(second * 1000));
        gate.withdraw(&key(&name), at(second * 1000 + 1));
        gate.wake_due(at(second * 1000 + 5000));
        !created
    };
    let seen: Vec<_> = [30, 100, 600, 690, 750, 1300, 1350, 1400].map(|second| (second, is_held(second))).into();
    let expected = [(30, false), (100, true), (600, true), (690, false), (750, true), (1300, true), (1350, false)];
    assert_eq!(seen[..7], expected);
    assert_eq!(seen[7], (1400, true), "and so on in turns");
}

#[test]
fn quota_is_never_held_when_hold_for_is_zero() {
    for hold_after in [Duration::ZERO, Duration::from_secs(60)] {
        let settings =
            GateSettings { hold_after, hold_for: Duration::ZERO, settle: Duration::ZERO, ..GateSettings::default() };
        let gate = TestGate::with_settings(settings);
        gate.quota_changed("ns", &quota(1, &[("requests.cpu", "4")], &[("requests.cpu", "3")]), at(0));
        gate.waits("a-large", pod("4"), at(0));
        assert!(gate.creates("small", pod("1"), at(90_000)), "{hold_after:?}");
    }
}

#[test]
fn a_request_above_the_limit_never_fits_and_one_equal_to_the_limit_waits() {
    let gate = TestGate::new();
    gate.quota_changed("ns", &quota(1, &[("requests.cpu", "4")], &[("requests.cpu", "1")]), at(0));
    assert_eq!(gate.waits("equal", pod("4"), at(0)).reason.code, PendingReason::Quota);
    let Admission::NeverFits(text) = gate.request_permit(&key("more"), pod("4001m"), at(0)) else {
        panic!("it may fit")
    };
    assert!(
        text.ends_with("quota team: requested requests.cpu=4001m, used requests.cpu=1, limited requests.cpu=4"),
        "{text}"
    );
    gate.quota_changed("ns", &quota(2, &[("requests.cpu", "3")], &[("requests.cpu", "1")]), at(1));
    assert_eq!(gate.woken(), ["equal"], "it is woken to learn that it can never fit the lowered quota");
}

#[test]
fn the_cost_of_a_quota_change_does_not_grow_with_the_number_of_waiting_actions() {
    let time_of_changes = |waiting: usize| {
        let gate = TestGate::with_pod_quota("1", "1");
        for number in 0..waiting {
            gate.waits(&format!("{number:05}"), pod("1"), at(0));
        }
        let begin = std::time::Instant::now();
        for version in 2..1_002 {
            let used = if version % 2 == 0 { "1" } else { "2" };
            gate.quota_changed("ns", &quota(version, &[("pods", "1")], &[("pods", used)]), at(1));
        }
        assert!(gate.woken().is_empty());
        begin.elapsed()
    };
    // Looking at all waiting actions each time would take about a thousand times as long. Other programs on the machine may
    // disturb a measurement, so the shortest of three counts.
    let shortest = |waiting| (0..3).map(|_| time_of_changes(waiting)).min().unwrap();
    let (few, many) = (shortest(5), shortest(5_000));
    assert!(many < few * 50, "{few:?} with 5 and {many:?} with 5,000 waiting actions");
}

#[test]
fn an_action_that_the_executor_no_longer_knows_is_forgotten() {
    let gate = TestGate::with_pod_quota("1", "1");
    gate.waits("a", pod("1"), at(0));
    gate.waits("b", pod("1"), at(0));
    gate.waker.unknown.lock().unwrap().insert("a".to_owned());
    gate.maintain(at(1));
    gate.quota_changed("ns", &quota(2, &[("pods", "1")], &[("pods", "0")]), at(2));
    assert_eq!(gate.woken(), ["b"]);
}
