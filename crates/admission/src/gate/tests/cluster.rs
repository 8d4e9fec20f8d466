//! Properties of the gate in front of a simulated cluster whose parts learn of changes late.
//!
//! The API server decides with its own copy of the quota. The ResourceQuota controller counts with its own copies of the
//! quota and of the pods.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use proptest::prelude::*;

use super::*;

/// The largest delays, in milliseconds. Each delay is drawn up to its maximum.
#[derive(Clone, Copy, Debug)]
struct Delays {
    /// Of the API server's copy of the quota.
    server: i64,
    /// Of the ResourceQuota controller's copies and its writes.
    controller: i64,
    /// Of the executor's watches and reconcile rounds.
    executor: i64,
    /// One wake-up in this many is lost; 0 for none.
    lost_wakeup: u64,
}

/// What happens at a time. Actions are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An action asks for its permit.
    Ask(usize),
    /// A create request reaches the API server, for the n-th time.
    CreateArrives(usize, u32),
    /// The executor gets the answer to a create request, with the resourceVersion of the object.
    CreateAnswered(usize, u64),
    /// A pod ends.
    PodEnds(usize),
    /// The executor notices the end of a pod.
    EndNoticed(usize),
    /// The ResourceQuota controller recounts, and knows everything up to this time.
    Recount(i64),
    /// The ResourceQuota controller writes the quota, if that still has the version that the recount was based on.
    WriteRecount { counted: i64, base_version: u64 },
    /// The executor's watch shows a state of the quota: version and usage.
    QuotaShown(u64, i64),
    /// Time for `Gate::wake_due`.
    WakeDue,
}

/// A state of the quota.
#[derive(Clone, Copy)]
struct QuotaState {
    since: i64,
    version: u64,
    used: i64,
}

#[derive(Debug, Default)]
struct Outcome {
    done: usize,
    refused: usize,
    conflicts: usize,
    /// The largest number of pods at the same time.
    max_pods: i64,
    ended_at: i64,
}

struct Cluster<'a> {
    gate: &'a TestGate,
    delays: Delays,
    random_state: u64,
    now: i64,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    /// Orders events of the same time.
    planned: u64,
    hard: i64,
    /// How long a pod runs at least.
    pod_runs: i64,
    version: u64,
    /// All states of the quota, the oldest first.
    quota: Vec<QuotaState>,
    /// Changes of the number of pods: time and difference.
    pods: Vec<(i64, i64)>,
    permits: BTreeMap<usize, CreatePermit<'a>>,
    outcome: Outcome,
    /// Until when each component has seen the changes. A copy never goes back in time.
    seen_by_server: i64,
    seen_by_controller: i64,
    shown_to_executor: i64,
    /// Actions in the executor's queue.
    queued: BTreeSet<usize>,
}

impl<'a> Cluster<'a> {
    fn new(gate: &'a TestGate, delays: Delays, hard: i64, pod_runs: i64, seed: u64) -> Self {
        Self {
            gate,
            delays,
            random_state: seed,
            now: 0,
            events: BinaryHeap::new(),
            planned: 0,
            hard,
            pod_runs,
            version: 1,
            quota: vec![QuotaState { since: i64::MIN, version: 1, used: 0 }],
            pods: Vec::new(),
            permits: BTreeMap::new(),
            outcome: Outcome::default(),
            seen_by_server: 0,
            seen_by_controller: 0,
            shown_to_executor: 0,
            queued: BTreeSet::new(),
        }
    }

    /// A number from 0 to `max`, by xorshift: the same sequence for the same seed.
    fn draw(&mut self, max: i64) -> i64 {
        self.random_state ^= self.random_state << 13;
        self.random_state ^= self.random_state >> 7;
        self.random_state ^= self.random_state << 17;
        i64::try_from(self.random_state % u64::try_from(max + 1).unwrap()).unwrap()
    }

