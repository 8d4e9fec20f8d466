//! The launch gate: every create request for an object asks here for a permit, or waits.
//!
//! Where the executor may watch ResourceQuotas, the gate does not permit a create request that a quota would refuse. Where
//! it may not, or where the API server refuses a create request for another temporary reason, create requests of the same
//! kind in the same namespace back off. In both cases the action waits and loses no attempt. Waiting actions are served by
//! age. The gate wakes an action when its turn has come, so a waiting action sends no request to the API server.
//!
//! # States of a create request
//!
//! Each transition is named after the method that makes it.
//!
//! ```mermaid
//! stateDiagram-v2
//!     [*] --> Waiting: Gate.request_permit → PendingCreates.enqueue
//!     [*] --> Permitted: Gate.request_permit, nothing is limited in the namespace
//!     [*] --> NeverFits: Gate.request_permit, the request exceeds a limit
//!     Waiting --> Reserved: NamespaceAdmission.wake_fitting → reserve, and the action is woken
//!     Reserved --> Permitted: Gate.request_permit → PendingCreates.permit
//!     Reserved --> [*]: NamespaceAdmission.expire after RESERVATION_TIMEOUT, and the action is woken to ask again
//!     Waiting --> [*]: Gate.withdraw
//!     Reserved --> [*]: Gate.withdraw
//!     Permitted --> Created: CreatePermit.created
//!     Permitted --> Waiting: CreatePermit.refused for quota or overload, back-off starts
//!     Permitted --> Waiting: CreatePermit.not_sent, the kind is in back-off since
//!     Permitted --> NeverFits: CreatePermit.refused, the request exceeds a limit
//!     Permitted --> ResultUnknown: CreatePermit.refused for another reason, or dropped
//!     Created --> [*]: the quotas show the object, or USAGE_VISIBLE_WITHIN has passed
//!     ResultUnknown --> [*]: USAGE_VISIBLE_WITHIN has passed
//!     NeverFits --> [*]: the action fails
//! ```
//!
//! From *Reserved* to the end of *Created* or *ResultUnknown* the create request has a reservation: its quota usage is
//! subtracted from what is available to others. While its kind is in back-off, a create request does not become *Reserved*,
//! unless it is smaller than every refused create request.
//!
//! # Modules
//!
//! A module uses only modules below it in this table, and modules of the crate outside the gate.
//!
//! | module | content |
//! | --- | --- |
//! | `gate` (this file) | [`Gate`]: the public interface |
//! | `permit` | [`CreatePermit`]: reports the result of a create request |
//! | `shared` | the lock, and how namespaces are changed under it |
//! | `gauges` | metrics |
//! | `namespace` | events of one namespace and their effect; `wakeups`: which actions are woken; `reasons`: why actions wait |
//! | `pending_creates` | the state of each create request, as in the diagram above |
//! | `blocking_causes` | how long an obstacle has lasted, before actions report it |
//! | `waiting_reason` | [`WaitingReason`]: what a waiting action reports |
//! | `kind_throttle` | back-off and probing for one kind |
//! | `selection` | which waiting actions fit: a pure function |
//! | `waiting_queue` | the waiting actions by age |
//! | `hold` | when free quota is held for the oldest action |
//! | `namespace_quotas` | how much of the quotas is available |
//! | `quota_shortage` | which quotas are too small for a create request |
//! | `reservations` | usage that the quotas do not show yet |
//! | `own_usage` | a lower bound of the usage: the executor's own objects |
//! | `settling` | quota that became free a moment ago |
//! | `release_burst` | objects that end shortly after one another |
//! | `settings` | [`GateSettings`] |

mod blocking_causes;
mod gauges;
mod hold;
mod kind_throttle;
mod namespace;
mod namespace_quotas;
mod own_usage;
mod pending_creates;
mod permit;
mod quota_shortage;
mod release_burst;
mod reservations;
mod selection;
mod settings;
mod settling;
mod shared;
mod waiting_queue;
mod waiting_reason;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use aileron_machinery::time::clock::{Clock, SystemClock};
use aileron_machinery::{ActionKey, ResourceKind};

