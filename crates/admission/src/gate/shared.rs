//! The state of the gate behind its lock, shared by the gate and the permits it gave out.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aileron_machinery::ActionKey;
use aileron_machinery::time::clock::Clock;
use tokio::sync::Notify;

use super::gauges::Gauges;
use super::namespace::{NamespaceAdmission, ToWake};
use super::settings::GateSettings;
use crate::time::after;
use crate::waker::ActionWaker;

/// A waiting action asks again after this time, even if the gate has not woken it. This only guards against a lost
/// wake-up, and refreshes the numbers in the reported reason, so it may be long.
const RECHECK_INTERVAL: Duration = Duration::from_secs(120);

/// The rechecks of different actions are spread over this many seconds, so that thousands of waiting actions do not ask at
/// the same time.
const RECHECK_SPREAD_SECONDS: u64 = 60;

/// The gate without its public methods.
pub(super) struct SharedGate {
    pub(super) settings: GateSettings,
    pub(super) waker: Box<dyn ActionWaker>,
    /// Tells the time only when a permit is dropped without a result; everything else gets the time from its caller.
    pub(super) clock: Arc<dyn Clock>,
    namespaces: Mutex<Namespaces>,
    changed: Notify,
}

/// All namespaces with admission state.
#[derive(Default)]
pub(super) struct Namespaces {
    pub(super) by_name: HashMap<Arc<str>, NamespaceAdmission>,
    /// Namespaces with create requests that are not settled.
    pub(super) with_pending: BTreeSet<Arc<str>>,
    pub(super) gauges: Gauges,
}

impl SharedGate {
    pub(super) fn new(settings: GateSettings, waker: Box<dyn ActionWaker>, clock: Arc<dyn Clock>) -> Self {
        Self { settings, waker, clock, namespaces: Mutex::default(), changed: Notify::new() }
    }

    /// Changes a namespace, wakes the actions that `change` names, and ends [`wait_for_change`](Self::wait_for_change).
    pub(super) fn update<T>(
        &self,
        namespace: &Arc<str>,
        change: impl FnOnce(&mut NamespaceAdmission, &mut ToWake) -> T,
    ) -> T {
        let result = self.update_silently(namespace, change);
        self.changed.notify_one();
        result
    }

    /// Like [`update`](Self::update), but only if the namespace has admission state.
    pub(super) fn update_known(&self, namespace: &Arc<str>, change: impl FnOnce(&mut NamespaceAdmission, &mut ToWake)) {
        if self.lock().by_name.contains_key(namespace) {
            self.update(namespace, change);
        }
    }

    /// Like [`update`](Self::update), but does not end [`wait_for_change`](Self::wait_for_change).
    pub(super) fn update_silently<T>(
        &self,
        namespace: &Arc<str>,
        change: impl FnOnce(&mut NamespaceAdmission, &mut ToWake) -> T,
    ) -> T {
        let mut to_wake = Vec::new();
        let mut namespaces = self.lock();
        let admission = namespaces.by_name.entry(Arc::clone(namespace)).or_default();
        let result = change(admission, &mut to_wake);
        if admission.has_pending() {
            namespaces.with_pending.insert(Arc::clone(namespace));
        } else {
            namespaces.with_pending.remove(namespace);
        }
        drop(namespaces);
        for name in to_wake {
            tracing::debug!(%namespace, %name, "waking the action to ask for its create permit");
            self.waker.wake(&ActionKey { namespace: Arc::clone(namespace), name });
        }
        result
    }

    /// Ends after the next [`update`](Self::update), or at once if there was one since the last call.
    pub(super) async fn wait_for_change(&self) {
        self.changed.notified().await;
    }

    /// When a waiting action should ask again, even if the gate has not woken it.
    pub(super) fn recheck_at(&self, action: &str, now: Instant) -> Instant {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(action);
        after(now, RECHECK_INTERVAL + Duration::from_secs(hash % RECHECK_SPREAD_SECONDS))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Namespaces> {
        // No code panics while it holds the lock.
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
