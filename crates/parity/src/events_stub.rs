//! The two services of the control plane that an executor calls, in memory and over HTTP: the events proxy and the
//! cache. Both can be told to be slow, to refuse, or to lose answers.

mod cache;
mod connect;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aileron_idl::flyteidl2::workflow::{ActionEvent, RecordRequest, RecordResponse};
use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use http::HeaderMap;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::cache::{Cache, CacheEntry};
pub use self::connect::Code;

const RECORD: &str = "flyteidl2.workflow.EventsProxyService/Record";
const CACHE: &str = "flyteidl2.cacheservice.v2.CacheService/";

/// How the services misbehave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fault {
    /// Every answer takes this much longer.
    pub delay: Duration,
    /// What goes wrong.
    pub kind: FaultKind,
    /// How many requests it happens to; `None` means until [`EventsStub::heal`].
    pub times: Option<usize>,
}

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing.
    #[default]
    None,
    /// Refused before anything is stored.
    Refuse(Code),
    /// Stored, but the caller is told `unavailable`: whoever sends at least once sends it again.
    LoseAnswer,
}

/// An event that arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// When.
    pub at: Timestamp,
    /// In which request, counted from 0: events of one batch share it.
    pub request: usize,
    /// The event.
    pub event: ActionEvent,
}

#[derive(Debug, Default)]
struct Shared {
    inner: Mutex<Inner>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    events: Vec<Recorded>,
    requests: usize,
    fault: Fault,
    cache: Cache,
}

/// The services, listening on loopback until dropped.
#[derive(Debug)]
pub struct EventsStub {
    address: SocketAddr,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

impl Fault {
    /// Every request is refused with `code`.
    #[must_use]
    pub fn refuse(code: Code) -> Self {
        Self { kind: FaultKind::Refuse(code), ..Self::default() }
    }

    /// Every answer takes this much longer.
    #[must_use]
    pub fn slow(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Every request is carried out, and its answer lost.
    #[must_use]
    pub fn lose_answers() -> Self {
        Self { kind: FaultKind::LoseAnswer, ..Self::default() }
    }

    /// Only the next `times` requests.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times: Some(times), ..self }
    }

    /// What happens to the next request; counts down.
    fn take(&mut self) -> Self {
        let now = *self;
        match &mut self.times {
            Some(0) | Some(1) => *self = Self::default(),
            Some(left) => *left -= 1,
            None => {}
        }
        now
    }
}

impl EventsStub {
    /// Starts on a free port.
    ///
    /// # Errors
    /// No port to listen on.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listening on loopback")?;
        let address = listener.local_addr()?;
        let shared = Arc::<Shared>::default();
        let app = routes(shared.clone());
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::warn!(%error, "the events stub stopped");
            }
        }));
        Ok(Self { address, shared, _stop: stop.drop_guard() })
    }

    /// The base address for the executor's configuration.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Misbehaves from now on.
    pub fn fault(&self, fault: Fault) {
        self.shared.inner().fault = fault;
    }

    /// Behaves again.
    pub fn heal(&self) {
        self.fault(Fault::default());
    }

    /// All events that were stored, in order of arrival, doubles included.
    #[must_use]
    pub fn events(&self) -> Vec<Recorded> {
        self.shared.inner().events.clone()
    }

    /// The events of one action, by its name.
    #[must_use]
    pub fn events_of(&self, action: &str) -> Vec<Recorded> {
        self.events().into_iter().filter(|recorded| action_name(&recorded.event) == action).collect()
    }

    /// How many `Record` requests arrived, the refused ones too.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.shared.inner().requests
    }

    /// Looks at the cache, or changes it.
    pub fn with_cache<T>(&self, look: impl FnOnce(&mut Cache) -> T) -> T {
        look(&mut self.shared.inner().cache)
    }

    /// Waits until `done` is content with the events so far, and returns them.
    ///
    /// # Errors
    /// Not content within `timeout`; the error lists what did arrive.
    pub async fn wait_for(&self, timeout: Duration, done: impl Fn(&[Recorded]) -> bool) -> Result<Vec<Recorded>> {
        let content = async {
            loop {
                let arrival = self.shared.arrived.notified();
                let events = self.events();
                if done(&events) {
                    return events;
                }
                arrival.await;
            }
        };
        match tokio::time::timeout(timeout, content).await {
            Ok(events) => Ok(events),
            Err(_) => {
                let seen: Vec<_> = self.events().iter().map(|recorded| summary(&recorded.event)).collect();
                bail!("the expected events did not arrive within {timeout:?}; these did:\n{}", seen.join("\n"))
            }
        }
    }
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, body: &Bytes) -> Result<Bytes, connect::Refusal> {
        let request: RecordRequest = connect::decode(body)?;
        let mut inner = self.inner();
        let number = inner.requests - 1;
        for event in &request.events {
            // What the real service validates.
            if event.id.is_none() || event.attempt == 0 {
                return Err(Code::InvalidArgument.because("every event needs an id and an attempt above 0"));
            }
        }
        if request.events.is_empty() {
            return Err(Code::InvalidArgument.because("events: at least one is required"));
        }
        let at = Timestamp::now();
        inner.events.extend(request.events.into_iter().map(|event| Recorded { at, request: number, event }));
        drop(inner);
        self.arrived.notify_waiters();
        Ok(connect::encode(&RecordResponse {}))
    }
}

fn routes(shared: Arc<Shared>) -> Router {
    Router::new().route("/{service}/{method}", post(answer)).with_state(shared)
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Path((service, method)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let procedure = format!("{service}/{method}");
    let fault = {
        let mut inner = shared.inner();
        inner.requests += usize::from(procedure == RECORD);
        inner.fault.take()
    };
    tokio::time::sleep(fault.delay).await;
    if let FaultKind::Refuse(code) = fault.kind {
        return connect::respond(Err(code.because("told to refuse")));
    }
    let outcome = connect::check(&headers).and_then(|()| match procedure.strip_prefix(CACHE) {
        Some(method) => shared.inner().cache.call(method, &body, Timestamp::now()),
        None if procedure == RECORD => shared.record(&body),
        None => Err(Code::Unimplemented.because(&procedure)),
    });
    match fault.kind {
        FaultKind::LoseAnswer => connect::respond(Err(Code::Unavailable.because("told to lose the answer"))),
        _ => connect::respond(outcome),
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
