#![allow(clippy::unwrap_used, clippy::panic)]

mod cluster;

use std::collections::{BTreeMap, VecDeque};

use aileron_kubekit::ApiError;
use aileron_machinery::PendingReason;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;

use super::permit::Refused;
use super::*;
use crate::amounts::of;

/// All are created at once, wakes are written down, and some are gone.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<String>>>, Arc<Mutex<BTreeSet<String>>>);

impl ActionWaker for Listener {
    fn wake(&self, key: &ActionKey) {
        self.0.lock().unwrap().push(key.name.to_string());
    }

    fn created(&self, key: &ActionKey) -> Option<Timestamp> {
        (!self.1.lock().unwrap().contains(&*key.name)).then(Timestamp::default)
    }
}

struct World {
    gate: Gate,
    woken: Listener,
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

fn key(name: &str) -> ActionKey {
    ActionKey::new("ns", name)
}

fn pod(cpu: &str) -> Request {
    let kind = ResourceKind::of::<Pod>();
    Request { kind, amounts: of(&[("pods", "1"), ("requests.cpu", cpu)]), traits: Some(Default::default()) }
}

fn quota(version: u64, hard: &[(&str, &str)], used: &[(&str, &str)]) -> Quota {
    Quota::plain("team", version, of(hard), of(used))
}

fn exceeded() -> ApiError {
    let message = "pods \"x\" is forbidden: exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2";
    ApiError { code: 403, reason: "Forbidden".into(), message: message.into(), retry_after: None }
}

impl World {
    fn new() -> Self {
        // Most of what is shown here has nothing to do with how long room takes to settle.
        Self::settling(Duration::ZERO)
    }

    fn settling(settle: Duration) -> Self {
        let woken = Listener::default();
        let settings = GateSettings { settle, ..GateSettings::default() };
        Self { gate: Gate::new(settings, Box::new(woken.clone())), woken }
    }

    fn with_pods(hard: &str, used: &str) -> Self {
        let world = Self::new();
        world.gate.quota_seen("ns", &quota(1, &[("pods", hard)], &[("pods", used)]), at(0));
        world
    }

    fn goes(&self, name: &str, request: Request, now: Timestamp) -> bool {
        match self.gate.ask(&key(name), request, now) {
            Answer::Go(pass) => {
                pass.created(None, now);
                true
            }
            Answer::Wait(_) => false,
            Answer::Never(text) => panic!("{text}"),
        }
    }

    fn waits(&self, name: &str, request: Request, now: Timestamp) -> Waiting {
        match self.gate.ask(&key(name), request, now) {
            Answer::Wait(waiting) => waiting,
            Answer::Go(_) | Answer::Never(_) => panic!("{name} does not wait"),
        }
    }

