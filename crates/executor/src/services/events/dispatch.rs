//! The task that sends events: it owns the queue, starts calls, and handles their results.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aileron_machinery::time::jitter::random;
use aileron_machinery::time::repeats::Repeats;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backoff::delay;
use super::queue::{Batch, BatchLimit, Item, Queue};
use super::{BatcherOptions, EventError, EventTransport};
use crate::services::connect::{Code, ConnectError};

/// After this many failures a batch is split even if no other call succeeds: an event that the service cannot process is
/// then more likely than a failing service.
const FAILURES_BEFORE_SPLIT: u32 = 4;

/// The same if other calls succeeded meanwhile, so that the failure probably depends on the batch.
const FAILURES_BEFORE_SPLIT_WHEN_OTHERS_SUCCEED: u32 = 2;

/// The smallest limit that is learned from refusals of the service. A service that refuses even this has no quota left, and
/// smaller batches would only mean more calls.
const SMALLEST_LEARNED_LIMIT: usize = 64 << 10;

/// How long a learned limit applies. The service may have been given another limit, or its quota is free again.
const LEARNED_LIMIT_TTL: Duration = Duration::from_secs(600);

/// The same error is logged at most this often. During an outage a call is made every few seconds.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Owns all events from the call of `record` until they are recorded, refused or given up.
pub(super) struct Dispatcher {
    pub transport: Arc<dyn EventTransport>,
    pub options: BatcherOptions,
    pub incoming: UnboundedReceiver<Item>,
    /// Send the remaining events, then end.
    pub drain: CancellationToken,
    /// End at once.
    pub abort: CancellationToken,
    pub last_error: Arc<Mutex<Option<ConnectError>>>,
}

/// The queue and the calls in flight.
#[derive(Default)]
struct State {
    queue: Queue,
    calls: FuturesUnordered<BoxFuture<'static, (Batch, Result<(), ConnectError>)>>,
    circuit_breaker: CircuitBreaker,
    size_limit: SizeLimit,
    last_success: Option<Instant>,
    logged: Logged,
}

/// The errors that were logged lately.
struct Logged(Repeats);

impl Default for Logged {
    fn default() -> Self {
        Self(Repeats::every(LOG_INTERVAL))
    }
}

/// A limit on the size of a batch that the service has enforced.
#[derive(Default)]
struct SizeLimit {
    /// The limit in bytes, and until when it applies.
    learned: Option<(usize, Instant)>,
}

/// Open while the service is unavailable. Then only one call at a time is sent, to probe whether it is available again.
#[derive(Default)]
struct CircuitBreaker {
    failures: u32,
    open_until: Option<Instant>,
    /// Such a probe was started, and no call has ended since.
    probing: bool,
}

/// The probable cause of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blame {
    /// The service will always refuse an event of the batch.
    Event,
    /// The batch failed, but other batches may succeed.
    Batch,
    /// The service is unavailable, or refuses all calls of this client.
    Service,
}

impl Dispatcher {
    pub async fn run(mut self) {
        let mut state = State::default();
        let (mut draining, mut open) = (false, true);
        loop {
            // Events that arrived meanwhile go into the same batch.
            while let Ok(item) = self.incoming.try_recv() {
                state.queue.push(item);
            }
            self.launch(&mut state);
            if (draining || !open) && state.queue.is_idle() {
                return;
            }
            let wake = self.wake(&state);
            tokio::select! {
                item = self.incoming.recv(), if open => match item {
                    Some(item) => state.queue.push(item),
                    None => open = false,
                },
                Some((batch, result)) = state.calls.next() => self.settle(&mut state, batch, result),
                () = async { tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)).await }, if wake.is_some() => {}
                () = self.drain.cancelled(), if !draining => draining = true,
                () = self.abort.cancelled() => return,
            }
        }
    }

    /// Starts calls while there are events to send and fewer than `max_calls` in flight. A single event is sent at once;
    /// events gather into batches only while all calls are in flight.
    fn launch(&self, state: &mut State) {
        let now = Instant::now();
        while state.calls.len() < self.options.max_calls && state.circuit_breaker.allows_call(now) {
            let limit = BatchLimit { items: self.options.max_batch, bytes: self.options.max_batch_bytes };
            let Some(batch) = state.queue.next(state.size_limit.applied(limit, now), now) else { return };
            state.circuit_breaker.probing = state.circuit_breaker.open_until.is_some();
            metrics::histogram!("aileron_events_batch_size").record(batch.items.len() as f64);
            let events = batch.items.iter().flat_map(|item| item.events.iter().cloned()).collect();
            let (transport, limit) = (self.transport.clone(), self.options.call_timeout);
            // A separate task, so that encoding does not block the dispatcher, and a panic does not end it.
            let call = tokio::spawn(async move {
                let started = Instant::now();
                let result = tokio::time::timeout(limit, transport.record(events)).await.unwrap_or_else(|_| {
                    Err(ConnectError::new(Code::DeadlineExceeded, format!("no answer within {limit:?}")))
                });
                metrics::histogram!("aileron_events_call_seconds").record(started.elapsed().as_secs_f64());
                result
            });
            state.calls.push(Box::pin(async move {
                let result =
                    call.await.unwrap_or_else(|error| Err(ConnectError::new(Code::Internal, error.to_string())));
                (batch, result)
            }));
        }
    }

    /// When the next call may start without any new event or result.
    fn wake(&self, state: &State) -> Option<Instant> {
        let now = Instant::now();
        let waiting = state.queue.has_fresh() || state.queue.has_retries();
        match state.circuit_breaker.open_until {
            Some(until) if until > now => waiting.then_some(until),
            _ if state.calls.len() < self.options.max_calls && state.circuit_breaker.allows_call(now) => {
                state.queue.next_due()
            }
            _ => None,
        }
    }

    fn settle(&self, state: &mut State, batch: Batch, result: Result<(), ConnectError>) {
        state.circuit_breaker.probing = false;
        let error = match result {
            Ok(()) => {
                state.circuit_breaker = CircuitBreaker::default();
                state.last_success = Some(Instant::now());
                *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = None;
                metrics::counter!("aileron_events_recorded_total").increment(batch.items.len() as u64);
                batch.items.into_iter().for_each(|item| state.queue.finish(item, Ok(())));
                return;
            }
            Err(error) => error,
        };
        metrics::counter!("aileron_events_call_failures_total", "code" => error.code.name()).increment(1);
        if let Some(repeated) = state.logged.0.seen(&error.to_string(), Instant::now().into_std()) {
            tracing::warn!(
                events = batch.items.len(), %error, repeated,
                "failed to record action events; retrying, and no status is written before its event is accepted"
            );
        }
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        let now = Instant::now();
        let mut batch = batch;
        let since = *batch.failing_since.get_or_insert(now);
        let others_succeed = state.last_success.is_some_and(|success| success > since);
        match blame(error.code, others_succeed) {
            Blame::Event => {
                // The service answered, so it is available.
                state.circuit_breaker = CircuitBreaker::default();
                state.last_success = Some(Instant::now());
                self.isolate(state, batch, error);
            }
            Blame::Batch => {
                if error.code == Code::ResourceExhausted {
                    state.size_limit.shrink(&batch, now);
                }
                retry_batch(state, batch, error.code, others_succeed);
            }
            Blame::Service => {
                state.circuit_breaker.open(now);
                // Sent as soon as the circuit breaker allows a call, after batches that wait longer.
                state.queue.push_retry(Batch { due: None, ..batch });
            }
        }
    }

    /// Splits a batch in halves until the refused event is alone.
    fn isolate(&self, state: &mut State, mut batch: Batch, error: ConnectError) {
        if batch.items.len() > 1 {
            for half in halves(batch) {
                state.queue.push_retry(Batch { due: None, ..half });
            }
            return;
        }
        let Some(item) = batch.items.pop() else { return };
        // An event that already exists is recorded.
        let result = if error.code == Code::AlreadyExists { Ok(()) } else { Err(EventError::Rejected(error)) };
        if result.is_err() {
            metrics::counter!("aileron_events_rejected_total").increment(1);
        }
        state.queue.finish(item, result);
    }
}

