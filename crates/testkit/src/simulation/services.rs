//! Events service, cache service and storage of a run, with faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aileron_executor::assembly;
use aileron_executor::services::cache::{
    CacheKey, CacheMetadata, CachedOutputs, CatalogClient, CatalogError, Reservation,
};
use aileron_executor::services::connect::{Code, ConnectError};
use aileron_executor::services::events::EventTransport;
use aileron_executor::storage::{BlobStore, MemoryStore, StorageError};
use aileron_idl::flyteidl2::core::{LiteralMap, TaskExecutionIdentifier};
use aileron_idl::flyteidl2::workflow;
use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::history::{ActionEvent, What};
use super::network::Shared;
use super::process::Process;

/// A reservation lasts this long without a heartbeat.
const RESERVATION: Duration = Duration::from_secs(30);
/// Longest time that a slow call takes.
const LONGEST_CALL_MS: u64 = 3_000;

/// The services of a run. Clones share them.
#[derive(Clone)]
pub struct Services {
    shared: Arc<Shared>,
    /// Inputs and outputs.
    pub store: Arc<MemoryStore>,
    entries: Arc<Mutex<Entries>>,
    outages: Arc<Mutex<BTreeMap<&'static str, Instant>>>,
    /// Every event that was recorded.
    events: Arc<Mutex<Vec<workflow::ActionEvent>>>,
}

#[derive(Default)]
struct Entries {
    outputs: BTreeMap<String, String>,
    reservations: BTreeMap<String, (String, Instant)>,
}

impl Services {
    /// Empty services.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            store: Arc::new(MemoryStore::new()),
            entries: Arc::default(),
            outages: Arc::default(),
            events: Arc::default(),
        }
    }

    /// Every event that was recorded so far, in this order.
    #[must_use]
    pub fn events(&self) -> Vec<workflow::ActionEvent> {
        lock(&self.events).clone()
    }

    /// A service answers nobody for a while.
    pub fn fail(&self, service: &'static str, span: Duration) {
        self.shared.history.note(format!("{service} is away for {span:?}"));
        lock(&self.outages).insert(service, Instant::now() + span);
    }

    /// All services work again.
    pub fn restore(&self) {
        lock(&self.outages).clear();
    }

    /// The services as one process reaches them.
    #[must_use]
    pub fn of_process(&self, process: &Arc<Process>) -> assembly::Services {
        let connection = Arc::new(Connection { services: self.clone(), process: Arc::clone(process) });
        assembly::Services {
            store: Arc::clone(&connection) as _,
            events: Arc::clone(&connection) as _,
            task_cache: connection,
            clock: Arc::new(process.clock.clone()),
        }
    }
}

struct Connection {
    services: Services,
    process: Arc<Process>,
}

/// What happens to one call.
enum Call {
    /// It is carried out.
    Works,
    /// It is not carried out.
    Fails,
    /// It is carried out, and the caller gets an error.
    AnswerLost,
}

impl Connection {
    /// Decides about a call, and takes the time that it takes.
    async fn call(&self, service: &'static str, rate: f64) -> Call {
        let faults = &self.services.shared.faults;
        let random = faults.random_numbers();
        sleep(random.millis(0, 10)).await;
        self.process.running().await;
        let outage = lock(&self.services.outages).get(service).copied().filter(|until| *until > Instant::now());
        if let Some(until) = outage {
            // A service that is away refuses, or does not answer at all.
            if random.chance(0.5) {
                sleep((until - Instant::now()).min(Duration::from_secs(30))).await;
            }
            return Call::Fails;
        }
        if faults.hits(rate) {
            sleep(random.millis(0, LONGEST_CALL_MS)).await;
        }
        self.process.running().await;
        match () {
            () if faults.hits(rate) => Call::Fails,
            () if faults.hits(rate) => Call::AnswerLost,
            () => Call::Works,
        }
    }

    async fn cache_call<T>(&self, work: impl FnOnce(&mut Entries) -> T) -> Result<T, CatalogError> {
        let call = self.call("cache", self.services.shared.faults.rates.cache).await;
        let failed = || CatalogError::Service { call: "simulated", source: unavailable() };
        if matches!(call, Call::Fails) {
            return Err(failed());
        }
        let result = work(&mut lock(&self.services.entries));
        if matches!(call, Call::AnswerLost) { Err(failed()) } else { Ok(result) }
    }
}

