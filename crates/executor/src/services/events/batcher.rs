//! The event sink of the executor: sends events in batches.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aileron_idl::flyteidl2::workflow::ActionEvent;
use async_trait::async_trait;
use tokio::sync::{Semaphore, TryAcquireError, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::dispatch::Dispatcher;
use super::queue::Item;
use super::{EventError, EventSink, EventTransport, validate};
use crate::services::connect::ConnectError;

/// How events are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatcherOptions {
    /// The most events in one call, as upstream. The service stores them with one multi-row insert.
    pub max_batch: usize,
    /// The most bytes in one call; a single larger event is sent alone. The default is half of the 4 MiB that servers in Go
    /// accept unless configured otherwise. Most batches are far below: an event has a few kilobytes.
    pub max_batch_bytes: usize,
    /// The most calls in flight. Enough that one slow call does not delay the others; few enough that under load events
    /// gather into batches, and the database of the service has few writers. Upstream uses 32 and waits 25 ms before each.
    pub max_calls: usize,
    /// How many calls of `record` may be pending; further callers wait. The queue depth of upstream.
    pub capacity: usize,
    /// The timeout of one call.
    pub call_timeout: Duration,
    /// How long `record` tries before it returns [`EventError::GaveUp`], so that its caller can decide again. With `None`
    /// it tries until its future is dropped.
    pub give_up_after: Option<Duration>,
}

/// Sends events in batches: at least once, in order per action.
///
/// An event is sent at once if fewer than `max_calls` are in flight; otherwise events gather into a batch. An event of an
/// action is never sent before the previous one of the same action is acknowledged or given up. If the service fails,
/// events wait and are not lost. An event that the service refuses does not fail the others.
///
/// # Differs from upstream
/// `eventBatcher` delays every event by up to 25 ms to fill batches, fails all events of a batch together, and may
/// send two events of one action at the same time.
pub struct EventBatcher {
    incoming: mpsc::UnboundedSender<Item>,
    places: Arc<Semaphore>,
    give_up_after: Option<Duration>,
    last_error: Arc<Mutex<Option<ConnectError>>>,
    drain: CancellationToken,
    abort: CancellationToken,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Default for BatcherOptions {
    fn default() -> Self {
        Self {
            max_batch: 400,
            max_batch_bytes: 2 << 20,
            max_calls: 8,
            capacity: 8192,
            call_timeout: Duration::from_secs(30),
            give_up_after: Some(Duration::from_secs(60)),
        }
    }
}

impl EventBatcher {
    /// Starts the task that sends the events. Must be called inside a tokio runtime.
    pub fn start(transport: Arc<dyn EventTransport>, mut options: BatcherOptions) -> Self {
        // Zero would mean that nothing is ever sent.
        options.max_batch = options.max_batch.max(1);
        options.max_calls = options.max_calls.max(1);
        let places = Arc::new(Semaphore::new(options.capacity.clamp(1, Semaphore::MAX_PERMITS)));
        let give_up_after = options.give_up_after;
        // The semaphore bounds the length of the channel.
        let (sender, incoming) = mpsc::unbounded_channel();
        let (drain, abort) = (CancellationToken::new(), CancellationToken::new());
        let last_error = Arc::default();
        let dispatcher = Dispatcher {
            transport,
            options,
            incoming,
            drain: drain.clone(),
            abort: abort.clone(),
            last_error: Arc::clone(&last_error),
        };
        let task = tokio::sync::Mutex::new(Some(tokio::spawn(dispatcher.run())));
        Self { incoming: sender, places, give_up_after, last_error, drain, abort, task }
    }

    /// Stops accepting events and waits until the accepted ones are recorded, at most `grace`. Returns
    /// whether all were recorded.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        self.places.close();
        self.drain.cancel();
        let Some(mut task) = self.task.lock().await.take() else { return true };
        if tokio::time::timeout(grace, &mut task).await.is_ok() {
            return true;
        }
        self.abort.cancel();
        // The task ends in the next iteration of its loop. Waiting callers then get an error.
        let _ = task.await;
        false
    }

    async fn deliver(&self, events: Vec<ActionEvent>) -> Result<(), EventError> {
        // First without waiting: a caller that waits may be overtaken by a later one for the same action.
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(TryAcquireError::Closed) => return Err(EventError::Closed),
            Err(TryAcquireError::NoPermits) => {
                Arc::clone(&self.places).acquire_owned().await.map_err(|_| EventError::Closed)?
            }
        };
        metrics::gauge!("aileron_events_free_places").set(self.places.available_permits() as f64);
        let id = events.first().and_then(|event| event.id.as_ref());
        let key = id.map(prost::Message::encode_to_vec).unwrap_or_default();
        let (reply, answer) = oneshot::channel();
        self.incoming.send(Item { key, events, reply, _place: place }).map_err(|_| EventError::Closed)?;
        answer.await.unwrap_or(Err(EventError::Closed))
    }
}

#[async_trait]
impl EventSink for EventBatcher {
    async fn record_all(&self, events: Vec<ActionEvent>) -> Result<(), EventError> {
        events.iter().try_for_each(validate)?;
        let Some(after) = self.give_up_after else { return self.deliver(events).await };
        match tokio::time::timeout(after, self.deliver(events)).await {
            Ok(result) => result,
            Err(_) => {
                metrics::counter!("aileron_events_given_up_total").increment(1);
                Err(EventError::GaveUp { after, last: self.last_error() })
            }
        }
    }

    fn last_error(&self) -> Option<ConnectError> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for EventBatcher {
    fn drop(&mut self) {
        // No caller can wait for an answer any more.
        self.abort.cancel();
    }
}
