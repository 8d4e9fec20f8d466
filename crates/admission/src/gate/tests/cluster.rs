//! The gate before a cluster whose parts hear of each other late: the API server decides by its own copy of the quota,
//! and the controller that counts usage by its own copies of quota and pods.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::super::permit::{CreatePermit, Refused};
use super::*;

/// How late things are at most, in milliseconds. How late each is, is drawn.
#[derive(Clone, Copy, Debug)]
struct Lags {
    /// The server's copy of the quota.
    server: i64,
    /// The counting controller's copies, and its writes.
    counter: i64,
    /// The executor's watches, and its rounds.
    executor: i64,
    /// A call is lost once in so many; never for zero.
    lost: u64,
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize),
    Arrive(usize, u32),
    Answer(usize, u64),
    End(usize),
    NoticeEnd(usize),
    /// The controller counts, and knows of everything up to this time.
    Count(i64),
    Write {
        counted: i64,
        on: u64,
    },
    News(u64, i64),
    Due,
}

#[derive(Debug, Default)]
struct Outcome {
    done: usize,
    refused: usize,
    most_refused: usize,
    conflicts: usize,
    most_live: i64,
    ended_at: i64,
}

struct Cluster<'a> {
    world: &'a World,
    lags: Lags,
    dice: u64,
    now: i64,
    agenda: BinaryHeap<std::cmp::Reverse<(i64, u64, Event)>>,
    planned: u64,
    hard: i64,
    life: i64,
    version: u64,
    /// All states of the quota: when, version, usage.
    quota: Vec<(i64, u64, i64)>,
    /// What became of the number of pods: when, by how much.
    pods: Vec<(i64, i64)>,
    passes: BTreeMap<usize, CreatePermit<'a>>,
    refusals: BTreeMap<usize, usize>,
    outcome: Outcome,
    /// Copies only move on.
    seen_by_server: i64,
    seen_by_counter: i64,
    told_executor: i64,
    asked: BTreeSet<usize>,
}

impl<'a> Cluster<'a> {
    fn new(world: &'a World, lags: Lags, hard: i64, life: i64, dice: u64) -> Self {
        Self {
            world,
            lags,
            dice,
            now: 0,
            agenda: BinaryHeap::new(),
            planned: 0,
            hard,
            life,
            version: 1,
            quota: vec![(i64::MIN, 1, 0)],
            pods: Vec::new(),
            passes: BTreeMap::new(),
            refusals: BTreeMap::new(),
            outcome: Outcome::default(),
            seen_by_server: 0,
            seen_by_counter: 0,
            told_executor: 0,
            asked: BTreeSet::new(),
        }
    }