use self::namespace::{Decision, NamespaceAdmission, PermittedCreate};
pub use self::permit::{CreatePermit, RefusedCreate};
pub use self::settings::GateSettings;
use self::shared::{Namespaces, SharedGate};
use self::waiting_queue::QueuePosition;
use self::waiting_reason::never_fits;
pub use self::waiting_reason::{Waiting, WaitingReason};
use crate::create_request::CreateRequest;
use crate::quota::Quota;
use crate::waker::{ActionWaker, NoWaker};

/// How many actions are woken per [`Gate::maintain`] to report another reason. Each of them writes to the API server, and
/// thousands may wait.
const MAX_REASON_UPDATES: usize = 50;

/// The gate. All methods are cheap and do not block on I/O.
pub struct Gate {
    shared: SharedGate,
}

/// The answer to an action that wants to create its object.
pub enum Admission<'a> {
    /// Send the create request, and report the result to the permit.
    Permit(CreatePermit<'a>),
    /// Wait until the gate wakes the action.
    Wait(Waiting),
    /// The create request exceeds the limit of a quota and can never fit. The text is for users.
    NeverFits(String),
}

impl Default for Gate {
    /// A gate for programs without a controller: it has the default settings, wakes no action and uses the system clock.
    fn default() -> Self {
        Self::new(GateSettings::default(), Box::new(NoWaker), Arc::new(SystemClock))
    }
}

impl Gate {
    /// A gate without any state. The clock is used only for permits that are dropped without a result.
    #[must_use]
    pub fn new(settings: GateSettings, waker: Box<dyn ActionWaker>, clock: Arc<dyn Clock>) -> Self {
        Self { shared: SharedGate::new(settings, waker, clock) }
    }

