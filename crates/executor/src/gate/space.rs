//! One namespace at the gate: its quotas, who waits, and who may go next.
//!
//! Everything here is decided from what was told and the time that is handed in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aileron_machinery::ResourceKind;
use jiff::Timestamp;

use super::GateSettings;
use super::amounts::{self, Amounts};
use super::backoff::later;
use super::charges::{ChargeId, Charges};
use super::line::Line;
use super::live::Live;
use super::quota::Quota;
use super::quota_message::ExceededQuota;
use super::reason::{Said, Why};
use super::refusal::Refusal;
use super::request::Request;

/// How long a task that was called may take to come. Its round begins within moments; one that does not come found
/// something else to do, or is gone, and the room is for others.
const COMES_WITHIN: Duration = Duration::from_secs(5);

/// Where a try to free room is made after something ended, when usage is not visible: the controller that counts usage
/// needs a moment.
const COUNTED_WITHIN: Duration = Duration::from_millis(150);

/// The place of a task among others: the older action first, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Rank {
    pub(super) created: Timestamp,
    pub(super) name: Arc<str>,
}

/// What a task that asks is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Go ahead; the charge is to be settled afterwards.
    Go(ChargeId),
    /// Not now.
    Wait,
    /// More is asked for than there will ever be.
    Never(Vec<ExceededQuota>),
}

/// Whose create it is, and what is kept for it.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) rank: Rank,
    pub(super) request: Arc<Request>,
    /// Nothing where nobody counts.
    pub(super) charge: Option<ChargeId>,
}

/// A namespace.
#[derive(Debug, Default)]
pub(super) struct Space {
    quotas: BTreeMap<String, Quota>,
    lines: BTreeMap<ResourceKind, Line>,
    tasks: HashMap<Arc<str>, Task>,
    /// Those of the tasks that wait, alike ones together: if the oldest of them does not fit, none does. So thousands of
    /// waiting tasks cost no more than their different shapes.
    waiting: BTreeMap<Arc<Request>, BTreeSet<Rank>>,
    charges: Charges,
    live: Live,
}

#[derive(Debug)]
struct Task {
    rank: Rank,
    request: Arc<Request>,
    /// More than the object says, as a refusal told.
    learned: Amounts,
    since: Timestamp,
    stage: Stage,
    said: Option<Said>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// Room is kept, and the task was woken.
    Called {
        at: Timestamp,
        charge: ChargeId,
    },
    /// Its create is on its way.
    Trying {
        charge: ChargeId,
    },
}

/// What is left of each quota, in the order of the quotas.
type Left = Vec<Amounts>;

impl Space {
    /// Nothing here would keep a create of this kind from being tried, and nobody waits.
    pub(super) fn is_open(&self, kind: &ResourceKind) -> bool {
        self.quotas.is_empty() && self.tasks.is_empty() && !self.lines.contains_key(kind)
    }

    /// Nothing is worth remembering.
    pub(super) fn is_idle(&self) -> bool {
        self.quotas.is_empty() && self.tasks.is_empty() && self.lines.is_empty() && self.charges.is_empty()
    }

    /// Forgets objects of actions that are not known any more.
    pub(super) fn retain_objects(&mut self, is_known: impl Fn(&Arc<str>) -> bool) {
        self.live.retain(is_known);
        if self.quotas.is_empty() {
            self.live = Live::default();
        }
    }

