//! The local services of the control plane with faults: slow answers, refused requests and lost answers.
//!
//! The services themselves are those of the sandbox (`aileron-flyte-local`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aileron_flyte_local::{Cache, Call, EventStore, Refusal, Server, Services};
use aileron_idl::flyteidl2::workflow::ActionEvent;
use anyhow::{Context, Result, bail};
use axum::body::Bytes;
use jiff::Timestamp;
use tokio::sync::Notify;

pub use aileron_flyte_local::Code;

/// How the services misbehave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fault {
    /// Every answer is delayed by this time.
    pub delay: Duration,
    /// What goes wrong.
    pub kind: FaultKind,
    /// How many requests are affected; `None` means all until [`EventsStub::heal`].
    pub times: Option<usize>,
}

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing.
    #[default]
    None,
    /// The request is refused before it is carried out.
    RefusalRule(Code),
    /// The request is neither carried out nor answered, also not after [`EventsStub::heal`].
    Hang,
    /// The request is carried out, but the answer is `unavailable`. An executor that delivers at least once sends the
    /// request again.
    LoseAnswer,
}

/// An event that was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// When the event arrived.
    pub at: Timestamp,
    /// The number of the `Record` request, counted from 0. Events of one batch have the same number.
    pub request: usize,
    /// The event.
    pub event: ActionEvent,
}

/// The services, listening on loopback until dropped.
#[derive(Debug)]
pub struct EventsStub {
    server: Server,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when events were stored.
    arrived: Notify,
}

#[derive(Debug)]
struct State {
    services: Services<RecordedEvents>,
    fault: Fault,
}

/// The events in memory, in order of arrival.
#[derive(Debug, Default)]
struct RecordedEvents {
    events: Vec<Recorded>,
    /// `Record` requests so far, refused requests included.
    requests: usize,
}

impl Fault {
    /// Every request is refused with `code`.
    #[must_use]
    pub fn refuse(code: Code) -> Self {
        Self { kind: FaultKind::RefusalRule(code), ..Self::default() }
    }

    /// Every answer is delayed by this time.
    #[must_use]
    pub fn slow(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// No request is answered.
    #[must_use]
    pub fn hang() -> Self {
        Self { kind: FaultKind::Hang, ..Self::default() }
    }

    /// Every request is carried out, and its answer is lost.
    #[must_use]
    pub fn lose_answers() -> Self {
        Self { kind: FaultKind::LoseAnswer, ..Self::default() }
    }

    /// Only the next `times` requests.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times: Some(times), ..self }
    }

    /// The fault of the next request. Counts that request.
    fn take(&mut self) -> Self {
        let current = *self;
        match &mut self.times {
            Some(0 | 1) => *self = Self::default(),
            Some(left) => *left -= 1,
            None => {}
        }
        current
    }
}

impl EventStore for RecordedEvents {
    fn store(&mut self, events: Vec<ActionEvent>, now: Timestamp) -> Result<(), Refusal> {
        let request = self.requests - 1;
        self.events.extend(events.into_iter().map(|event| Recorded { at: now, request, event }));
        Ok(())
    }
}

impl EventsStub {
    /// Starts the services on a free port.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let answering = Arc::clone(&shared);
        let server = Server::start(None, move |call| {
            let shared = Arc::clone(&answering);
            async move { shared.answer(&call).await }
        });
        Ok(Self { server: server.await.context("cannot listen on loopback")?, shared })
    }

    /// The base address for the executor's configuration.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url().to_owned()
    }

    /// Sets the fault of all following requests.
    pub fn fault(&self, fault: Fault) {
        self.shared.state().fault = fault;
    }

    /// Removes the fault.
    pub fn heal(&self) {
        self.fault(Fault::default());
    }

    /// All stored events in order of arrival, duplicates included.
    #[must_use]
    pub fn events(&self) -> Vec<Recorded> {
        self.shared.state().services.events.events.clone()
    }

    /// The events of the action with this name.
    #[must_use]
    pub fn events_of(&self, action: &str) -> Vec<Recorded> {
        self.events().into_iter().filter(|recorded| action_name(&recorded.event) == action).collect()
    }

    /// The number of `Record` requests so far, refused requests included.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.shared.state().services.events.requests
    }

    /// Inspects or changes the cache.
    pub fn with_cache<T>(&self, inspect: impl FnOnce(&mut Cache) -> T) -> T {
        inspect(&mut self.shared.state().services.cache)
    }

    /// Waits until `done` returns true for the events so far, and returns these events.
    ///
    /// # Errors
    /// `done` did not return true within `timeout`; the error lists the events that arrived.
    pub async fn wait_for(&self, timeout: Duration, done: impl Fn(&[Recorded]) -> bool) -> Result<Vec<Recorded>> {
        let complete = async {
            loop {
                let arrival = self.shared.arrived.notified();
                let events = self.events();
                if done(&events) {
                    return events;
                }
                arrival.await;
            }
        };
        match tokio::time::timeout(timeout, complete).await {
            Ok(events) => Ok(events),
            Err(_) => {
                let seen: Vec<_> = self.events().iter().map(|recorded| summary(&recorded.event)).collect();
                bail!("the expected events did not arrive within {timeout:?}; these did:\n{}", seen.join("\n"))
            }
        }
    }
}

impl Default for Shared {
    fn default() -> Self {
        let services = Services { events: RecordedEvents::default(), cache: Cache::recording_calls() };
        Self { state: Mutex::new(State { services, fault: Fault::default() }), arrived: Notify::new() }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a call, with the current fault.
    async fn answer(&self, call: &Call) -> Result<Bytes, Refusal> {
        let fault = {
            let mut state = self.state();
            state.services.events.requests += usize::from(call.records_events());
            state.fault.take()
        };
        tokio::time::sleep(fault.delay).await;
        match fault.kind {
            FaultKind::RefusalRule(code) => return Err(code.with_message("refused by a fault of the test")),
            FaultKind::Hang => std::future::pending().await,
            FaultKind::None | FaultKind::LoseAnswer => {}
        }
        let outcome = self.state().services.answer(call, Timestamp::now());
        self.arrived.notify_waiters();
        match fault.kind {
            FaultKind::LoseAnswer => Err(Code::Unavailable.with_message("answer lost by a fault of the test")),
            _ => outcome,
        }
    }
}

fn action_name(event: &ActionEvent) -> &str {
    event.id.as_ref().map_or("", |id| &id.name)
}

fn summary(event: &ActionEvent) -> String {
    format!("{} attempt {} {:?} v{}", action_name(event), event.attempt, event.phase(), event.version)
}

#[cfg(test)]
mod tests;
