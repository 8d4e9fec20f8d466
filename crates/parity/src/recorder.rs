//! Records what executors do on a cluster, as the history that the rules of `aileron-history` check.
//!
//! | source | content | order |
//! | --- | --- | --- |
//! | etcd, or the store of the sandbox | every change of pods, TaskActions and leases | by revision |
//! | audit log, or the journal of the sandbox | every write of an executor | by time |
//! | events stub | every event | by time |
//!
//! No change is lost: the followers continue after the last revision that they have seen, and a follower that cannot do so
//! makes every later check fail. A real server is followed at etcd, because an API server that was restarted cannot continue
//! a watch.
//!
//! # From times to revisions
//!
//! Events and requests have times, and the rules want revisions. An event gets the highest revision that a follower had
//! delivered when the event was stored. That revision had been written by then, so the event seems to be as early as it was
//! or earlier. The rule that an event comes before a status can therefore miss a violation within the delay of the follower
//! (milliseconds), and never reports a false one.
//!
//! # Who leads
//!
//! See [`leadership`]. Two executors can be told apart because they act as different users ([`User`]) and send their events
//! to different addresses ([`EventsStub::listen_for`](crate::events_stub::EventsStub::listen_for)); [`Recorder::started`] says
//! which process a user is.

mod changes;
mod etcd;
pub mod leadership;
mod requests;
mod sandbox;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aileron_history::check::{self, Evidence, FinalState, Violation, has_ended};
use aileron_history::history::{Entry, What};
use aileron_history::plan::PlannedTask;
use aileron_history::traces::Traces;
use anyhow::{Context, Result, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::changes::{Changes, Kind};
use self::leadership::{InTransit, Lives};
use crate::cluster::{Cluster, RequestReader, TimedRequest, User};
use crate::events_stub::{EventsStub, Recorded};

/// Tokens of the pool for tasks of type `licensed`, on every bench.
pub(crate) const POOL_LIMIT: usize = 1;
/// How long the followers may take to deliver the last changes. They need milliseconds on an idle machine.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two looks at the followers.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Requests and events are examined when they are this old. By then the followers have delivered the lease of that time.
const EXAMINED_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// A round that began before everything had ended may still record an event, for example of an abort whose action is already
/// gone. Events are recorded at least once, so this is no violation.
const LAST_ROUNDS: Duration = Duration::from_secs(3);
/// How many lines of the history an error shows for each violation.
const SHOWN_LINES: usize = 60;

/// Follows a cluster until dropped.
pub struct Recorder {
    began: Timestamp,
    client: Client,
    changes: Arc<Mutex<Changes>>,
    state: Mutex<State>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct State {
    reader: RequestReader,
    /// Writes that are too young to be examined.
    requests: Vec<TimedRequest>,
    followed: mpsc::UnboundedReceiver<Recorded>,
    /// Events that are too young to be examined.
    events: Vec<Recorded>,
    lives: Lives,
    in_transit: InTransit,
    /// What was examined: writes, events, and what the test did.
    entries: Vec<Entry>,
}

/// What a check needs beside the history.
#[derive(Debug, Default)]
pub struct Expectations {
    /// How each task ends.
    pub tasks: Vec<PlannedTask>,
    /// What the test did to objects and actions.
    pub traces: Traces,
    /// Requests to the API server failed.
    pub api_faults: bool,
    /// Before the check, executors must write nothing for this long.
    pub quiet_for: Duration,
}

/// The part of the history about some actions, with the objects that exist at its end.
#[derive(Debug, Default)]
pub struct Part {
    /// The entries, in the order of their revisions.
    pub entries: Vec<Entry>,
    /// The objects that exist.
    pub end: FinalState,
}

/// What came of a check.
#[derive(Debug, Default)]
pub struct Conclusion {
    /// The broken rules.
    pub violations: Vec<Violation>,
    /// The history that was checked.
    pub entries: Vec<Entry>,
    /// What was checked beside the history.
    pub evidence: Evidence,
}

impl Recorder {
    /// Starts to follow a cluster. Call it before executors start: it needs the definition of TaskAction.
    ///
    /// # Errors
    /// The cluster was started without [`Options::recorded`](crate::cluster::Options::recorded), or does not answer.
    pub async fn start(cluster: &Cluster, stub: &EventsStub) -> Result<Self> {
        let changes = Arc::<Mutex<Changes>>::default();
        let stop = CancellationToken::new();
        match (cluster.etcd_url(), cluster.sandbox()) {
            (Some(url), _) => {
                ensure!(cluster.is_recorded(), "set Options::recorded when the cluster is started");
                tokio::spawn(stop.clone().run_until_cancelled_owned(etcd::follow(url, Arc::clone(&changes))));
            }
            (None, Some(server)) => sandbox::follow(server, &changes, &stop),
            (None, None) => bail!("the cluster has neither an etcd nor a store"),
        }
        let state = State {
            reader: cluster.follow_requests(),
            requests: Vec::new(),
            followed: stub.follow(),
            events: Vec::new(),
            lives: Lives::default(),
            in_transit: InTransit::default(),
            entries: Vec::new(),
        };
        let client = cluster.client(User::Admin).await?;
        Ok(Self { began: Timestamp::now(), client, changes, state: Mutex::new(state), _stop: stop.drop_guard() })
    }

    /// A process that acts as `user` starts now. `name` is the name of its pod, with which its identity in the leader lease
    /// begins.
    pub fn started(&self, user: User, name: &str) {
        self.state().lives.started(user, name, Timestamp::now());
        self.happened(name, "starts");
    }

    /// A process has ended.
    pub fn ended(&self, name: &str, how: &str) {
        self.state().lives.ended(name, Timestamp::now());
        self.happened(name, how);
    }

    /// A process was stopped with SIGSTOP.
    pub fn paused(&self, name: &str) {
        self.happened(name, "is paused");
    }

    /// A paused process goes on now. Call it before the signal is sent.
    pub fn continues(&self, name: &str) {
        self.state().lives.continued(name, Timestamp::now());
        self.happened(name, "goes on");
    }

    /// Adds a remark, for example about a fault.
    pub fn note(&self, text: impl Into<String>) {
        self.remark(What::Note(text.into()));
    }

    fn happened(&self, process: &str, text: &str) {
        self.remark(What::Process { process: process.into(), text: text.to_owned() });
    }

    fn remark(&self, what: What) {
        let now = Timestamp::now();
        let entry = Entry { at: since(self.began, now), revision: self.changes().revision_at(now), what };
        self.state().entries.push(entry);
    }

    /// Fails if changes were lost.
    ///
    /// # Errors
    /// A follower could not continue where it had stopped.
    pub fn check_complete(&self) -> Result<()> {
        match &self.changes().problem {
            Some(problem) => bail!("the history is not complete: {problem}"),
            None => Ok(()),
        }
    }

    /// Waits until the followers have delivered the current state of all objects.
    ///
    /// # Errors
    /// The followers do not get there, or have lost changes.
    pub async fn until_caught_up(&self) -> Result<()> {
        let begin = Instant::now();
        for kind in Kind::ALL {
            loop {
                self.check_complete()?;
                let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind.api_resource());
                let behind = match api.list(&ListParams::default()).await {
                    Ok(list) => self.changes().behind(kind, &list.items),
                    Err(error) => Some(error.to_string()),
                };
                let Some(behind) = behind else { break };
                ensure!(begin.elapsed() < CATCH_UP_TIMEOUT, "the follower of {} is behind: {behind}", kind.plural());
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// The objects of all actions that were not retired, as the followers have delivered them.
    #[must_use]
    pub fn existing(&self) -> FinalState {
        let changes = self.changes();
        changes.end(&|namespace, name| !changes.retired.contains(&(namespace.to_owned(), name.to_owned())))
    }

    /// The identity in the leader lease, if there is one.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        self.changes().leases.holder()
    }

    /// Examines requests and events that are old enough: who sent them, and whether that process led. Call it from time to
    /// time in a long run, so that old leases and requests need not be kept. Returns the time up to which everything is examined.
    ///
    /// # Errors
    /// The history is not complete, or the audit log cannot be read.
    pub fn examine(&self) -> Result<Timestamp> {
        self.check_complete()?;
        let now = Timestamp::now();
        let until = self.changes().last_delivery().unwrap_or(now).min(now - EXAMINED_AFTER);
        self.examine_until(until)?;
        self.changes().forget_before(until - EXAMINED_AFTER);
        Ok(until)
    }

    fn examine_until(&self, until: Timestamp) -> Result<()> {
        let (changes, mut state) = (self.changes(), self.state());
        let State { reader, requests, followed, events, lives, in_transit, entries } = &mut *state;
        requests.extend(reader.read()?.into_iter().filter(requests::is_examined));
        while let Ok(event) = followed.try_recv() {
            events.push(event);
        }
        let examination = requests::Examination { began: self.began, changes: &changes, lives };
        let old = requests.extract_if(.., |request| request.received <= until);
        old.for_each(|request| entries.extend(examination.request(&request, in_transit)));
        let old = events.extract_if(.., |event| event.arrived <= until);
        old.for_each(|event| entries.push(examination.event(&event, in_transit)));
        Ok(())
    }

    /// Takes what is recorded about some actions, and all examined writes, out of the memory. `belongs` gets namespace and
    /// name of an action.
    pub fn take(&self, belongs: &dyn Fn(&str, &str) -> bool) -> Part {
        let mut entries: Vec<_> = self
            .state()
            .entries
            .extract_if(.., |entry| match &entry.what {
                What::Event { event, .. } => belongs(&event.run, &event.action),
                _ => true,
            })
            .collect();
        let mut changes = self.changes();
        let end = changes.end(belongs);
        entries.extend(changes.take(self.began, belongs));
        drop(changes);
        // Stable: at one revision the change comes first, then what happened after it, by time.
        entries.sort_by_key(|entry| (entry.revision, !matches!(entry.what, What::Changed { .. }), entry.at));
        Part { entries, end }
    }

    /// Later changes of these actions are not recorded. Call it with what [`Recorder::take`] has taken, before the objects are
    /// removed from the cluster.
    pub fn retire(&self, actions: impl IntoIterator<Item = (String, String)>) {
        self.changes().retired.extend(actions);
    }

    /// Waits until everything is recorded and rounds under way have ended, then for `quiet_for`, and takes all that is recorded out of the memory. Also
    /// returns what executors did while it waited.
    ///
    /// # Errors
    /// The history is not complete, or the API server does not answer.
    pub async fn finish(&self, quiet_for: Duration) -> Result<(Part, Vec<Entry>)> {
        if !quiet_for.is_zero() {
            tokio::time::sleep(LAST_ROUNDS).await;
        }
        self.until_caught_up().await?;
        let quiet_from = since(self.began, Timestamp::now());
        tokio::time::sleep(quiet_for).await;
        self.until_caught_up().await?;
        self.examine_until(Timestamp::now())?;
        let retired = self.changes().retired.clone();
        let part = self.take(&|namespace, name| !retired.contains(&(namespace.to_owned(), name.to_owned())));
        let is_act = |what: &What| matches!(what, What::Answered { .. } | What::Event { .. });
        let later = |entry: &&Entry| !quiet_for.is_zero() && entry.at > quiet_from && is_act(&entry.what);
        let writes_after = part.entries.iter().filter(later).cloned().collect();
        Ok((part, writes_after))
    }

    /// Checks the whole history by all rules.
    ///
    /// # Errors
    /// The history is not complete, or the API server does not answer.
    pub async fn conclude(&self, expectations: Expectations) -> Result<Conclusion> {
        let Expectations { tasks, traces, api_faults, quiet_for } = expectations;
        let (Part { entries, end }, writes_after) = self.finish(quiet_for).await?;
        let settled = end.actions.iter().all(|action| has_ended(action));
        let (pool_limit, memory) = (POOL_LIMIT, Vec::new());
        let evidence = Evidence {
            tasks,
            traces,
            api_faults,
            pool_limit,
            settled,
            writes_after,
            end,
            memory,
            ..Evidence::default()
        };
        Ok(Conclusion::of(entries, evidence))
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("began", &self.began).finish_non_exhaustive()
    }
}

impl Conclusion {
    /// Checks a history by all rules.
    #[must_use]
    pub fn of(entries: Vec<Entry>, evidence: Evidence) -> Self {
        Self { violations: check::all(entries.clone(), &evidence), entries, evidence }
    }

    /// Fails with the broken rules and what happened to the actions that they name.
    ///
    /// # Errors
    /// A rule is broken.
    pub fn ensure_kept(&self) -> Result<()> {
        ensure!(self.violations.is_empty(), "{}", self.explain());
        Ok(())
    }

    /// The broken rules, and what happened to the actions that they name.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for violation in &self.violations {
            let _ = writeln!(text, "BROKEN {violation}");
            for line in about(&violation.text, &self.entries) {
                let _ = writeln!(text, "    {line}");
            }
        }
        text
    }
}

/// The last lines of the history about the actions that a text names, with what happened to processes at that time.
fn about(text: &str, entries: &[Entry]) -> Vec<String> {
    let words: BTreeSet<&str> = text.split(|end: char| end.is_whitespace() || ":,;".contains(end)).collect();
    let names = |entry: &Entry| match &entry.what {
        What::Changed { object, .. } => {
            let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            let owner = text("/metadata/ownerReferences/0/name");
            vec![text("/metadata/name"), format!("{}/{}", text("/metadata/namespace"), text("/metadata/name")), owner]
        }
        What::Event { event, .. } => vec![event.action.clone(), format!("{}/{}", event.run, event.action)],
        What::Sent { request, .. } | What::Answered { request, .. } => {
            vec![request.name.clone(), format!("{}/{}", request.namespace, request.name)]
        }
        What::Process { .. } | What::Note(_) => Vec::new(),
    };
    let chosen: Vec<&Entry> =
        entries.iter().filter(|entry| names(entry).iter().any(|name| words.contains(name.as_str()))).collect();
    let (Some(first), Some(last)) = (chosen.first().map(|entry| entry.at), chosen.last().map(|entry| entry.at)) else {
        let from = entries.len().saturating_sub(SHOWN_LINES);
        return entries[from..].iter().map(ToString::to_string).collect();
    };
    let is_remark = |entry: &Entry| matches!(entry.what, What::Process { .. } | What::Note(_));
    let mut shown: Vec<&Entry> =
        entries.iter().filter(|entry| is_remark(entry) && entry.at >= first && entry.at <= last).collect();
    shown.extend(chosen);
    shown.sort_by_key(|entry| entry.at);
    shown[shown.len().saturating_sub(SHOWN_LINES)..].iter().map(ToString::to_string).collect()
}

fn since(began: Timestamp, at: Timestamp) -> Duration {
    at.duration_since(began).try_into().unwrap_or_default()
}

/// The namespaced name of an action.
fn place(object: &Value) -> (&str, &str) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    (text("/metadata/namespace"), text("/metadata/name"))
}

/// The time in a field, such as `spec.renewTime` of a lease.
fn time_in(object: &Value, path: &str) -> Result<Timestamp> {
    object.pointer(path).and_then(Value::as_str).context("no time")?.parse().context("not a time")
}