    fn plan(&mut self, wait: i64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((self.now + wait, self.planned, event)));
    }

    /// Plans an event after a drawn delay.
    fn plan_within(&mut self, max_delay: i64, event: Event) {
        let delay = self.draw(max_delay);
        self.plan(delay, event);
    }

    fn run(mut self, actions: usize) -> Outcome {
        self.show_quota(1, 0);
        for action in 0..actions {
            self.plan(i64::try_from(action).unwrap() + 1, Event::Ask(action));
        }
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            assert!(time < 3_600_000, "only {} of {actions} actions are done after an hour", self.outcome.done);
            self.now = time;
            self.handle(event);
            if let Some(next) = self.gate.wake_due(at(self.now)) {
                self.plan(self.millis_until(next).max(1), Event::WakeDue);
            }
            self.queue_woken();
            if self.outcome.done == actions {
                break;
            }
        }
        assert_eq!(self.outcome.done, actions, "there are no more events");
        self.outcome.ended_at = self.now;
        self.outcome
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Ask(action) => self.ask(action),
            Event::CreateArrives(action, tries) => self.create_arrives(action, tries),
            Event::CreateAnswered(action, version) => {
                self.permits.remove(&action).unwrap().created(Some(version), at(self.now));
            }
            Event::PodEnds(action) => {
                self.pods.push((self.now, -1));
                self.version += 1;
                self.outcome.done += 1;
                self.plan_within(self.delays.executor, Event::EndNoticed(action));
                // The controller recounts when its own copy shows the end.
                self.plan_within(self.delays.controller, Event::Recount(self.now));
            }
            Event::EndNoticed(action) => {
                self.gate.object_ended(&key(&format!("{action:04}")), &ResourceKind::of::<Pod>(), at(self.now));
            }
            Event::Recount(known) => {
                let delay = self.draw(self.delays.controller);
                self.seen_by_controller = self.seen_by_controller.max(known).max(self.now - delay);
                let seen = self.pods.iter().filter(|(time, _)| *time <= self.seen_by_controller);
                let counted = seen.map(|(_, difference)| difference).sum();
                let base_version = self.quota_at(self.seen_by_controller).version;
                self.plan_within(self.delays.controller / 4, Event::WriteRecount { counted, base_version });
            }
            Event::WriteRecount { counted, base_version } => {
                let latest = self.quota_at(self.now);
                if base_version != latest.version {
                    self.plan(5, Event::Recount(self.seen_by_controller));
                } else if counted != latest.used {
                    self.write_quota(counted);
                }
            }
            Event::QuotaShown(version, used) => self.show_quota(version, used),
            Event::WakeDue => {}
        }
    }

    fn ask(&mut self, action: usize) {
        self.queued.remove(&action);
        if self.permits.contains_key(&action) {
            return;
        }
        match self.gate.request_permit(&key(&format!("{action:04}")), pod("1"), at(self.now)) {
            Admission::Permit(permit) => {
                self.permits.insert(action, permit);
                self.plan_within(self.delays.executor, Event::CreateArrives(action, 0));
            }
            Admission::Wait(waiting) => self.ask_again(action, &waiting),
            Admission::NeverFits(text) => panic!("{text}"),
        }
    }

    fn create_arrives(&mut self, action: usize, tries: u32) {
        if !self.permits[&action].is_valid(at(self.now)) {
            let waiting = self.permits.remove(&action).unwrap().not_sent(at(self.now));
            return self.ask_again(action, &waiting);
        }
        let delay = self.draw(self.delays.server);
        self.seen_by_server = self.seen_by_server.max(self.now - delay);
        let (known, latest) = (self.quota_at(self.seen_by_server), self.quota_at(self.now));
        if known.used + 1 > self.hard {
            self.outcome.refused += 1;
            return self.refuse(action, &exceeded());
        }
        if known.version != latest.version {
            self.outcome.conflicts += 1;
            if tries < 4 {
                return self.plan(40 * (i64::from(tries) + 1), Event::CreateArrives(action, tries + 1));
            }
            let message = "Operation cannot be fulfilled on resourcequotas \"team\": the object has been modified";
            let conflict =
                ApiError { code: 409, reason: "Conflict".into(), message: message.into(), retry_after: None };
            return self.refuse(action, &conflict);
        }
        self.write_quota(latest.used + 1);
        self.seen_by_server = self.now;
        self.version += 1;
        self.pods.push((self.now + 1, 1));
        let pods: i64 = self.pods.iter().map(|(_, difference)| difference).sum();
        self.outcome.max_pods = self.outcome.max_pods.max(pods);
        let answer = 1 + self.draw(self.delays.executor);
        self.plan(answer, Event::CreateAnswered(action, self.version));
        let longer = self.draw(self.pod_runs / 4);
        self.plan(answer + self.pod_runs + longer, Event::PodEnds(action));
    }

    fn refuse(&mut self, action: usize, error: &ApiError) {
        let random = self.draw(1000) as f64 / 1000.0;
        let permit = self.permits.remove(&action).unwrap();
        let waiting = waits_after(permit.refused(error, at(self.now), random));
        self.ask_again(action, &waiting);
    }

    fn ask_again(&mut self, action: usize, waiting: &Waiting) {
        self.plan(self.millis_until(waiting.recheck_at).max(1), Event::Ask(action));
    }

    fn queue_woken(&mut self) {
        for name in self.gate.woken() {
            let action = name.parse().unwrap();
            let one_in = i64::try_from(self.delays.lost_wakeup).unwrap();
            let is_lost = one_in > 0 && self.draw(one_in) == 0;
            // The executor's queue holds each action at most once.
            if !is_lost && self.queued.insert(action) {
                self.plan_within(self.delays.executor, Event::Ask(action));
            }
        }
    }

    fn write_quota(&mut self, used: i64) {
        self.version += 1;
        self.quota.push(QuotaState { since: self.now, version: self.version, used });
        let delay = self.draw(self.delays.executor);
        // A watch shows changes in order.
        self.shown_to_executor = self.shown_to_executor.max(self.now + delay);
        self.plan(self.shown_to_executor - self.now, Event::QuotaShown(self.version, used));
    }

    fn quota_at(&self, time: i64) -> QuotaState {
        *self.quota.iter().rev().find(|state| state.since <= time).unwrap()
    }

    fn show_quota(&self, version: u64, used: i64) {
        let (hard, used) = (self.hard.to_string(), used.to_string());
        self.gate.quota_changed("ns", &quota(version, &[("pods", &hard)], &[("pods", &used)]), at(self.now));
    }

    fn millis_until(&self, time: Instant) -> i64 {
        time.saturating_duration_since(at(self.now)).as_millis() as i64
    }
}

