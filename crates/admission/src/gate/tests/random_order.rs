//! A property of the gate: whatever the order of events, no create request is refused and no action waits for ever.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;

/// An API server that counts usage exactly, and whose watch is late.
struct Server {
    hard: i64,
    used: i64,
    version: u64,
    /// Actions with an object, and the CPUs that it uses.
    running: Vec<(usize, i64)>,
    /// States of the quota that the watch has not delivered yet.
    watch: VecDeque<Quota>,
}

impl Server {
    fn write_quota(&mut self) {
        self.version += 1;
        let (hard, used) = (self.hard.to_string(), self.used.to_string());
        self.watch.push_back(quota(self.version, &[("requests.cpu", &hard)], &[("requests.cpu", &used)]));
    }

    /// Writes the usage first and then the object. Returns the resourceVersion of the object; `None` if it is refused.
    fn create(&mut self, action: usize, cpu: i64) -> Option<u64> {
        if self.used + cpu > self.hard {
            return None;
        }
        self.used += cpu;
        self.running.push((action, cpu));
        self.write_quota();
        self.version += 1;
        Some(self.version)
    }

    /// Ends the object of an action. Returns the action.
    fn end(&mut self, index: usize) -> usize {
        let (action, cpu) = self.running.remove(index % self.running.len());
        self.used -= cpu;
        self.write_quota();
        action
    }
}

/// Makes the actions that were woken ask next. `waiting` has the actions that wait, and whether each was woken.
fn ask_woken(gate: &TestGate, waiting: &mut BTreeMap<usize, bool>, ready: &mut VecDeque<usize>) {
    for name in gate.woken() {
        let action = name.parse().unwrap();
        if let Some(is_woken) = waiting.get_mut(&action) {
            *is_woken = true;
            // The executor's queue holds each action at most once.
            if !ready.contains(&action) {
                ready.push_front(action);
            }
        }
    }
}

proptest! {
    /// Whatever the order in which actions ask, objects end and the watch delivers: no create request is refused, every
    /// action gets its permit, and among equal requests no waiting action is overtaken.
    #[test]
    fn no_request_is_refused_and_every_action_gets_a_permit(
        hard in 3_i64..10, sizes in proptest::collection::vec(1_i64..=3, 1..30), equal in any::<bool>(),
        steps in proptest::collection::vec((0_u8..3, any::<usize>()), 0..200),
    ) {
        let gate = TestGate::with_settle_time(GateSettings::default().settle);
        let mut server = Server { hard, used: 0, version: 0, running: Vec::new(), watch: VecDeque::new() };
        server.write_quota();
        gate.quota_changed("ns", &server.watch.pop_front().unwrap(), at(0));
        let size = |action: usize| if equal { 1 } else { sizes[action] };
        // Actions that ask next: those that have not asked yet, and those that were woken.
        let mut ready: VecDeque<usize> = (0..sizes.len()).collect();
        let mut waiting: BTreeMap<usize, bool> = BTreeMap::new();
        let mut created = 0;
        let mut now = 0;
        let finish = std::iter::repeat_n([(2, 0), (0, 0), (1, 0), (2, 0)], sizes.len() * 8).flatten();
        for (step, choice) in steps.into_iter().chain(finish) {
            // 350 ms is longer than the recount after an end takes. The watch is never late by as much as the gate
            // waits for it.
            now += if server.watch.is_empty() { 350 } else { 1 };
            gate.wake_due(at(now));
            ask_woken(&gate, &mut waiting, &mut ready);
            match step {
                0 if !ready.is_empty() => {
                    let action = ready.remove(choice % ready.len()).unwrap();
                    let cpu = size(action);
                    let request = pod(&cpu.to_string());
                    match gate.request_permit(&key(&format!("{action:03}")), request, at(now)) {
                        Admission::Permit(permit) => {
                            let version = server.create(action, cpu);
                            prop_assert!(version.is_some(), "the gate permitted a create request that is refused");
                            permit.created(version, at(now));
                            created += 1;
                            let was_waiting = waiting.remove(&action).is_some();
                            if equal && !was_waiting {
                                prop_assert!(waiting.values().all(|woken| *woken), "a waiting action was overtaken");
                            }
                        }
                        Admission::Wait(_) => { waiting.insert(action, false); }
                        Admission::NeverFits(text) => prop_assert!(false, "{}", text),
                    }
                }
                1 if !server.running.is_empty() => {
                    let ended = server.end(choice);
                    gate.object_ended(&key(&format!("{ended:03}")), &ResourceKind::of::<Pod>(), at(now));
                }
                _ => if let Some(quota) = server.watch.pop_front() {
                    gate.quota_changed("ns", &quota, at(now));
                },
            }
            ask_woken(&gate, &mut waiting, &mut ready);
        }
        prop_assert_eq!(created, sizes.len());
    }
}