    /// Xorshift: good enough to disturb, and the same in every run.
    fn draw(&mut self, most: i64) -> i64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        i64::try_from(self.dice % u64::try_from(most + 1).unwrap()).unwrap()
    }

    fn plan(&mut self, wait: i64, event: Event) {
        self.planned += 1;
        self.agenda.push(std::cmp::Reverse((self.now + wait, self.planned, event)));
    }

    fn run(mut self, tasks: usize) -> Outcome {
        self.news(1, 0);
        for task in 0..tasks {
            let wait = i64::try_from(task).unwrap() + 1;
            self.plan(wait, Event::Ask(task));
        }
        while let Some(std::cmp::Reverse((time, _, event))) = self.agenda.pop() {
            assert!(time < 3_600_000, "{} of {tasks} are done after an hour", self.outcome.done);
            self.now = time;
            self.happen(event);
            if let Some(due) = self.world.gate.call_due(at(self.now)) {
                let wait = due.duration_since(at(self.now)).as_millis() as i64;
                self.plan(wait.max(1), Event::Due);
            }
            self.wake();
            if self.outcome.done == tasks {
                break;
            }
        }
        assert_eq!(self.outcome.done, tasks, "nothing happens any more");
        self.outcome.ended_at = self.now;
        self.outcome.most_refused = self.refusals.values().copied().max().unwrap_or_default();
        self.outcome
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Ask(task) => {
                self.asked.remove(&task);
                if self.passes.contains_key(&task) {
                    return;
                }
                match self.world.gate.ask(&key(&format!("{task:04}")), pod("1"), at(self.now)) {
                    Answer::Go(pass) => {
                        self.passes.insert(task, pass);
                        let wait = self.draw(self.lags.executor);
                        self.plan(wait, Event::Arrive(task, 0));
                    }
                    Answer::Wait(waiting) => self.look_again(task, &waiting),
                    Answer::Never(text) => panic!("{text}"),
                }
            }
            Event::Arrive(task, tries) => self.arrive(task, tries),
            Event::Answer(task, version) => {
                self.passes.remove(&task).unwrap().created(Some(version), at(self.now));
            }
            Event::End(task) => {
                self.pods.push((self.now, -1));
                self.version += 1;
                self.outcome.done += 1;
                let notice = self.draw(self.lags.executor);
                self.plan(notice, Event::NoticeEnd(task));
                // The controller counts when its own copy shows the end.
                let count = self.draw(self.lags.counter);
                self.plan(count, Event::Count(self.now));
            }
            Event::NoticeEnd(task) => {
                self.world.gate.freed(&key(&format!("{task:04}")), &ResourceKind::of::<Pod>(), at(self.now));
            }
            Event::Count(known) => {
                let late = self.draw(self.lags.counter);
                self.seen_by_counter = self.seen_by_counter.max(known).max(self.now - late);
                let counted =
                    self.pods.iter().filter(|(when, _)| *when <= self.seen_by_counter).map(|(_, by)| by).sum();
                let on = self.copy(self.seen_by_counter).1;
                let write = self.draw(self.lags.counter / 4);
                self.plan(write, Event::Write { counted, on });
            }
            Event::Write { counted, on } => {
                let (_, latest, used) = self.copy(self.now);
                if on != latest {
                    self.plan(5, Event::Count(self.seen_by_counter));
                } else if counted != used {
                    self.write(counted);
                }
            }
            Event::News(version, used) => self.news(version, used),
            Event::Due => {}
        }
    }

    /// A create is at the server.
    fn arrive(&mut self, task: usize, tries: u32) {
        if !self.passes[&task].holds(at(self.now)) {
            let waiting = self.passes.remove(&task).unwrap().held_back(at(self.now));
            return self.look_again(task, &waiting);
        }
        let late = self.draw(self.lags.server);
        self.seen_by_server = self.seen_by_server.max(self.now - late);
        let (_, known, believed) = self.copy(self.seen_by_server);
        let (_, latest, used) = self.copy(self.now);
        if believed + 1 > self.hard {
            self.outcome.refused += 1;
            *self.refusals.entry(task).or_default() += 1;
            let Refused::Wait(waiting) = self.passes.remove(&task).unwrap().refused(&exceeded(), at(self.now)) else {
                panic!("a refused create does not wait")
            };
            return self.look_again(task, &waiting);
        }
        if known != latest {
            self.outcome.conflicts += 1;
            if tries < 4 {
                return self.plan(40 * (i64::from(tries) + 1), Event::Arrive(task, tries + 1));
            }
            let message = "Operation cannot be fulfilled on resourcequotas \"team\": the object has been modified";
            let conflict =
                ApiError { code: 409, reason: "Conflict".into(), message: message.into(), retry_after: None };
            let Refused::Wait(waiting) = self.passes.remove(&task).unwrap().refused(&conflict, at(self.now)) else {
                panic!("a conflict does not wait")
            };
            return self.look_again(task, &waiting);
        }
        self.write(used + 1);
        self.seen_by_server = self.now;
        self.version += 1;
        self.pods.push((self.now + 1, 1));
        let live: i64 = self.pods.iter().map(|(_, by)| by).sum();
        self.outcome.most_live = self.outcome.most_live.max(live);
        let answer = 1 + self.draw(self.lags.executor);
        self.plan(answer, Event::Answer(task, self.version));
        let jitter = self.draw(self.life / 4);
        self.plan(answer + self.life + jitter, Event::End(task));
    }

    fn look_again(&mut self, task: usize, waiting: &Waiting) {
        let wait = waiting.look_at.duration_since(at(self.now)).as_millis() as i64;
        self.plan(wait.max(1), Event::Ask(task));
    }

    fn wake(&mut self) {
        for name in self.world.called() {
            let task = name.parse().unwrap();
            let most = i64::try_from(self.lags.lost).unwrap();
            let is_lost = most > 0 && self.draw(most) == 0;
            // Like a queue, in which nobody stands twice.
            if !is_lost && self.asked.insert(task) {
                let wait = self.draw(self.lags.executor);
                self.plan(wait, Event::Ask(task));
            }
        }
    }

    fn write(&mut self, used: i64) {
        self.version += 1;
        self.quota.push((self.now, self.version, used));
        let late = self.draw(self.lags.executor);
        // A watch tells in order.
        self.told_executor = self.told_executor.max(self.now + late);
        self.plan(self.told_executor - self.now, Event::News(self.version, used));
    }

    /// The quota as it was at a time.
    fn copy(&self, then: i64) -> (i64, u64, i64) {
        *self.quota.iter().rev().find(|(when, ..)| *when <= then).unwrap()
    }

    fn news(&self, version: u64, used: i64) {
        let (hard, used) = (self.hard.to_string(), used.to_string());
        self.world.gate.quota_seen("ns", &quota(version, &[("pods", &hard)], &[("pods", &used)]), at(self.now));
    }
}

