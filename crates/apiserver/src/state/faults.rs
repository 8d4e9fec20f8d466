//! Injected faults, with which programs test how they handle errors and delays of the API server.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::random::Random;
use crate::errors::ApiError;

/// Selects requests. A field that is `None` matches every request.
#[derive(Clone, Debug, Default)]
pub struct Match {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: Option<String>,
    /// The plural name of the resource; with a subresource, for example `pods/status`.
    pub resource: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: Option<String>,
}

/// The properties of a request that faults are selected by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo<'a> {
    pub verb: &'a str,
    pub resource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Returns the error for a request, given its verb, resource, namespace and name.
type Decide = Box<dyn Fn(&str, &str, &str, &str) -> Option<ApiError> + Send + Sync>;

/// A fault.
pub enum Fault {
    /// The next matching requests fail with this code, this many times.
    Times(Match, u16, usize),
    /// Matching requests fail with this code, with this probability.
    Sometimes(Match, u16, f64),
    /// Matching requests are delayed.
    Slow(Match, Duration),
    /// A function of verb, resource, namespace and name decides.
    Decide(Decide),
}

/// The faults that are active at the moment.
#[derive(Debug)]
pub struct Faults {
    active: Mutex<Vec<Fault>>,
    /// Notifies all open watches when they are to be closed.
    watches: Arc<Notify>,
    random: Random,
}

impl Match {
    /// Matches requests with this verb and resource.
    #[must_use]
    pub fn of(verb: &str, resource: &str) -> Self {
        Self { verb: Some(verb.to_owned()), resource: Some(resource.to_owned()), ..Self::default() }
    }

    fn matches(&self, request: &RequestInfo<'_>) -> bool {
        let fits = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        fits(&self.verb, request.verb)
            && fits(&self.resource, request.resource)
            && fits(&self.namespace, request.namespace)
            && fits(&self.name, request.name)
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(which, code, times) => f.debug_tuple("Times").field(which).field(code).field(times).finish(),
            Self::Sometimes(which, code, p) => f.debug_tuple("Sometimes").field(which).field(code).field(p).finish(),
            Self::Slow(which, delay) => f.debug_tuple("Slow").field(which).field(delay).finish(),
            Self::Decide(_) => f.write_str("Decide"),
        }
    }
}

impl Faults {
    /// No faults. The random numbers decide which requests a fault with a probability selects.
    pub(crate) fn new(random: Random) -> Self {
        Self { active: Mutex::default(), watches: Arc::default(), random }
    }

    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Closes all open watches.
    pub fn drop_watches(&self) {
        self.watches.notify_waiters();
    }

    /// Completes at the next call of [`Faults::drop_watches`].
    pub(crate) fn watches_dropped(&self) -> OwnedNotified {
        self.watches.clone().notified_owned()
    }

    /// The delay of this request, and its error if it is to fail.
    pub(crate) fn outcome(&self, request: &RequestInfo<'_>) -> (Duration, Option<ApiError>) {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut delay, mut refusal) = (Duration::ZERO, None);
        let refuse = |code: u16| Some(ApiError::of_code(code, format!("injected fault: {code}")));
        for fault in active.iter_mut() {
            let found = match fault {
                Fault::Slow(which, more) if which.matches(request) => {
                    delay += *more;
                    None
                }
                Fault::Times(which, code, left) if *left > 0 && refusal.is_none() && which.matches(request) => {
                    *left -= 1;
                    refuse(*code)
                }
                Fault::Sometimes(which, code, chance) if which.matches(request) && self.random.chance(*chance) => {
                    refuse(*code)
                }
                Fault::Decide(decide) => decide(request.verb, request.resource, request.namespace, request.name),
                _ => None,
            };
            refusal = refusal.or(found);
        }
        active.retain(|fault| !matches!(fault, Fault::Times(_, _, 0)));
        (delay, refusal)
    }
}
