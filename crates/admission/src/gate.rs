//! The launch gate: every create of an object passes here, or waits.
//!
//! A create that quota would refuse is not sent where the quotas of the cluster can be seen; where they cannot, or where
//! the server refuses for a reason that passes, creates of the same kind in the same namespace pause. Either way the task
//! waits without losing anything, in the order of age, and is called when it is its turn: a waiting task asks nothing of
//! anybody.
//!
//! | module | question it answers |
//! | --- | --- |
//! | [`request`] | what does creating an object take |
//! | [`quota`] | what is allowed and taken, and whom does a quota mean |
//! | [`refusal`], [`quota_message`] | what does a refusal mean |
//! | [`backoff`] | how long do creates pause |
//! | `room` | how much is left |
//! | `space` | who may go next in a namespace |
//! | [`pass`] | what came of a create |

mod charges;
mod kind_queue;
mod namespace;
mod own_usage;
pub mod permit;
mod room;
mod settling;
pub mod waiting_reason;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aileron_machinery::{ActionKey, ResourceKind};
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::namespace::{Decision, NamespaceAdmission, Rank, Ticket};
use self::permit::{CreatePermit, Waiting};
use crate::backoff::{BackoffSettings, later};
use crate::quota::Quota;
use crate::request::Request;
use crate::waker::{ActionWaker, NoWaker};

/// What an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSettings {
    /// `tasks.backoff`.
    pub backoff: BackoffSettings,
    /// `tasks.launch-gate.hold-after`: when the oldest waiting task has waited so long, room is kept for it.
    pub hold_after: Duration,
    /// `tasks.launch-gate.hold-for`: for at most so long.
    pub hold_for: Duration,
    /// `tasks.launch-gate.settle`: room that appears is used after so long.
    pub settle: Duration,
}

/// The gate.
pub struct Gate {
    settings: GateSettings,
    waker: Box<dyn ActionWaker>,
    inner: Mutex<Inner>,
    /// Something may be due earlier than before.
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    spaces: HashMap<Arc<str>, NamespaceAdmission>,
    /// Namespaces in which somebody waits.
    busy: BTreeSet<Arc<str>>,
    /// Pauses and reasons that gauges showed, to be shown as nothing when they are over.
    shown_pauses: BTreeSet<(String, String)>,
    shown_reasons: BTreeSet<&'static str>,
}

/// What a task is told at the gate.
pub enum Answer<'a> {
    /// Create the object.
    Go(CreatePermit<'a>),
    /// Wait.
    Wait(Waiting),
    /// Fail: there will never be room. The text says why.
    Never(String),
}

/// A waiting task is called, so looking by itself only guards against a call that was missed, and renews what it says.
const LOOK: Duration = Duration::from_secs(120);
/// How many tasks write down a new reason per tidying: a thousand of them are no reason to keep the server busy.
const NEWS_AT_ONCE: usize = 50;
/// Such looks are spread over this time.
const SPREAD: u64 = 60;

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            backoff: BackoffSettings::default(),
            hold_after: Duration::from_secs(60),
            hold_for: Duration::from_secs(600),
            settle: Duration::from_millis(150),
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new(GateSettings::default(), Box::new(NoWaker))
    }
}

impl Gate {
    /// A gate before which nobody waits yet.
    #[must_use]
    pub fn new(settings: GateSettings, waker: Box<dyn ActionWaker>) -> Self {
        Self { settings, waker, inner: Mutex::default(), changed: Notify::new() }
    }