#[async_trait]
impl EventTransport for Connection {
    async fn record(&self, events: Vec<workflow::ActionEvent>) -> Result<(), ConnectError> {
        let call = self.call("events", self.services.shared.faults.rates.events).await;
        if matches!(call, Call::Fails) {
            return Err(unavailable());
        }
        lock(&self.services.events).extend(events.iter().cloned());
        for event in events {
            let id = event.id.unwrap_or_default();
            let event = ActionEvent {
                run: id.run.unwrap_or_default().name,
                action: id.name,
                attempt: event.attempt,
                phase: event.phase,
            };
            let leads = self.services.shared.leads(&self.process.name);
            self.services.shared.history.add(What::Event { process: self.process.name.clone(), event, leads });
        }
        if matches!(call, Call::AnswerLost) { Err(unavailable()) } else { Ok(()) }
    }
}

#[async_trait]
impl BlobStore for Connection {
    async fn get(&self, uri: &str) -> Result<Option<Bytes>, StorageError> {
        match self.call("storage", self.services.shared.faults.rates.storage).await {
            Call::Works => self.services.store.get(uri).await,
            _ => Err(broken("read", uri)),
        }
    }

    async fn put(&self, uri: &str, content: Bytes) -> Result<(), StorageError> {
        match self.call("storage", self.services.shared.faults.rates.storage).await {
            Call::Works => self.services.store.put(uri, content).await,
            Call::Fails => Err(broken("write", uri)),
            Call::AnswerLost => {
                self.services.store.put(uri, content).await?;
                Err(broken("write", uri))
            }
        }
    }

    async fn size(&self, uri: &str) -> Result<Option<u64>, StorageError> {
        match self.call("storage", self.services.shared.faults.rates.storage).await {
            Call::Works => self.services.store.size(uri).await,
            _ => Err(broken("look for", uri)),
        }
    }
}

#[async_trait]
impl CatalogClient for Connection {
    async fn lookup(&self, key: &CacheKey) -> Result<Option<CachedOutputs>, CatalogError> {
        let found = self.cache_call(|entries| entries.outputs.get(&name(key)).cloned()).await?;
        Ok(found.map(|uri| CachedOutputs {
            outputs: LiteralMap::default(),
            output_uri: Some(uri),
            dataset: key.identifier().clone(),
            source: TaskExecutionIdentifier::default(),
        }))
    }

    async fn reserve(&self, key: &CacheKey, owner: &str, heartbeat: Duration) -> Result<Reservation, CatalogError> {
        let now = Instant::now();
        self.cache_call(|entries| {
            let (holder, until) = entries.reservations.entry(name(key)).or_insert_with(|| (owner.to_owned(), now));
            if holder == owner || *until <= now {
                (*holder, *until) = (owner.to_owned(), now + RESERVATION);
            }
            Reservation { owner_id: holder.clone(), expires_at: None, heartbeat: Some(heartbeat) }
        })
        .await
    }

    async fn put(&self, key: &CacheKey, outputs: &str, _: &CacheMetadata, overwrite: bool) -> Result<(), CatalogError> {
        let exists = self
            .cache_call(|entries| {
                let exists = entries.outputs.contains_key(&name(key));
                if overwrite || !exists {
                    entries.outputs.insert(name(key), outputs.to_owned());
                }
                exists && !overwrite
            })
            .await?;
        if exists {
            let source = ConnectError { code: Code::AlreadyExists, message: "the entry exists".to_owned() };
            return Err(CatalogError::Service { call: "simulated", source });
        }
        Ok(())
    }

    async fn release(&self, key: &CacheKey, owner: &str) -> Result<(), CatalogError> {
        self.cache_call(|entries| {
            if entries.reservations.get(&name(key)).is_some_and(|(holder, _)| holder == owner) {
                entries.reservations.remove(&name(key));
            }
        })
        .await
    }
}

fn name(key: &CacheKey) -> String {
    format!("{}@{}", key.identifier().name, key.cache_version())
}

fn unavailable() -> ConnectError {
    ConnectError { code: Code::Unavailable, message: "injected fault".to_owned() }
}

fn broken(action: &'static str, uri: &str) -> StorageError {
    let source = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "injected fault");
    StorageError::Files { action, uri: uri.to_owned(), source }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
