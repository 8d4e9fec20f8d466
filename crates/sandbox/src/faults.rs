//! Things that go wrong on request, so that programs can be tested against them.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::random::Random;
use crate::status::ApiError;

/// Which requests are meant; what is `None` means any.
#[derive(Clone, Debug, Default)]
pub struct Match {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: Option<String>,
    /// The plural name, with `/status` and the like behind it for parts.
    pub resource: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: Option<String>,
}

/// A request, as faults see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen<'a> {
    pub verb: &'a str,
    pub resource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

type Decide = Box<dyn Fn(&str, &str, &str, &str) -> Option<ApiError> + Send + Sync>;

/// One thing that goes wrong.
pub enum Fault {
    /// These requests are refused, this many times.
    Times(Match, u16, usize),
    /// These requests are refused, with this probability.
    Sometimes(Match, u16, f64),
    /// These requests take this much longer.
    Slow(Match, Duration),
    /// Verb, resource, namespace and name decide.
    Decide(Decide),
}

/// All that goes wrong now.
#[derive(Debug)]
pub struct Faults {
    active: Mutex<Vec<Fault>>,
    watches: watch::Sender<u64>,
    random: Random,
}

impl Match {
    /// Requests of this verb about this resource.
    #[must_use]
    pub fn of(verb: &str, resource: &str) -> Self {
        Self { verb: Some(verb.to_owned()), resource: Some(resource.to_owned()), ..Self::default() }
    }

    fn takes(&self, seen: &Seen<'_>) -> bool {
        let fits = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        fits(&self.verb, seen.verb)
            && fits(&self.resource, seen.resource)
            && fits(&self.namespace, seen.namespace)
            && fits(&self.name, seen.name)
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

impl Default for Faults {
    fn default() -> Self {
        Self { active: Mutex::default(), watches: watch::Sender::new(0), random: Random::default() }
    }
}

impl Faults {
    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }

    /// All goes well again.
    pub fn clear(&self) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Closes all watches that are open.
    pub fn drop_watches(&self) {
        self.watches.send_modify(|count| *count += 1);
    }

    pub(crate) fn watches(&self) -> watch::Receiver<u64> {
        self.watches.subscribe()
    }

    /// What this request meets: a delay, and perhaps a refusal.
    pub(crate) fn meet(&self, seen: &Seen<'_>) -> (Duration, Option<ApiError>) {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut delay, mut refusal) = (Duration::ZERO, None);
        let refuse = |code: u16| Some(ApiError::of_code(code, format!("injected fault: {code}")));
        for fault in active.iter_mut() {
            let found = match fault {
                Fault::Slow(which, more) if which.takes(seen) => {
                    delay += *more;
                    None
                }
                Fault::Times(which, code, left) if *left > 0 && refusal.is_none() && which.takes(seen) => {
                    *left -= 1;
                    refuse(*code)
                }
                Fault::Sometimes(which, code, chance) if which.takes(seen) && self.random.happens(*chance) => {
                    refuse(*code)
                }
                Fault::Decide(decide) => decide(seen.verb, seen.resource, seen.namespace, seen.name),
                _ => None,
            };
            refusal = refusal.or(found);
        }
        active.retain(|fault| !matches!(fault, Fault::Times(_, _, 0)));
        (delay, refusal)
    }
}