fn simulate(delays: Delays, hard: i64, actions: usize, pod_runs: i64, seed: u64) -> Outcome {
    let gate = TestGate::with_settle_time(Duration::from_millis(150));
    Cluster::new(&gate, delays, hard, pod_runs, seed | 1).run(actions)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// In a healthy cluster no create request is refused, the quota is never exceeded, and little time is lost.
    #[test]
    fn no_request_is_refused_by_a_cluster_with_small_delays(
        hard in 1_i64..30, rounds in 2_usize..6, pod_runs in 200_i64..5000, server in 0_i64..100,
        controller in 0_i64..100, executor in 0_i64..40, seed in any::<u64>(),
    ) {
        let delays = Delays { server, controller, executor, lost_wakeup: 0 };
        let actions = rounds * usize::try_from(hard).unwrap();
        let outcome = simulate(delays, hard, actions, pod_runs, seed);
        prop_assert_eq!(outcome.refused, 0, "{:?}", outcome);
        prop_assert!(outcome.max_pods <= hard, "{:?}", outcome);
        // How long one pod occupies its part of the quota: its run, and until all components have noticed its end.
        let occupied = pod_runs + pod_runs / 4 + 5 * executor + 3 * controller + 450;
        let longest = occupied * i64::try_from(rounds).unwrap() + i64::try_from(actions).unwrap();
        prop_assert!(outcome.ended_at <= longest, "{} ms, expected at most {longest}: {outcome:?}", outcome.ended_at);
    }

    /// However long the delays are, and however many wake-ups are lost: every action gets its pod.
    #[test]
    fn every_action_gets_its_pod_in_a_cluster_with_long_delays(
        hard in 1_i64..10, rounds in 2_usize..8, pod_runs in 1_i64..3000, server in 0_i64..3000,
        controller in 0_i64..5000, executor in 0_i64..1000, lost_wakeup in 0_u64..20, seed in any::<u64>(),
    ) {
        let delays = Delays { server, controller, executor, lost_wakeup };
        let actions = rounds * usize::try_from(hard).unwrap();
        let outcome = simulate(delays, hard, actions, pod_runs, seed);
        prop_assert!(outcome.refused <= 3 * actions, "{:?}", outcome);
    }
}