impl SizeLimit {
    /// A batch was too large: later batches are at most half as large.
    fn shrink(&mut self, batch: &Batch, now: Instant) {
        if batch.items.len() > 1 {
            let half = batch.bytes() / 2;
            self.learned = Some((half.max(SMALLEST_LEARNED_LIMIT), now + LEARNED_LIMIT_TTL));
        }
    }

    fn applied(&self, limit: BatchLimit, now: Instant) -> BatchLimit {
        match self.learned {
            Some((bytes, until)) if now < until => BatchLimit { bytes: limit.bytes.min(bytes), ..limit },
            _ => limit,
        }
    }
}

impl CircuitBreaker {
    /// Whether a call may start. Calls that were started before the circuit breaker opened and still hang do not delay the probe.
    fn allows_call(&self, now: Instant) -> bool {
        match self.open_until {
            None => true,
            Some(until) => until <= now && !self.probing,
        }
    }

    fn open(&mut self, now: Instant) {
        // Calls that were in flight at the same time failed for the same cause: they count as one failure of the service.
        if self.open_until.is_some_and(|until| until > now) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.open_until = Some(now + delay(self.failures, random()));
    }
}

fn retry_batch(state: &mut State, mut batch: Batch, code: Code, others_succeed: bool) {
    batch.failures = batch.failures.saturating_add(1);
    batch.due = Some(Instant::now() + delay(batch.failures, random()));
    let threshold = match code {
        // The batch may be too large for the service.
        Code::ResourceExhausted => 1,
        _ if others_succeed => FAILURES_BEFORE_SPLIT_WHEN_OTHERS_SUCCEED,
        _ => FAILURES_BEFORE_SPLIT,
    };
    if batch.failures >= threshold && batch.items.len() > 1 {
        halves(batch).into_iter().for_each(|half| state.queue.push_retry(half));
    } else {
        state.queue.push_retry(batch);
    }
}

fn halves(mut batch: Batch) -> [Batch; 2] {
    let items = batch.items.split_off(batch.items.len() / 2);
    let second = Batch { items, failures: batch.failures, failing_since: batch.failing_since, due: batch.due };
    [batch, second]
}

/// The probable cause of a failed call. Only codes that speak of the content of an event blame an event, because the event
/// is then dropped for good: a value is invalid or outside of its range, or the event exists already.
///
/// `FailedPrecondition` says that the service is not in the state for this call, for example during maintenance or a
/// migration. It blames the service, unless other calls succeed meanwhile: then the batch is split, so that an event that
/// is always answered so does not delay others. That event is tried for as long as its caller wants it.
fn blame(code: Code, others_succeed: bool) -> Blame {
    match code {
        Code::InvalidArgument | Code::OutOfRange | Code::AlreadyExists => Blame::Event,
        Code::FailedPrecondition if others_succeed => Blame::Batch,
        Code::Unavailable
        | Code::Unauthenticated
        | Code::PermissionDenied
        | Code::Unimplemented
        | Code::FailedPrecondition => Blame::Service,
        Code::Canceled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Internal
        | Code::DataLoss => Blame::Batch,
    }
}
