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
use tokio::sync::{Notify, mpsc};

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
    /// Which service misbehaves.
    pub service: Service,
}

/// A service of the control plane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Service {
    /// Both.
    #[default]
    Both,
    /// The events service.
    Events,
    /// The cache service.
    Cache,
}

impl Service {
    fn affects(self, call: &Call) -> bool {
        match self {
            Self::Both => true,
            Self::Events => call.records_events(),
            Self::Cache => !call.records_events(),
        }
    }
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
    /// When the request with this event arrived. A fault may delay it before it is stored.
    pub arrived: Timestamp,
    /// When the event was stored.
    pub at: Timestamp,
    /// Who sent it, if it came through a [`Listener`].
    pub sender: Option<Arc<str>>,
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

/// A second address of the same services, for one sender. Events that arrive there are recorded with its name. The address
/// is closed when this value is dropped.
#[derive(Debug)]
pub struct Listener {
    server: Server,
}

impl Listener {
    /// The base address for the configuration of the sender.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url().to_owned()
    }
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
    followers: Vec<mpsc::UnboundedSender<Recorded>>,
    /// Sender and time of arrival of the request that is being answered.
    sender: Option<Arc<str>>,
    arrived: Timestamp,
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

    /// Only requests to this service.
    #[must_use]
    pub fn of(self, service: Service) -> Self {
        Self { service, ..self }
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
        for event in events {
            let recorded = Recorded { arrived: self.arrived, at: now, sender: self.sender.clone(), request, event };
            self.followers.retain(|follower| follower.send(recorded.clone()).is_ok());
            self.events.push(recorded);
        }
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
        Ok(Self { server: serve(&shared, None).await?, shared })
    }

    /// Opens another address for one sender.
    ///
    /// # Errors
    /// No port is free.
    pub async fn listen_for(&self, sender: &str) -> Result<Listener> {
        Ok(Listener { server: serve(&self.shared, Some(sender.into())).await? })
    }

    /// All events that are stored from now on.
    #[must_use]
    pub fn follow(&self) -> mpsc::UnboundedReceiver<Recorded> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.shared.state().services.events.followers.push(sender);
        receiver
    }

    /// Drops the stored events. A program that runs for hours calls it, to bound its memory.
    pub fn forget_events(&self) {
        self.shared.state().services.events.events.clear();
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

async fn serve(shared: &Arc<Shared>, sender: Option<Arc<str>>) -> Result<Server> {
    let shared = Arc::clone(shared);
    let server = Server::start(None, move |call| {
        let (shared, sender) = (Arc::clone(&shared), sender.clone());
        async move { shared.answer(&call, sender).await }
    });
    server.await.context("cannot listen on loopback")
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
    async fn answer(&self, call: &Call, sender: Option<Arc<str>>) -> Result<Bytes, Refusal> {
        let arrived = Timestamp::now();
        let fault = {
            let mut state = self.state();
            state.services.events.requests += usize::from(call.records_events());
            if state.fault.service.affects(call) { state.fault.take() } else { Fault::default() }
        };
        tokio::time::sleep(fault.delay).await;
        match fault.kind {
            FaultKind::RefusalRule(code) => return Err(code.with_message("refused by a fault of the test")),
            FaultKind::Hang => std::future::pending().await,
            FaultKind::None | FaultKind::LoseAnswer => {}
        }
        let outcome = {
            let mut state = self.state();
            let events = &mut state.services.events;
            (events.sender, events.arrived) = (sender, arrived);
            state.services.answer(call, Timestamp::now())
        };
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
