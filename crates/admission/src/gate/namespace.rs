//! One namespace at the gate: its quotas, who waits, and who may go next.
//!
//! Everything here is decided from what was told and the time that is handed in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aileron_machinery::ResourceKind;
use jiff::Timestamp;

use super::GateSettings;
use super::charges::ChargeId;
use super::kind_queue::KindQueue;
use super::room::{self, Room};
use super::waiting_reason::{LastReportedReason, Why};
use crate::amounts::{self, Amounts};
use crate::backoff::later;
use crate::quota::Quota;
use crate::quota::message::ExceededQuota;
use crate::refusal::Refusal;
use crate::request::Request;

/// How long a task that was called may take to come. Its round begins within moments; one that does not come found
/// something else to do, or is gone, and the room is for others.
const COMES_WITHIN: Duration = Duration::from_secs(5);

/// Where a try to free room is made after something ended, when usage is not visible: the controller that counts usage
/// needs a moment.
const COUNTED_WITHIN: Duration = Duration::from_millis(150);

/// How long something else must have kept a task before it says so.
const LASTING: Duration = Duration::from_secs(10);

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
pub(super) struct NamespaceAdmission {
    room: Room,
    lines: BTreeMap<ResourceKind, KindQueue>,
    tasks: HashMap<Arc<str>, Task>,
    /// Those of the tasks that wait, alike ones together: if the oldest of them does not fit, none does. So thousands of
    /// waiting tasks cost no more than their different shapes.
    waiting: BTreeMap<Arc<Request>, BTreeSet<Rank>>,
    /// Since when there is always somebody who waits.
    line_since: Option<Timestamp>,
    /// Those of the tasks that were called, and when.
    called: BTreeSet<(Timestamp, Arc<str>)>,
    /// What keeps those that are alike, and since when it is this.
    causes: BTreeMap<Arc<Request>, (String, Timestamp)>,
}

#[derive(Debug)]
struct Task {
    rank: Rank,
    request: Arc<Request>,
    /// More than the object says, as a refusal told.
    learned: Amounts,
    since: Timestamp,
    stage: Stage,
    said: Option<LastReportedReason>,
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

/// Whether room is kept for the oldest task.
struct Hold {
    is_held: bool,
    /// How long this stays so; nothing for ever.
    until: Option<Timestamp>,
}

impl Hold {
    /// Room is not kept at first, then for a while, and so on: what takes it may never end, but neither may those who
    /// overtake.
    fn at(since: Timestamp, settings: &GateSettings, now: Timestamp) -> Self {
        let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        let round = (settings.hold_after + settings.hold_for).as_nanos();
        let Some(begun) = waited.as_nanos().checked_rem(round) else { return Self { is_held: false, until: None } };
        let is_held = begun >= settings.hold_after.as_nanos();
        let turn = if is_held { round } else { settings.hold_after.as_nanos() };
        let left = Duration::from_nanos_u128(turn - begun);
        Self { is_held, until: Some(later(now, left)) }
    }
}

impl NamespaceAdmission {
    /// Nothing here would keep a create of this kind from being tried, and nobody waits.
    pub(super) fn is_open(&self, kind: &ResourceKind) -> bool {
        !self.room.is_limited() && self.tasks.is_empty() && !self.lines.contains_key(kind)
    }

    /// Nothing is worth remembering.
    pub(super) fn is_idle(&self) -> bool {
        self.room.is_idle() && self.tasks.is_empty() && self.lines.is_empty()
    }