    fn called(&self) -> Vec<String> {
        std::mem::take(&mut self.woken.0.lock().unwrap())
    }
}

#[test]
fn where_nothing_limits_nobody_waits_and_nothing_is_kept() {
    let world = World::new();
    for name in 0..100 {
        assert!(world.goes(&name.to_string(), pod("1"), at(0)));
    }
    world.gate.tidy(at(1));
    assert!(world.gate.lock().spaces.is_empty());
}

#[test]
fn as_many_go_as_fit_and_the_others_are_called_oldest_first() {
    let world = World::settling(Duration::from_millis(100));
    world.gate.quota_seen("ns", &quota(1, &[("pods", "2")], &[("pods", "0")]), at(0));
    let went: Vec<_> = ["e", "d", "c", "b", "a"].into_iter().filter(|name| world.goes(name, pod("1"), at(0))).collect();
    assert_eq!(went, ["e", "d"]);
    let waiting = world.waits("c", pod("1"), at(0));
    assert_eq!(waiting.why.reason, PendingReason::Quota);
    assert_eq!(waiting.why.text, "waiting for quota team: requested pods=1, used pods=2, limited pods=2");
    world.gate.quota_seen("ns", &quota(9, &[("pods", "2")], &[("pods", "2")]), at(100));
    assert_eq!(world.called(), Vec::<String>::new());
    world.gate.quota_seen("ns", &quota(10, &[("pods", "2")], &[("pods", "1")]), at(101));
    world.gate.call_due(at(300));
    assert_eq!(world.called(), Vec::<String>::new(), "both are there, so one was not counted");
    world.gate.freed(&key("e"), &ResourceKind::of::<Pod>(), at(301));
    world.gate.call_due(at(500));
    assert_eq!(world.called(), Vec::<String>::new(), "the count may still have it instead of the other");
    world.gate.call_due(at(501));
    assert_eq!(world.called(), ["a"]);
    assert!(!world.goes("aa", pod("1"), at(501)), "the room is kept for the one that was called");
    assert!(world.goes("a", pod("1"), at(502)));
    world.gate.quota_seen("ns", &quota(11, &[("pods", "2")], &[("pods", "2")]), at(600));
    world.gate.freed(&key("d"), &ResourceKind::of::<Pod>(), at(4000));
    world.gate.quota_seen("ns", &quota(12, &[("pods", "4")], &[("pods", "1")]), at(5000));
    world.gate.call_due(at(5099));
    assert_eq!(world.called(), Vec::<String>::new(), "the server does not know of the room yet");
    world.gate.call_due(at(5100));
    assert_eq!(world.called(), ["aa", "b", "c"]);
}

#[test]
fn whoever_is_called_and_does_not_come_loses_the_room() {
    let world = World::with_pods("1", "1");
    world.waits("a", pod("1"), at(0));
    world.waits("b", pod("1"), at(0));
    world.gate.quota_seen("ns", &quota(2, &[("pods", "1")], &[("pods", "0")]), at(10));
    assert_eq!(world.called(), ["a"]);
    assert_eq!(world.gate.call_due(at(11)), Some(at(5010)));
    world.gate.call_due(at(5010));
    assert_eq!(world.called(), ["a", "b"], "the late one may ask again, should its call have been lost");
    world.gate.leave(&key("b"), at(5011));
    assert!(world.goes("c", pod("1"), at(5012)), "and one that leaves gives it back at once");
}

#[test]
fn a_small_task_passes_a_large_one_until_the_large_one_has_waited_for_long() {
    let world = World::new();
    world.gate.quota_seen("ns", &quota(1, &[("requests.cpu", "4")], &[("requests.cpu", "2")]), at(0));
    world.waits("a-large", pod("3"), at(0));
    assert!(world.goes("small", pod("1"), at(1)));
    let used = |version, cpu| {
        world.gate.quota_seen("ns", &quota(version, &[("requests.cpu", "4")], &[("requests.cpu", cpu)]), at(59_000));
    };
    used(2, "3");
    used(3, "2");
    world.gate.call_due(at(60_000));
    assert!(!world.goes("small2", pod("1"), at(60_001)), "room is kept for the large one");
    let kept = world.waits("small2", pod("1"), at(60_002));
    assert_eq!(
        kept.why.text,
        "waiting behind older tasks for quota team: requested requests.cpu=1, used requests.cpu=2, limited requests.cpu=4"
    );
    world.gate.call_due(at(660_000));
    assert_eq!(world.called(), ["small2"], "but not for ever");
}

#[test]
fn room_that_is_kept_is_given_to_the_one_it_was_kept_for() {
    let world = World::new();
    let cpu = |version, used| quota(version, &[("requests.cpu", "4")], &[("requests.cpu", used)]);
    world.gate.quota_seen("ns", &cpu(1, "4"), at(0));
    world.waits("a-large", pod("3"), at(0));
    world.waits("small", pod("1"), at(0));
    world.gate.quota_seen("ns", &cpu(2, "2"), at(60_000));
    assert_eq!(world.called(), Vec::<String>::new());
    world.gate.quota_seen("ns", &cpu(3, "1"), at(60_001));
    assert_eq!(world.called(), ["a-large"]);
    world.gate.quota_seen("ns", &cpu(4, "0"), at(60_002));
    assert_eq!(world.called(), ["small"]);
}

#[test]
fn more_than_the_limit_fails_at_once_and_exactly_the_limit_waits() {
    let world = World::new();
    world.gate.quota_seen("ns", &quota(1, &[("requests.cpu", "4")], &[("requests.cpu", "1")]), at(0));
    assert_eq!(world.waits("equal", pod("4"), at(0)).why.reason, PendingReason::Quota);
    let Answer::Never(text) = world.gate.ask(&key("more"), pod("4001m"), at(0)) else { panic!("it may go") };
    assert!(
        text.ends_with("quota team: requested requests.cpu=4001m, used requests.cpu=1, limited requests.cpu=4"),
        "{text}"
    );
    world.gate.quota_seen("ns", &quota(2, &[("requests.cpu", "3")], &[("requests.cpu", "1")]), at(1));
    assert_eq!(world.called(), ["equal"], "it is woken to learn that the quota was lowered");
}

#[test]
fn without_quotas_to_see_one_at_a_time_tries_after_a_refusal() {
    let world = World::new();
    let Answer::Go(pass) = world.gate.ask(&key("b"), pod("1"), at(0)) else { panic!("b waits") };
    let Answer::Go(other) = world.gate.ask(&key("c"), pod("1"), at(0)) else { panic!("c waits") };
    let Refused::Wait(waiting) = pass.refused(&exceeded(), at(0)) else { panic!("b does not wait") };
    assert_eq!(waiting.why.text, "waiting for quota team: requested pods=1, used pods=2, limited pods=2");
    assert!(!other.holds(at(1)), "what was about to be sent is not");
    assert_eq!(other.held_back(at(1)).why.reason, PendingReason::Quota);
    for name in ["d", "a", "e", "f"] {
        world.waits(name, pod("1"), at(2));
    }
    assert_eq!(world.called(), Vec::<String>::new());
    let due = world.gate.call_due(at(3)).unwrap();
    assert!(due >= at(1000) && due <= at(1200), "{due}");
    assert!(world.gate.call_due(due).is_some());
    assert_eq!(world.called(), ["a"]);
    assert!(world.goes("a", pod("1"), due));
    assert_eq!(world.called(), ["b", "c"], "success lets more follow");
    let Answer::Go(pass) = world.gate.ask(&key("b"), pod("1"), due) else { panic!("b waits") };
    let Refused::Wait(_) = pass.refused(&exceeded(), due) else { panic!("b does not wait") };
    world.gate.freed(&key("a"), &ResourceKind::of::<Pod>(), due);
    let hurried = world.gate.call_due(due).unwrap();
    assert!(hurried <= later(due, Duration::from_millis(200)), "something ended, so a try is worth it");
}

#[test]
fn an_overloaded_server_is_left_alone() {
    let world = World::new();
    let Answer::Go(pass) = world.gate.ask(&key("a"), pod("1"), at(0)) else { panic!("a waits") };
    let busy = ApiError { code: 429, retry_after: Some(Duration::from_secs(9)), ..ApiError::default() };
    let Refused::Wait(waiting) = pass.refused(&busy, at(0)) else { panic!("a does not wait") };
    assert_eq!((waiting.look_at, waiting.why.reason), (at(9000), PendingReason::BackOff));
    assert_eq!(
        world.waits("b", pod("1m"), at(8999)).why.text,
        "waiting for the API server: the API server has too many requests"
    );
    world.gate.call_due(at(9000));
    assert_eq!(world.called(), ["a"]);
}

#[test]
fn what_the_server_adds_to_a_request_is_learned_from_its_refusal() {
    let world = World::new();
    let limits = |version, used| quota(version, &[("limits.cpu", "2")], &[("limits.cpu", used)]);
    world.gate.quota_seen("ns", &limits(1, "2"), at(0));
    let Answer::Go(pass) = world.gate.ask(&key("a"), pod("1"), at(0)) else { panic!("nothing is asked of the quota") };
    let message = "exceeded quota: team, requested: limits.cpu=1, used: limits.cpu=2, limited: limits.cpu=2";
    let refusal = ApiError { message: message.into(), ..exceeded() };
    assert!(matches!(pass.refused(&refusal, at(0)), Refused::Wait(_)));
    world.gate.quota_seen("ns", &limits(2, "1500m"), at(1));
    assert_eq!(world.called(), Vec::<String>::new(), "half a CPU is not enough");
    world.gate.quota_seen("ns", &limits(3, "1"), at(2));
    assert_eq!(world.called(), ["a"]);
}

#[test]
fn another_refusal_is_not_waited_for_and_leaves_nothing_behind() {
    let world = World::with_pods("1", "0");
    let Answer::Go(pass) = world.gate.ask(&key("a"), pod("1"), at(0)) else { panic!("a waits") };
    let forbidden = ApiError { code: 403, reason: "Forbidden".into(), message: "no".into(), retry_after: None };
    assert_eq!(pass.refused(&forbidden, at(0)), Refused::Otherwise);
    world.waits("b", pod("1"), Timestamp::now());
    world.gate.call_due(later(Timestamp::now(), Duration::from_secs(2)));
    assert_eq!(world.called(), ["b"], "it may have been counted, so its room is free a little later");
}

#[test]
fn thousands_wait_at_no_cost() {
    let world = World::with_pods("1", "1");
    for number in 0..5_000 {
        world.waits(&format!("{number:05}"), pod("1"), at(0));
    }
    let begin = std::time::Instant::now();
    for version in 2..2_002 {
        let used = if version % 2 == 0 { "1" } else { "2" };
        world.gate.quota_seen("ns", &quota(version, &[("pods", "1")], &[("pods", used)]), at(1));
    }
    assert!(world.called().is_empty());
    // A scan of all of them each time would take several seconds.
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[test]
fn a_large_task_gets_another_chance_after_its_first_one() {
    let world = World::new();
    let cpu = |version, used| quota(version, &[("requests.cpu", "4")], &[("requests.cpu", used)]);
    world.gate.quota_seen("ns", &cpu(1, "3"), at(0));
    world.waits("a-large", pod("4"), at(0));
    let held = |second: i64| {
        let name = format!("small{second}");
        let went = world.goes(&name, pod("1"), at(second * 1000));
        world.gate.leave(&key(&name), at(second * 1000 + 1));
        world.gate.call_due(at(second * 1000 + 5000));
        !went
    };
    let seen: Vec<_> = [30, 100, 600, 690, 750, 1300, 1350, 1400].map(|second| (second, held(second))).into();
    let expected = [(30, false), (100, true), (600, true), (690, false), (750, true), (1300, true), (1350, false)];
    assert_eq!(seen[..7], expected);
    assert_eq!(seen[7], (1400, true), "and so on");
}

#[test]
fn room_is_never_kept_where_that_is_switched_off() {
    for hold_after in [Duration::ZERO, Duration::from_secs(60)] {
        let settings =
            GateSettings { hold_after, hold_for: Duration::ZERO, settle: Duration::ZERO, ..GateSettings::default() };
        let woken = Listener::default();
        let world = World { gate: Gate::new(settings, Box::new(woken.clone())), woken };
        world.gate.quota_seen("ns", &quota(1, &[("requests.cpu", "4")], &[("requests.cpu", "3")]), at(0));
        world.waits("a-large", pod("4"), at(0));
        assert!(world.goes("small", pod("1"), at(90_000)), "{hold_after:?}");
    }
}

#[test]
fn a_task_says_so_when_something_else_keeps_it_for_longer_than_a_moment() {
    let world = World::with_pods("1", "1");
    let first = world.waits("a", pod("1"), at(0));
    assert!(first.why.text.contains("quota team"));
    world.gate.tidy(at(20_000));
    world.gate.quota_seen(
        "ns",
        &Quota::plain("other", 5, of(&[("requests.cpu", "1")]), of(&[("requests.cpu", "1")])),
        at(20_001),
    );
    for now in [20_002, 25_000] {
        world.gate.tidy(at(now));
        assert_eq!(world.called(), Vec::<String>::new(), "it may pass");
    }
    world.gate.tidy(at(31_000));
    assert_eq!(world.called(), ["a"]);
    let second = world.waits("a", pod("1"), at(31_001));
    assert!(second.why.text.contains("quota other") && second.why.text.contains("quota team"), "{}", second.why.text);
    world.gate.tidy(at(60_000));
    assert_eq!(world.called(), Vec::<String>::new(), "once is enough");
    assert_eq!(world.waits("a", pod("1"), first.look_at).why, second.why, "a look alone changes nothing");
}

#[test]
fn many_that_are_kept_by_something_else_say_so_one_after_the_other() {
    let world = World::with_pods("1", "1");
    for number in 0..120 {
        world.waits(&format!("{number:03}"), pod("1"), at(0));
    }
    world.gate.quota_seen(
        "ns",
        &Quota::plain("other", 5, of(&[("requests.cpu", "1")]), of(&[("requests.cpu", "1")])),
        at(1),
    );
    let mut counts = Vec::new();
    for tenths in 0..6 {
        world.gate.tidy(at(1000 + tenths * 10_000));
        let called = world.called();
        counts.push(called.len());
        for name in called {
            world.waits(&name, pod("1"), at(1001 + tenths * 10_000));
        }
    }
    assert_eq!(counts, [0, 50, 50, 20, 0, 0]);
}

#[test]
fn a_task_whose_action_vanished_is_forgotten_with_its_room() {
    let world = World::with_pods("1", "1");
    world.waits("a", pod("1"), at(0));
    world.waits("b", pod("1"), at(0));
    world.woken.1.lock().unwrap().insert("a".to_owned());
    world.gate.tidy(at(1));
    world.gate.quota_seen("ns", &quota(2, &[("pods", "1")], &[("pods", "0")]), at(2));
    assert_eq!(world.called(), ["b"]);
}

#[test]
fn a_refusal_that_nobody_came_back_after_is_forgotten() {
    let world = World::new();
    let Answer::Go(pass) = world.gate.ask(&key("a"), pod("1"), at(0)) else { panic!("a waits") };
    let Refused::Wait(_) = pass.refused(&exceeded(), at(0)) else { panic!("a does not wait") };
    world.gate.leave(&key("a"), at(1));
    world.gate.call_due(at(100_000));
    world.gate.tidy(at(100_000));
    assert_eq!(world.gate.lock().spaces.len(), 1);
    world.gate.tidy(at(700_000));
    assert!(world.gate.lock().spaces.is_empty());
}

#[test]
fn order_by_name_is_only_for_those_created_at_once() {
    let older = Rank { created: at(1), name: "z".into() };
    let younger = Rank { created: at(2), name: "a".into() };
    assert!(older < younger);
}

/// A server that counts, and whose watch is late.
struct Server {
    hard: i64,
    used: i64,
    version: u64,
    /// Tasks and what they take.
    running: Vec<(usize, i64)>,
    watch: VecDeque<Quota>,
}

impl Server {
    fn tell(&mut self) {
        self.version += 1;
        let (hard, used) = (self.hard.to_string(), self.used.to_string());
        self.watch.push_back(quota(self.version, &[("requests.cpu", &hard)], &[("requests.cpu", &used)]));
    }

    /// Usage first, then the object; the answer is the version of the object.
    fn create(&mut self, number: usize, cpu: i64) -> Option<u64> {
        if self.used + cpu > self.hard {
            return None;
        }
        self.used += cpu;
        self.running.push((number, cpu));
        self.tell();
        self.version += 1;
        Some(self.version)
    }

    fn end(&mut self, index: usize) -> usize {
        let (number, cpu) = self.running.remove(index % self.running.len());
        self.used -= cpu;
        self.tell();
        number
    }
}

/// Those who were called ask next.
fn wake(world: &World, asked: &mut BTreeMap<usize, bool>, ready: &mut VecDeque<usize>) {
    for name in world.called() {
        let number = name.parse().unwrap();
        if let Some(called) = asked.get_mut(&number) {
            *called = true;
            // Like a queue, in which nobody stands twice.
            if !ready.contains(&number) {
                ready.push_front(number);
            }
        }
    }
}

proptest! {
    /// Whatever the order of asks, ends and news: no create is refused, everybody gets through in the end, and among
    /// equal tasks nobody who waits is overtaken.
    #[test]
    fn nothing_is_refused_and_nobody_is_forgotten(
        hard in 3_i64..10, sizes in proptest::collection::vec(1_i64..=3, 1..30), equal in any::<bool>(),
        steps in proptest::collection::vec((0_u8..3, any::<usize>()), 0..200),
    ) {
        let world = World::settling(GateSettings::default().settle);
        let mut server = Server { hard, used: 0, version: 0, running: Vec::new(), watch: VecDeque::new() };
        server.tell();
        world.gate.quota_seen("ns", &server.watch.pop_front().unwrap(), at(0));
        let size = |number: usize| if equal { 1 } else { sizes[number] };
        // Not asked yet, and woken.
        let mut ready: VecDeque<usize> = (0..sizes.len()).collect();
        let mut asked: BTreeMap<usize, bool> = BTreeMap::new();
        let mut done = 0;
        let mut now = 0;
        let finish = std::iter::repeat_n([(2, 0), (0, 0), (1, 0), (2, 0)], sizes.len() * 8).flatten();
        for (what, which) in steps.into_iter().chain(finish) {
            // Longer than an end takes to be noticed; but news are never late by as much as the gate waits for them.
            now += if server.watch.is_empty() { 350 } else { 1 };
            // As the gate's own task does when something is due.
            world.gate.call_due(at(now));
            wake(&world, &mut asked, &mut ready);
            match what {
                0 if !ready.is_empty() => {
                    let number = ready.remove(which % ready.len()).unwrap();
                    let cpu = size(number);
                    let request = pod(&cpu.to_string());
                    match world.gate.ask(&key(&format!("{number:03}")), request, at(now)) {
                        Answer::Go(pass) => {
                            let version = server.create(number, cpu);
                            prop_assert!(version.is_some(), "a create was sent that the server refuses");
                            pass.created(version, at(now));
                            done += 1;
                            let was_waiting = asked.remove(&number).is_some();
                            if equal && !was_waiting {
                                let waiting: Vec<_> = asked.values().collect();
                                prop_assert!(waiting.iter().all(|called| **called), "a waiting task was overtaken");
                            }
                        }
                        Answer::Wait(_) => { asked.insert(number, false); }
                        Answer::Never(text) => prop_assert!(false, "{}", text),
                    }
                }
                1 if !server.running.is_empty() => {
                    let ended = server.end(which);
                    world.gate.freed(&key(&format!("{ended:03}")), &ResourceKind::of::<Pod>(), at(now));
                }
                _ => if let Some(news) = server.watch.pop_front() {
                    world.gate.quota_seen("ns", &news, at(now));
                },
            }
            wake(&world, &mut asked, &mut ready);
        }
        prop_assert_eq!(done, sizes.len());
    }
}