const SETTLE: Duration = Duration::from_millis(150);

fn play(lags: Lags, hard: i64, tasks: usize, life: i64, dice: u64) -> Outcome {
    let world = World::settling(SETTLE);
    Cluster::new(&world, lags, hard, life, dice | 1).run(tasks)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// In a cluster in good order nothing is refused, the quota is never exceeded, and little time is lost.
    #[test]
    fn nothing_is_refused_by_a_cluster_that_is_a_little_late(
        hard in 1_i64..30, rounds in 2_usize..6, life in 200_i64..5000, server in 0_i64..100, counter in 0_i64..100,
        executor in 0_i64..40, dice in any::<u64>(),
    ) {
        let lags = Lags { server, counter, executor, lost: 0 };
        let tasks = rounds * usize::try_from(hard).unwrap();
        let outcome = play(lags, hard, tasks, life, dice);
        prop_assert_eq!(outcome.refused, 0, "{:?}", outcome);
        prop_assert!(outcome.most_live <= hard, "{:?}", outcome);
        // What one task after the other needs in one place: its life and that it is noticed everywhere.
        let turn = life + life / 4 + 5 * executor + 3 * counter + 450;
        let most = turn * i64::try_from(rounds).unwrap() + i64::try_from(tasks).unwrap();
        prop_assert!(outcome.ended_at <= most, "{} ms, expected at most {most}: {outcome:?}", outcome.ended_at);
    }

    /// However late everything is, and whatever is lost on the way: everybody gets through.
    #[test]
    fn everybody_gets_through_a_cluster_in_bad_order(
        hard in 1_i64..10, rounds in 2_usize..8, life in 1_i64..3000, server in 0_i64..3000, counter in 0_i64..5000,
        executor in 0_i64..1000, lost in 0_u64..20, dice in any::<u64>(),
    ) {
        let lags = Lags { server, counter, executor, lost };
        let tasks = rounds * usize::try_from(hard).unwrap();
        let outcome = play(lags, hard, tasks, life, dice);
        prop_assert!(outcome.refused <= 3 * tasks, "{:?}", outcome);
    }
}