    /// Forgets actions that are not known any more, since nobody says so of one that vanished in an outage, and whatever
    /// else is long over.
    pub(super) fn tidy(&mut self, is_known: impl Fn(&Arc<str>) -> bool, settings: &GateSettings, now: Timestamp) {
        self.room.retain_objects(&is_known);
        let lost: Vec<_> = self.tasks.keys().filter(|name| !is_known(name)).cloned().collect();
        for name in lost {
            self.leave(&name, settings, now);
        }
        self.drop_idle_lines(now);
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
        self.room.ended(&rank.name, settings.settle, now);
        let request = match self.tasks.get(&rank.name) {
            Some(task) if !task.learned.is_empty() => Arc::new(request.raised(&task.learned)),
            _ => Arc::clone(request),
        };
        let impossible = self.room.impossible(&request);
        if !impossible.is_empty() {
            self.leave(&rank.name, settings, now);
            return (Decision::Never(impossible), self.call(settings, now));
        }
        match self.tasks.get(&rank.name).map(|task| (task.stage, task.request == request)) {
            Some((Stage::Called { charge, .. }, true)) => {
                self.begin(&rank.name, charge);
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
        self.begin(&rank.name, charge);
        (Decision::Go(charge), called)
    }

    /// A create went through.
    pub(super) fn created(&mut self, ticket: &Ticket, version: Option<u64>, now: Timestamp) {
        let Ticket { rank, request, charge } = ticket;
        if let Some(charge) = charge {
            self.end_try(&request.kind);
            self.room.taken(*charge, version, now);
            self.forget(&rank.name);
            self.room.made(&rank.name, request, now);
        }
        if let Some(line) = self.lines.get_mut(&request.kind) {
            line.succeeded(request, now);
        }
        self.drop_idle_lines(now);
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
            .or_insert_with(|| KindQueue::new(settings.backoff))
            .refused(refusal, now, random);
        let mut learned = self.tasks.get(&rank.name).map(|task| task.learned.clone()).unwrap_or_default();
        if let Refusal::Quota(quotas) = refusal {
            self.room.refused(settings.settle, now);
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
            self.room.taken(charge, None, now);
            self.forget(&ticket.rank.name);
        }
    }

    /// A task no longer wants anything.
    pub(super) fn leave(&mut self, name: &str, settings: &GateSettings, now: Timestamp) {
        self.room.ended(name, settings.settle, now);
        let Some(task) = self.tasks.get(name) else { return };
        match task.stage {
            Stage::Waiting => {}
            Stage::Called { charge, .. } => {
                let kind = task.request.kind.clone();
                self.end_try(&kind);
                self.room.give_back(charge);
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
    pub(super) fn quota_seen(&mut self, quota: &Quota, settings: &GateSettings, now: Timestamp) {
        if self.room.seen(quota, settings.settle, now) {
            self.hurry(now);
        }
    }

    /// Quotas went.
    pub(super) fn retain_quotas(&mut self, keep: impl Fn(&str) -> bool, now: Timestamp) {
        if self.room.retain(keep) {
            self.hurry(now);
        }
    }

    /// The object of an action ended. Where usage is visible the quota itself will tell, or has told already and was not
    /// believed.
    pub(super) fn freed(&mut self, name: &str, kind: &ResourceKind, settings: &GateSettings, now: Timestamp) -> bool {
        if self.room.ended(name, settings.settle, now) {
            return true;
        }
        if self.room.is_limited() || self.waiting.is_empty() {
            return false;
        }
        let Some(line) = self.lines.get_mut(kind) else { return false };
        line.backoff.freed(later(now, COUNTED_WITHIN));
        true
    }

    /// Calls those who may go now, the oldest first, and keeps room for them. The answer is who was called.
    ///
    /// A younger task may pass an older one that does not fit. But when the oldest of all has waited for long, the room it
    /// needs is kept free for a while, and again later, or small tasks could keep a large one out for ever.
    pub(super) fn call(&mut self, settings: &GateSettings, now: Timestamp) -> Vec<Arc<str>> {
        let mut called = self.expire(settings, now);
        if self.waiting.is_empty() {
            return called;
        }
        let mut left = self.room.left();
        let mut heads = BTreeMap::new();
        for (request, ranks) in &self.waiting {
            if !self.room.impossible(request).is_empty() {
                // The quota was lowered. They will be told when they ask.
                called.extend(ranks.iter().map(|rank| Arc::clone(&rank.name)));
            } else if let Some(first) = ranks.first() {
                let shares = self.room.shares(request);
                heads.insert(first.clone(), (Arc::clone(request), shares));
            }
        }
        let oldest = heads.keys().next().cloned();
        if self.lets_others_count(settings, now) {
            return called;
        }
        while let Some((rank, (request, shares))) = heads.pop_first() {
            let admitted = self.lines.get(&request.kind).is_none_or(|line| line.admits(&request, now));
            if admitted && self.room.fits(&shares, &left) {
                room::take(&mut left, &shares);
                self.let_go(&rank, now);
                called.push(Arc::clone(&rank.name));
                if let Some(next) = self.waiting.get(&request).and_then(BTreeSet::first) {
                    heads.insert(next.clone(), (request, shares));
                }
            } else if admitted && oldest.as_ref() == Some(&rank) && self.holds(&rank, settings, now) {
                room::take(&mut left, &shares);
            }
        }
        called
    }

    /// When time alone will change something.
    pub(super) fn due(&self, settings: &GateSettings, now: Timestamp) -> Option<Timestamp> {
        let called = self.called.first().map(|(at, _)| later(*at, COMES_WITHIN));
        if self.waiting.is_empty() {
            return called;
        }
        let pauses = self.waiting.keys().filter_map(|request| self.lines.get(&request.kind)?.backoff.until(now)).min();
        let oldest = self.waiting.values().filter_map(BTreeSet::first).min();
        let since = oldest.and_then(|rank| Some(self.tasks.get(&rank.name)?.since));
        let turn = since.and_then(|since| Hold::at(since, settings, now).until);
        [called, pauses, self.room.due(settings.settle), turn].into_iter().flatten().min()
    }

    /// What a waiting task is told; a text that differs only in numbers is renewed rarely.
    pub(super) fn tell(&mut self, name: &str, now: Timestamp) -> Why {
        let Some(why) = self.tasks.get(name).map(|task| self.why(&task.request, now)) else { return Why::default() };
        match self.tasks.get_mut(name) {
            Some(task) => LastReportedReason::renew(&mut task.said, why, now),
            None => why,
        }
    }

    /// Who should say something else than it does, at most so many; a cause that comes and goes is not news.
    pub(super) fn outdated(&mut self, most: usize, now: Timestamp) -> Vec<Arc<str>> {
        let mut causes = BTreeMap::new();
        let mut outdated = Vec::new();
        for (request, ranks) in &self.waiting {
            let cause = self.why(request, now).into_subject();
            let since =
                self.causes.get(request).filter(|(before, _)| *before == cause).map_or(now, |(_, since)| *since);
            if later(since, LASTING) <= now {
                let said = |rank: &&Rank| self.tasks.get(&rank.name).and_then(|task| task.said.as_ref());
                let others = ranks.iter().filter(|rank| said(rank).is_some_and(|said| !said.is_about(&cause)));
                outdated.extend(others.take(most - outdated.len()).map(|rank| Arc::clone(&rank.name)));
            }
            causes.insert(Arc::clone(request), (cause, since));
        }
        self.causes = causes;
        outdated
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
        if let Some(told) = line.filter(|line| !line.admits(request, now)).and_then(KindQueue::told) {
            return Why::refused(told, request);
        }
        let concerned = self.room.concerned(request);
        if concerned.short.is_empty() { Why::turn(&concerned.ample) } else { Why::quota(&concerned.short) }
    }

    /// There is more room than when creates were refused.
    fn hurry(&mut self, now: Timestamp) {
        self.lines.values_mut().for_each(|line| line.backoff.freed(now));
    }

    /// Whether those who wait had better wait a moment more. Where there is no line there is room, and no reason to be
    /// careful.
    fn lets_others_count(&self, settings: &GateSettings, now: Timestamp) -> bool {
        self.line_since.is_some_and(|since| later(since, settings.settle) <= now)
            && self.room.calm_at(settings.settle).is_some_and(|at| now < at)
    }

    fn holds(&self, rank: &Rank, settings: &GateSettings, now: Timestamp) -> bool {
        self.tasks.get(&rank.name).is_some_and(|task| Hold::at(task.since, settings, now).is_held)
    }

    /// Puts a task among those that wait, with this request from now on.
    fn enter(&mut self, rank: &Rank, request: Arc<Request>, now: Timestamp) {
        let before = self.take_out(&rank.name);
        self.waiting.entry(Arc::clone(&request)).or_default().insert(rank.clone());
        self.line_since.get_or_insert(now);
        let (since, said, learned) =
            before.map_or((now, None, Amounts::new()), |task| (task.since, task.said, task.learned));
        let task = Task { rank: rank.clone(), request, learned, since, stage: Stage::Waiting, said };
        self.tasks.insert(Arc::clone(&rank.name), task);
    }

    /// Keeps room for a waiting task.
    fn let_go(&mut self, rank: &Rank, now: Timestamp) {
        let Some(task) = self.tasks.get_mut(&rank.name) else { return };
        let request = Arc::clone(&task.request);
        task.stage = Stage::Called { at: now, charge: self.room.keep(&request) };
        self.called.insert((now, Arc::clone(&rank.name)));
        self.stop_waiting(&request, rank);
        if let Some(line) = self.lines.get_mut(&request.kind) {
            line.begin();
        }
    }

    /// Whoever was called and did not come loses the room. The answer is who that was: should its call have been lost, it
    /// would otherwise not ask again for minutes.
    fn expire(&mut self, settings: &GateSettings, now: Timestamp) -> Vec<Arc<str>> {
        self.room.expire(settings.settle, now);
        let mut late = Vec::new();
        while let Some((_, name)) = self.called.first().filter(|(at, _)| later(*at, COMES_WITHIN) <= now).cloned() {
            self.leave(&name, settings, now);
            late.push(name);
        }
        self.drop_idle_lines(now);
        late
    }

    /// Its create is on its way now.
    fn begin(&mut self, name: &str, charge: ChargeId) {
        if let Some(task) = self.tasks.get_mut(name) {
            let before = std::mem::replace(&mut task.stage, Stage::Trying { charge });
            self.not_called(name, before);
        }
    }

    /// Nothing was taken.
    fn give_back(&mut self, ticket: &Ticket) {
        if let Some(charge) = ticket.charge {
            self.end_try(&ticket.request.kind);
            self.room.give_back(charge);
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
        self.not_called(name, task.stage);
        Some(task)
    }

    fn not_called(&mut self, name: &str, stage: Stage) {
        if let Stage::Called { at, .. } = stage {
            self.called.remove(&(at, name.into()));
        }
    }

    fn stop_waiting(&mut self, request: &Arc<Request>, rank: &Rank) {
        if let Some(ranks) = self.waiting.get_mut(request) {
            ranks.remove(rank);
            if ranks.is_empty() {
                self.waiting.remove(request);
            }
            if self.waiting.is_empty() {
                self.line_since = None;
            }
        }
    }

    fn drop_idle_lines(&mut self, now: Timestamp) {
        let waiting = &self.waiting;
        let is_wanted = |kind: &ResourceKind| waiting.keys().any(|request| request.kind == *kind);
        self.lines.retain(|kind, line| !line.is_idle() && (!line.is_stale(now) || is_wanted(kind)));
    }
}
