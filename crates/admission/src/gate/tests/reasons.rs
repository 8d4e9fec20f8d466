//! Which reason a waiting action reports, and when the reported reason changes.

use super::*;

#[test]
fn another_obstacle_is_reported_once_it_has_lasted_ten_seconds() {
    let gate = TestGate::with_pod_quota("1", "1");
    let first = gate.waits("a", pod("1"), at(0));
    assert!(first.reason.text.contains("quota team"));
    gate.maintain(at(20_000));
    gate.quota_changed(
        "ns",
        &Quota::without_scopes("other", 5, of(&[("requests.cpu", "1")]), of(&[("requests.cpu", "1")])),
        at(20_001),
    );
    for now in [20_002, 25_000] {
        gate.maintain(at(now));
        assert_eq!(gate.woken(), Vec::<String>::new(), "the obstacle may pass");
    }
    gate.maintain(at(31_000));
    assert_eq!(gate.woken(), ["a"]);
    let second = gate.waits("a", pod("1"), at(31_001));
    assert!(
        second.reason.text.contains("quota other") && second.reason.text.contains("quota team"),
        "{}",
        second.reason.text
    );
    gate.maintain(at(60_000));
    assert_eq!(gate.woken(), Vec::<String>::new(), "the reason is up to date");
    assert_eq!(
        gate.waits("a", pod("1"), first.recheck_at).reason,
        second.reason,
        "a recheck alone does not change the reason"
    );
}

#[test]
fn at_most_fifty_actions_at_a_time_are_woken_to_report_another_reason() {
    let gate = TestGate::with_pod_quota("1", "1");
    for number in 0..120 {
        gate.waits(&format!("{number:03}"), pod("1"), at(0));
    }
    gate.quota_changed(
        "ns",
        &Quota::without_scopes("other", 5, of(&[("requests.cpu", "1")]), of(&[("requests.cpu", "1")])),
        at(1),
    );
    let mut counts = Vec::new();
    for round in 0..6 {
        gate.maintain(at(1000 + round * 10_000));
        let woken = gate.woken();
        counts.push(woken.len());
        for name in woken {
            gate.waits(&name, pod("1"), at(1001 + round * 10_000));
        }
    }
    assert_eq!(counts, [0, 50, 50, 20, 0, 0]);
}