    /// A task wants to create its object now.
    pub fn ask(&self, key: &ActionKey, request: Request, now: Timestamp) -> Answer<'_> {
        // Without a time the order of names decides.
        let created = self.waker.created(key).unwrap_or_default();
        let rank = Rank { created, name: Arc::clone(&key.name) };
        let request = Arc::new(request);
        let pass = |charge, since| CreatePermit {
            gate: self,
            namespace: Arc::clone(&key.namespace),
            ticket: Ticket { rank: rank.clone(), request: Arc::clone(&request), charge },
            since,
            settled: false,
        };
        if self.lock().spaces.get(&key.namespace).is_none_or(|space| space.is_open(&request.kind)) {
            return Answer::Go(pass(None, now));
        }
        self.with(&key.namespace, |space, called| {
            let since = space.since(&key.name).unwrap_or(now);
            let (decision, others) = space.ask(&rank, &request, &self.settings, now);
            *called = others;
            match decision {
                Decision::Go(charge) => Answer::Go(pass(Some(charge), since)),
                Decision::Never(quotas) => Answer::Never(permit::never(&quotas)),
                Decision::Wait => {
                    let kind = request.kind.kind.to_string();
                    let why = space.tell(&key.name, now);
                    let reason = why.reason.as_str();
                    metrics::counter!("aileron_launches_held_total", "kind" => kind, "reason" => reason).increment(1);
                    Answer::Wait(Waiting { why, look_at: self.look_at(&key.name, now) })
                }
            }
        })
    }

    /// A task no longer wants to create anything, and has no object.
    pub fn leave(&self, key: &ActionKey, now: Timestamp) {
        self.with_known(&key.namespace, |space, called| {
            space.leave(&key.name, &self.settings, now);
            *called = space.call(&self.settings, now);
        });
    }

    /// The object of an action ended, and what it took will be free.
    pub fn freed(&self, key: &ActionKey, kind: &ResourceKind, now: Timestamp) {
        self.with_known(&key.namespace, |space, called| {
            if space.freed(&key.name, kind, &self.settings, now) {
                *called = space.call(&self.settings, now);
            }
        });
    }

    /// A quota is there, or changed.
    pub fn quota_seen(&self, namespace: &str, quota: &Quota, now: Timestamp) {
        self.with(&namespace.into(), |space, called| {
            space.quota_seen(quota, &self.settings, now);
            *called = space.call(&self.settings, now);
        });
    }

    /// A quota is gone.
    pub fn quota_gone(&self, namespace: &str, name: &str, now: Timestamp) {
        self.with(&namespace.into(), |space, called| {
            space.retain_quotas(|other| other != name, now);
            *called = space.call(&self.settings, now);
        });
    }

    /// There are no other quotas than these; `None` means that quotas cannot be seen.
    pub fn quotas_listed(&self, listed: Option<&BTreeSet<(String, String)>>, now: Timestamp) {
        metrics::gauge!("aileron_local_admission").set(if listed.is_some() { 1.0 } else { 0.0 });
        let namespaces: Vec<_> = self.lock().spaces.keys().cloned().collect();
        let is_listed = |namespace: &str, name: &str| {
            listed.is_some_and(|listed| listed.contains(&(namespace.to_owned(), name.to_owned())))
        };
        for namespace in namespaces {
            self.with(&namespace, |space, called| {
                space.retain_quotas(|name| is_listed(&namespace, name), now);
                *called = space.call(&self.settings, now);
            });
        }
    }

    /// Calls tasks whose time has come, until cancelled.
    pub async fn tend(&self, cancel: CancellationToken) {
        loop {
            let now = Timestamp::now();
            let due = self.call_due(now);
            let pause = due.map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
            let changed = self.changed.notified();
            tokio::select! {
                () = cancel.cancelled() => return,
                () = changed => {}
                // A moment more, or the clock might still be before what is due.
                () = tokio::time::sleep(pause.unwrap_or(LOOK) + Duration::from_millis(1)) => {}
            }
        }
    }

    /// Calls tasks whose time has come. The answer is when the next time comes.
    pub fn call_due(&self, now: Timestamp) -> Option<Timestamp> {
        let busy: Vec<_> = self.lock().busy.iter().cloned().collect();
        let dues = busy.iter().filter_map(|namespace| {
            self.with_quietly(namespace, |space, called| {
                *called = space.call(&self.settings, now);
                space.due(&self.settings, now)
            })
        });
        dues.min()
    }

    /// Forgets actions that are gone, has those look again that are kept by something else than they say, and brings the
    /// gauges up to date.
    pub fn tidy(&self, now: Timestamp) {
        let mut inner = self.lock();
        let mut outdated = Vec::new();
        for (namespace, space) in &mut inner.spaces {
            let key = |name: &Arc<str>| ActionKey { namespace: Arc::clone(namespace), name: Arc::clone(name) };
            space.tidy(|name| self.waker.created(&key(name)).is_some(), &self.settings, now);
            let most = NEWS_AT_ONCE.saturating_sub(outdated.len());
            outdated.extend(space.outdated(most, now).iter().map(key));
        }
        self.show(&mut inner, now);
        drop(inner);
        for key in outdated {
            self.waker.wake(&key);
        }
    }

    fn show(&self, inner: &mut Inner, now: Timestamp) {
        let Inner { spaces, shown_pauses, shown_reasons, .. } = inner;
        let mut reasons: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut pauses = BTreeSet::new();
        for (namespace, space) in spaces.iter() {
            space.count(now, |why, count| *reasons.entry(why.reason.as_str()).or_default() += count);
            pauses.extend(space.paused(now).map(|kind| (kind.kind.to_string(), namespace.to_string())));
        }
        shown_reasons.extend(reasons.keys());
        for reason in shown_reasons.iter() {
            let count = reasons.get(reason).copied().unwrap_or_default();
            metrics::gauge!("aileron_launches_waiting", "reason" => *reason).set(count as f64);
        }
        shown_pauses.extend(pauses.iter().cloned());
        for (kind, namespace) in shown_pauses.iter() {
            let active = if pauses.contains(&(kind.clone(), namespace.clone())) { 1.0 } else { 0.0 };
            metrics::gauge!("aileron_backoff_active", "kind" => kind.clone(), "namespace" => namespace.clone())
                .set(active);
        }
        *shown_pauses = pauses;
        spaces.retain(|_, space| !space.is_idle());
    }

    /// Works on a namespace if anything is known of it.
    fn with_known(&self, namespace: &Arc<str>, work: impl FnOnce(&mut NamespaceAdmission, &mut Vec<Arc<str>>)) {
        if self.lock().spaces.contains_key(namespace) {
            self.with(namespace, work);
        }
    }

    /// Works on a namespace, and wakes whoever was called.
    fn with<T>(&self, namespace: &Arc<str>, work: impl FnOnce(&mut NamespaceAdmission, &mut Vec<Arc<str>>) -> T) -> T {
        let result = self.with_quietly(namespace, work);
        self.changed.notify_one();
        result
    }

    fn with_quietly<T>(
        &self,
        namespace: &Arc<str>,
        work: impl FnOnce(&mut NamespaceAdmission, &mut Vec<Arc<str>>) -> T,
    ) -> T {
        let mut called = Vec::new();
        let mut inner = self.lock();
        let space = inner.spaces.entry(Arc::clone(namespace)).or_default();
        let result = work(space, &mut called);
        if space.is_busy() {
            inner.busy.insert(Arc::clone(namespace));
        } else {
            inner.busy.remove(namespace);
        }
        drop(inner);
        for name in called {
            tracing::debug!(%namespace, %name, "called to create its object");
            self.waker.wake(&ActionKey { namespace: Arc::clone(namespace), name });
        }
        result
    }

    fn look_at(&self, name: &str, now: Timestamp) -> Timestamp {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(name);
        later(now, LOOK + Duration::from_secs(hash % SPREAD))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while the lock is held.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