    /// Somebody waits or was called.
    pub(super) fn is_busy(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// A task wants to create its object. Others may be called along the way; they are in the second part.
    pub(super) fn ask(
        &mut self,
        rank: &Rank,
        request: &Arc<Request>,
        settings: &GateSettings,
        now: Timestamp,
    ) -> (Decision, Vec<Arc<str>>) {
        // Whatever it had is gone, or it would not ask.
        self.live.end(&rank.name, now);
        let request = match self.tasks.get(&rank.name) {
            Some(task) if !task.learned.is_empty() => Arc::new(request.raised(&task.learned)),
            _ => Arc::clone(request),
        };
        let impossible = self.impossible(&request);
        if !impossible.is_empty() {
            self.leave(&rank.name);
            return (Decision::Never(impossible), self.call(settings, now));
        }
        match self.tasks.get(&rank.name).map(|task| (task.stage, task.request == request)) {
            Some((Stage::Called { charge, .. }, true)) => {
                self.set_stage(&rank.name, Stage::Trying { charge });
                return (Decision::Go(charge), Vec::new());
            }
            Some((Stage::Waiting, true)) => {}
            Some((Stage::Called { charge, .. } | Stage::Trying { charge }, _)) => {
                self.held_back(&Ticket { rank: rank.clone(), request, charge: Some(charge) }, now);
            }
            _ => self.enter(rank, request, now),
        }
        let mut called = self.call(settings, now);
        let stage = self.tasks.get(&rank.name).map(|task| task.stage);
        let Some(Stage::Called { charge, .. }) = stage else { return (Decision::Wait, called) };
        called.retain(|name| *name != rank.name);
        self.set_stage(&rank.name, Stage::Trying { charge });
        (Decision::Go(charge), called)
    }

    /// A create went through.
    pub(super) fn created(&mut self, ticket: &Ticket, version: Option<u64>, now: Timestamp) {
        let Ticket { rank, request, charge } = ticket;
        if let Some(charge) = charge {
            self.end_try(&request.kind);
            self.charges.taken(*charge, version, &self.quotas, now);
            self.forget(&rank.name);
            if !self.quotas.is_empty() {
                self.live.add(&rank.name, request, now);
            }
        }
        if let Some(line) = self.lines.get_mut(&request.kind) {
            line.succeeded(request, now);
        }
        self.drop_idle_lines();
    }

    /// A create was refused for something that passes: the task waits.
    pub(super) fn refused(
        &mut self,
        ticket: &Ticket,
        refusal: &Refusal,
        settings: &GateSettings,
        now: Timestamp,
        random: f64,
    ) {
        let Ticket { rank, request, .. } = ticket;
        self.give_back(ticket);
        self.lines
            .entry(request.kind.clone())
            .or_insert_with(|| Line::new(settings.backoff))
            .refused(refusal, now, random);
        let mut learned = self.tasks.get(&rank.name).map(|task| task.learned.clone()).unwrap_or_default();
        if let Refusal::Quota(quotas) = refusal {
            for quota in quotas {
                amounts::raise(&mut learned, &quota.requested);
            }
        }
        self.enter(rank, Arc::new(request.raised(&learned)), now);
        if let Some(task) = self.tasks.get_mut(&rank.name) {
            task.learned = learned;
        }
    }

    /// A create was not sent after all: the task waits again.
    pub(super) fn held_back(&mut self, ticket: &Ticket, now: Timestamp) {
        self.give_back(ticket);
        self.enter(&ticket.rank, Arc::clone(&ticket.request), now);
    }

    /// A create failed in another way, or nobody knows how it ended. It may have been counted.
    pub(super) fn abandoned(&mut self, ticket: &Ticket, now: Timestamp) {
        if let Some(charge) = ticket.charge {
            self.end_try(&ticket.request.kind);
            self.charges.taken(charge, None, &self.quotas, now);
            self.forget(&ticket.rank.name);
        }
    }

    /// A task no longer wants anything.
    pub(super) fn leave(&mut self, name: &str) {
        self.live.remove(name);
        let Some(task) = self.tasks.get(name) else { return };
        match task.stage {
            Stage::Waiting => {}
            Stage::Called { charge, .. } => {
                let kind = task.request.kind.clone();
                self.end_try(&kind);
                self.charges.remove(charge, &self.quotas);
            }
            // Whoever tries settles its charge.
            Stage::Trying { .. } => return,
        }
        self.forget(name);
    }

    /// Whether a create that was let through a moment ago still is: others may have been refused meanwhile.
    pub(super) fn still_admits(&self, request: &Request, now: Timestamp) -> bool {
        self.lines.get(&request.kind).is_none_or(|line| line.backoff.admits(&request.amounts, now))
    }

    /// A quota is there, or changed.
    pub(super) fn quota_seen(&mut self, quota: &Quota, now: Timestamp) {
        let before = self.quotas.get(&quota.name).cloned();
        if before.as_ref().is_some_and(|before| before.version > quota.version) {
            return;
        }
        let freed = before.as_ref().is_some_and(|before| {
            let left = before.left();
            quota.left().iter().any(|(name, now_left)| left.get(name).is_none_or(|left| now_left > left))
        });
        self.quotas.insert(quota.name.clone(), quota.clone());
        self.charges.observe(before.as_ref(), quota, &self.quotas);
        if freed || before.is_none() {
            self.lines.values_mut().for_each(|line| line.backoff.freed(now));
        }
    }

    /// Quotas went.
    pub(super) fn retain_quotas(&mut self, keep: impl Fn(&str) -> bool, now: Timestamp) {
        let before = self.quotas.len();
        self.quotas.retain(|name, _| keep(name));
        if self.quotas.len() < before {
            self.lines.values_mut().for_each(|line| line.backoff.freed(now));
        }
    }

    /// The object of an action ended. Where usage is visible the quota itself will tell, or has told already and was not
    /// believed.
    pub(super) fn freed(&mut self, name: &str, kind: &ResourceKind, now: Timestamp) -> bool {
        if self.live.end(name, now) {
            return true;
        }
        if !self.quotas.is_empty() || self.waiting.is_empty() {
            return false;
        }
        let Some(line) = self.lines.get_mut(kind) else { return false };
        line.backoff.freed(later(now, COUNTED_WITHIN));
        true
    }

    /// Calls those who may go now, the oldest first, and keeps room for them. The answer is who was called.
    ///
    /// A younger task may pass an older one that does not fit. But when the oldest of all has waited for long, the room it
    /// needs is kept free for a while, or small tasks could keep a large one out for ever; only for a while, since the
    /// room may be taken by something that never ends.
    pub(super) fn call(&mut self, settings: &GateSettings, now: Timestamp) -> Vec<Arc<str>> {
        let mut called = self.expire(now);
        if self.waiting.is_empty() {
            return called;
        }
        let mut left = self.left();
        let mut heads = BTreeMap::new();
        for (request, ranks) in &self.waiting {
            if !self.impossible(request).is_empty() {
                // The quota was lowered. They will be told when they ask.
                called.extend(ranks.iter().map(|rank| Arc::clone(&rank.name)));
            } else if let Some(first) = ranks.first() {
                let shares: Left = self.quotas.values().map(|quota| quota.share(request)).collect();
                heads.insert(first.clone(), (Arc::clone(request), shares));
            }
        }
        let oldest = heads.keys().next().cloned();
        while let Some((rank, (request, shares))) = heads.pop_first() {
            let admitted = self.lines.get(&request.kind).is_none_or(|line| line.admits(&request, now));
            if admitted && self.fits(&shares, &left) {
                take_all(&mut left, &shares);
                self.let_go(&rank, now);
                called.push(Arc::clone(&rank.name));
                if let Some(next) = self.waiting.get(&request).and_then(BTreeSet::first) {
                    heads.insert(next.clone(), (request, shares));
                }
            } else if admitted && oldest.as_ref() == Some(&rank) && self.holds(&rank, settings, now) {
                take_all(&mut left, &shares);
            }
        }
        called
    }

    /// When time alone will change something.
    pub(super) fn due(&self, settings: &GateSettings, now: Timestamp) -> Option<Timestamp> {
        let called = self.tasks.values().filter_map(|task| match task.stage {
            Stage::Called { at, .. } => Some(later(at, COMES_WITHIN)),
            Stage::Waiting | Stage::Trying { .. } => None,
        });
        let called = called.min();
        if self.waiting.is_empty() {
            return called;
        }
        let pauses = self.waiting.keys().filter_map(|request| self.lines.get(&request.kind)?.backoff.until(now)).min();
        let oldest = self.waiting.values().filter_map(BTreeSet::first).min();
        let since = oldest.and_then(|rank| Some(self.tasks.get(&rank.name)?.since));
        let hold = since.map(|since| later(since, settings.hold_after));
        let release = hold.map(|hold| later(hold, settings.hold_for));
        let turns = [hold, release].into_iter().flatten().filter(|at| *at > now).min();
        [called, pauses, self.charges.next_expiry(), self.live.next_noticed(), turns].into_iter().flatten().min()
    }

    /// What a waiting task is told; a text that differs only in numbers is renewed rarely.
    pub(super) fn tell(&mut self, name: &str, now: Timestamp) -> Why {
        let Some(why) = self.tasks.get(name).map(|task| self.why(&task.request, now)) else { return Why::default() };
        match self.tasks.get_mut(name) {
            Some(task) => Said::renew(&mut task.said, why, now),
            None => why,
        }
    }

    /// How many wait for what.
    pub(super) fn count(&self, now: Timestamp, mut add: impl FnMut(&Why, usize)) {
        for (request, ranks) in &self.waiting {
            add(&self.why(request, now), ranks.len());
        }
    }

    /// The kinds whose creates pause now.
    pub(super) fn paused(&self, now: Timestamp) -> impl Iterator<Item = &ResourceKind> {
        self.lines.iter().filter(move |(_, line)| line.backoff.running(now).is_some()).map(|(kind, _)| kind)
    }

    /// When a task first asked.
    pub(super) fn since(&self, name: &str) -> Option<Timestamp> {
        self.tasks.get(name).map(|task| task.since)
    }

    /// When the pause of a kind ends.
    pub(super) fn pause_ends(&self, kind: &ResourceKind, now: Timestamp) -> Option<Timestamp> {
        self.lines.get(kind)?.backoff.until(now)
    }

    fn why(&self, request: &Request, now: Timestamp) -> Why {
        let line = self.lines.get(&request.kind);
        if let Some(told) = line.filter(|line| !line.admits(request, now)).and_then(Line::told) {
            return Why::refused(told, request);
        }
        let left = self.left();
        let mut short = Vec::new();
        let mut taken = Vec::new();
        for (quota, left) in self.quotas.values().zip(&left) {
            let share = quota.share(request);
            if share.is_empty() {
                continue;
            }
            let lacks = |name: &String| left.get(name) < share.get(name);
            let lacking: Amounts = share
                .iter()
                .filter(|(name, _)| lacks(name))
                .map(|(name, amount)| (name.clone(), amount.clone()))
                .collect();
            if !lacking.is_empty() || quota.is_uncounted(&share) {
                short.push(shortage(quota, left, if lacking.is_empty() { share } else { lacking }));
            } else {
                taken.push(shortage(quota, left, share));
            }
        }
        if short.is_empty() { Why::turn(&taken) } else { Why::quota(&short) }
    }

    /// Quotas that could never take the request.
    fn impossible(&self, request: &Request) -> Vec<ExceededQuota> {
        let over = |quota: &Quota| {
            let mut share = quota.share(request);
            share.retain(|name, amount| quota.hard.get(name).is_some_and(|hard| *amount > *hard));
            (!share.is_empty()).then(|| shortage(quota, &quota.left(), share))
        };
        self.quotas.values().filter_map(over).collect()
    }

    fn left(&self) -> Left {
        let left = self.quotas.values().map(|quota| {
            let [there, on_their_way] = self.charges.missing_from(quota);
            let used = if quota.has_scopes() { quota.used.clone() } else { self.live.at_least(&quota.used, &there) };
            let mut left = quota.hard.clone();
            for taken in [&used, &there, &on_their_way] {
                amounts::take(&mut left, taken);
            }
            left
        });
        left.collect()
    }

    fn fits(&self, shares: &Left, left: &Left) -> bool {
        self.quotas.values().zip(shares).zip(left).all(|((quota, share), left)| {
            !quota.is_uncounted(share)
                && share.iter().all(|(name, amount)| left.get(name).is_some_and(|left| left >= amount))
        })
    }

    fn holds(&self, rank: &Rank, settings: &GateSettings, now: Timestamp) -> bool {
        let Some(task) = self.tasks.get(&rank.name) else { return false };
        let begin = later(task.since, settings.hold_after);
        begin <= now && now < later(begin, settings.hold_for)
    }

    /// Puts a task among those that wait, with this request from now on.
    fn enter(&mut self, rank: &Rank, request: Arc<Request>, now: Timestamp) {
        let before = self.take_out(&rank.name);
        self.waiting.entry(Arc::clone(&request)).or_default().insert(rank.clone());
        let (since, said, learned) =
            before.map_or((now, None, Amounts::new()), |task| (task.since, task.said, task.learned));
        let task = Task { rank: rank.clone(), request, learned, since, stage: Stage::Waiting, said };
        self.tasks.insert(Arc::clone(&rank.name), task);
    }

    /// Keeps room for a waiting task.
    fn let_go(&mut self, rank: &Rank, now: Timestamp) {
        let Some(task) = self.tasks.get_mut(&rank.name) else { return };
        let request = Arc::clone(&task.request);
        task.stage = Stage::Called { at: now, charge: self.charges.add(&request, &self.quotas) };
        self.stop_waiting(&request, rank);
        if let Some(line) = self.lines.get_mut(&request.kind) {
            line.begin();
        }
    }

    /// Whoever was called and did not come loses the room. The answer is who that was: should its call have been lost, it
    /// would otherwise not ask again for minutes.
    fn expire(&mut self, now: Timestamp) -> Vec<Arc<str>> {
        self.charges.expire(&self.quotas, now);
        self.live.expire(now);
        let late = |task: &Task| matches!(task.stage, Stage::Called { at, .. } if later(at, COMES_WITHIN) <= now);
        let late: Vec<_> =
            self.tasks.values().filter(|task| late(task)).map(|task| Arc::clone(&task.rank.name)).collect();
        for name in &late {
            self.leave(name);
        }
        self.drop_idle_lines();
        late
    }

    fn set_stage(&mut self, name: &str, stage: Stage) {
        if let Some(task) = self.tasks.get_mut(name) {
            task.stage = stage;
        }
    }

    /// Nothing was taken.
    fn give_back(&mut self, ticket: &Ticket) {
        if let Some(charge) = ticket.charge {
            self.end_try(&ticket.request.kind);
            self.charges.remove(charge, &self.quotas);
        }
    }

    fn end_try(&mut self, kind: &ResourceKind) {
        if let Some(line) = self.lines.get_mut(kind) {
            line.end();
        }
    }

    fn forget(&mut self, name: &str) {
        drop(self.take_out(name));
    }

    fn take_out(&mut self, name: &str) -> Option<Task> {
        let task = self.tasks.remove(name)?;
        self.stop_waiting(&task.request, &task.rank);
        Some(task)
    }

    fn stop_waiting(&mut self, request: &Arc<Request>, rank: &Rank) {
        if let Some(ranks) = self.waiting.get_mut(request) {
            ranks.remove(rank);
            if ranks.is_empty() {
                self.waiting.remove(request);
            }
        }
    }

    fn drop_idle_lines(&mut self) {
        self.lines.retain(|_, line| !line.is_idle());
    }
}

fn take_all(left: &mut Left, shares: &Left) {
    for (left, share) in left.iter_mut().zip(shares) {
        amounts::take(left, share);
    }
}

/// A quota in the words of a refusal, with what is on its way counted as used.
fn shortage(quota: &Quota, left: &Amounts, requested: Amounts) -> ExceededQuota {
    let named = |amounts: &Amounts| -> Amounts {
        amounts
            .iter()
            .filter(|(name, _)| requested.contains_key(*name))
            .map(|(name, amount)| (name.clone(), amount.clone()))
            .collect()
    };
    let limited = named(&quota.hard);
    let mut used = limited.clone();
    amounts::take(&mut used, left);
    if quota.is_uncounted(&requested) {
        used.clear();
    }
    ExceededQuota { name: quota.name.clone(), requested, used, limited }
}