    /// An action wants to create its object now.
    pub fn request_permit(&self, key: &ActionKey, request: CreateRequest, now: Instant) -> Admission<'_> {
        // Among actions whose creation time is not known the order of names decides.
        let created_at = self.shared.waker.created_at(key).unwrap_or_default();
        let position = QueuePosition { created_at, action: Arc::clone(&key.name) };
        let request = Arc::new(request);
        let permit = |reservation, first_asked| {
            let create = PermittedCreate { position: position.clone(), request: Arc::clone(&request), reservation };
            CreatePermit::new(&self.shared, Arc::clone(&key.namespace), create, first_asked)
        };
        let is_unlimited = {
            let namespaces = self.shared.lock();
            namespaces.by_name.get(&key.namespace).is_none_or(|admission| admission.is_unlimited(&request.kind))
        };
        if is_unlimited {
            return Admission::Permit(permit(None, now));
        }
        self.shared.update(&key.namespace, |admission, to_wake| {
            let first_asked = admission.first_asked(&key.name).unwrap_or(now);
            let (decision, woken) = admission.request_permit(&position, &request, &self.shared.settings, now);
            *to_wake = woken;
            match decision {
                Decision::Permit(reservation) => Admission::Permit(permit(Some(reservation), first_asked)),
                Decision::NeverFits(quotas) => Admission::NeverFits(never_fits(&quotas)),
                Decision::Wait => {
                    let kind = request.kind.kind.to_string();
                    let reason = admission.report_reason(&key.name, now);
                    let code = reason.code.as_str();
                    metrics::counter!("aileron_launches_held_total", "kind" => kind, "reason" => code).increment(1);
                    Admission::Wait(Waiting { reason, recheck_at: self.shared.recheck_at(&key.name, now) })
                }
            }
        })
    }

    /// An action no longer wants to create an object, and has none.
    pub fn withdraw(&self, key: &ActionKey, now: Instant) {
        self.shared.update_known(&key.namespace, |admission, to_wake| {
            admission.withdraw(&key.name, &self.shared.settings, now);
            *to_wake = admission.wake_fitting(&self.shared.settings, now);
        });
    }

    /// The object of an action ended, so its quota usage will become free.
    pub fn object_ended(&self, key: &ActionKey, kind: &ResourceKind, now: Instant) {
        self.shared.update_known(&key.namespace, |admission, to_wake| {
            if admission.object_ended(&key.name, kind, &self.shared.settings, now) {
                *to_wake = admission.wake_fitting(&self.shared.settings, now);
            }
        });
    }

    /// The watch shows a quota that is new or changed.
    pub fn quota_changed(&self, namespace: &str, quota: &Quota, now: Instant) {
        self.shared.update(&namespace.into(), |admission, to_wake| {
            admission.quota_changed(quota, &self.shared.settings, now);
            *to_wake = admission.wake_fitting(&self.shared.settings, now);
        });
    }

    /// A quota was deleted.
    pub fn quota_deleted(&self, namespace: &str, name: &str, now: Instant) {
        self.shared.update(&namespace.into(), |admission, to_wake| {
            admission.retain_quotas(|other| other != name, now);
            *to_wake = admission.wake_fitting(&self.shared.settings, now);
        });
    }

    /// The watch has listed all quotas: only these exist, by namespace and name.
    pub fn quotas_listed(&self, listed: &BTreeSet<(String, String)>, now: Instant) {
        metrics::gauge!("aileron_local_admission").set(1.0);
        self.retain_quotas(|namespace, name| listed.contains(&(namespace.to_owned(), name.to_owned())), now);
    }

    /// The executor may not watch quotas, or not any more. What it saw last must not block actions for ever.
    pub fn quotas_not_visible(&self, now: Instant) {
        metrics::gauge!("aileron_local_admission").set(0.0);
        self.retain_quotas(|_, _| false, now);
    }

    /// Wakes the actions whose turn has come by time alone. Returns when to call this method again; with `None` a call is
    /// needed only after a [change](Self::wait_for_change).
    pub fn wake_due(&self, now: Instant) -> Option<Instant> {
        let with_pending: Vec<_> = self.shared.lock().with_pending.iter().cloned().collect();
        let next_wakes = with_pending.iter().filter_map(|namespace| {
            self.shared.update_silently(namespace, |admission, to_wake| {
                *to_wake = admission.wake_fitting(&self.shared.settings, now);
                admission.next_wake(&self.shared.settings, now)
            })
        });
        next_wakes.min()
    }

    /// Ends when the result of [`wake_due`](Self::wake_due) may have changed.
    pub async fn wait_for_change(&self) {
        self.shared.wait_for_change().await;
    }

    /// Forgets actions that the executor no longer knows, wakes actions whose reported reason no longer applies, publishes
    /// the gauges, and drops namespaces without state. To be called every few seconds.
    pub fn maintain(&self, now: Instant) {
        let mut namespaces = self.shared.lock();
        let mut outdated = Vec::new();
        for (namespace, admission) in &mut namespaces.by_name {
            let key = |name: &Arc<str>| ActionKey { namespace: Arc::clone(namespace), name: Arc::clone(name) };
            let is_known = |name: &Arc<str>| self.shared.waker.created_at(&key(name)).is_some();
            admission.forget_unknown(is_known, &self.shared.settings, now);
            let limit = MAX_REASON_UPDATES.saturating_sub(outdated.len());
            outdated.extend(admission.outdated_reasons(limit, now).iter().map(key));
        }
        let Namespaces { by_name, gauges, .. } = &mut *namespaces;
        gauges.publish(by_name, now);
        by_name.retain(|_, admission| !admission.is_idle());
        drop(namespaces);
        for key in outdated {
            self.shared.waker.wake(&key);
        }
    }

    /// How many actions the gate has state for.
    #[must_use]
    pub fn known_actions(&self) -> usize {
        self.shared.lock().by_name.values().map(NamespaceAdmission::known_actions).sum()
    }

    /// Drops all quotas that do not exist, by namespace and name.
    fn retain_quotas(&self, exists: impl Fn(&str, &str) -> bool, now: Instant) {
        let namespaces: Vec<_> = self.shared.lock().by_name.keys().cloned().collect();
        for namespace in namespaces {
            self.shared.update(&namespace, |admission, to_wake| {
                admission.retain_quotas(|name| exists(&namespace, name), now);
                *to_wake = admission.wake_fitting(&self.shared.settings, now);
            });
        }
    }
}

#[cfg(test)]
mod tests;
