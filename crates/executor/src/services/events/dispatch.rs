//! The task that sends: it owns the queue, starts calls, and deals with their outcome.

use std::sync::{Arc, Mutex, PoisonError};

use aileron_machinery::time::jitter::random;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backoff::delay;
use super::queue::{Batch, Item, Queue};
use super::{BatcherOptions, EventError, EventTransport};
use crate::services::connect::{Code, ConnectError};

/// A set that keeps failing is split even if nothing else succeeds: after this often, one bad event among good ones is
/// more likely than a bad service.
const FAILURES_BEFORE_SPLIT: u32 = 4;

/// The same when other calls succeed meanwhile, which makes the set itself suspicious.
const FAILURES_BEFORE_SPLIT_WHEN_OTHERS_SUCCEED: u32 = 2;

/// Owns all events from their acceptance to their end.
pub(super) struct Dispatcher {
    pub transport: Arc<dyn EventTransport>,
    pub options: BatcherOptions,
    pub incoming: UnboundedReceiver<Item>,
    /// Finish what is there, then end.
    pub drain: CancellationToken,
    /// End now.
    pub abort: CancellationToken,
    pub last_error: Arc<Mutex<Option<ConnectError>>>,
}

/// What is going on.
#[derive(Default)]
struct State {
    queue: Queue,
    calls: FuturesUnordered<BoxFuture<'static, (Batch, Result<(), ConnectError>)>>,
    gate: Gate,
    last_success: Option<Instant>,
}

/// Closed while the service as a whole is away: then one call at a time finds out whether it is back.
#[derive(Default)]
struct Gate {
    failures: u32,
    closed_until: Option<Instant>,
    /// Such a call was started, and no call has ended since.
    probing: bool,
}

/// What a failure says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blame {
    /// An event in the set is bad, for ever.
    Event,
    /// This set failed; the service may be well.
    Set,
    /// The service is away or does not want us.
    Service,
}

impl Dispatcher {
    pub async fn run(mut self) {
        let mut state = State::default();
        let (mut draining, mut open) = (false, true);
        loop {
            // Whatever has arrived meanwhile goes into the same batch.
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

    /// Starts calls while there is something to send and room to send it. An event on its own goes at once; events
    /// gather only while all calls are busy.
    fn launch(&self, state: &mut State) {
        let now = Instant::now();
        while state.calls.len() < self.options.max_calls && state.gate.lets_through(now) {
            let Some(batch) = state.queue.next(self.options.max_batch, now) else { return };
            state.gate.probing = state.gate.closed_until.is_some();
            metrics::histogram!("aileron_events_batch_size").record(batch.items.len() as f64);
            let events = batch.items.iter().flat_map(|item| item.events.iter().cloned()).collect();
            let (transport, limit) = (self.transport.clone(), self.options.call_timeout);
            // A task of its own, so that encoding runs beside the dispatcher and a panic stays inside.
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

    /// When to look again although nothing happens.
    fn wake(&self, state: &State) -> Option<Instant> {
        let now = Instant::now();
        let waiting = state.queue.has_fresh() || state.queue.has_retries();
        match state.gate.closed_until {
            Some(until) if until > now => waiting.then_some(until),
            _ if state.calls.len() < self.options.max_calls && state.gate.lets_through(now) => state.queue.next_due(),
            _ => None,
        }
    }

    fn settle(&self, state: &mut State, batch: Batch, result: Result<(), ConnectError>) {
        state.gate.probing = false;
        let error = match result {
            Ok(()) => {
                state.gate = Gate::default();
                state.last_success = Some(Instant::now());
                metrics::counter!("aileron_events_recorded_total").increment(batch.items.len() as u64);
                batch.items.into_iter().for_each(|item| state.queue.finish(item, Ok(())));
                return;
            }
            Err(error) => error,
        };
        metrics::counter!("aileron_events_call_failures_total", "code" => error.code.name()).increment(1);
        tracing::warn!(events = batch.items.len(), %error, "failed to record action events");
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        match blame(error.code) {
            Blame::Event => {
                // The service understood us, so it is there.
                state.gate = Gate::default();
                state.last_success = Some(Instant::now());
                self.isolate(state, batch, error);
            }
            Blame::Set => retry_set(state, batch, error.code),
            Blame::Service => {
                state.gate.close(Instant::now());
                // Sent as soon as the gate opens, after the sets that wait longer.
                state.queue.push_retry(Batch { due: None, ..batch });
            }
        }
    }

    /// Halves a set until the bad event is alone.
    fn isolate(&self, state: &mut State, mut batch: Batch, error: ConnectError) {
        if batch.items.len() > 1 {
            for half in halves(batch) {
                state.queue.push_retry(Batch { due: None, ..half });
            }
            return;
        }
        let Some(item) = batch.items.pop() else { return };
        // An event that exists is recorded, which is what the caller wants.
        let result = if error.code == Code::AlreadyExists { Ok(()) } else { Err(EventError::Rejected(error)) };
        if result.is_err() {
            metrics::counter!("aileron_events_rejected_total").increment(1);
        }
        state.queue.finish(item, result);
    }
}

impl Gate {
    /// Whether a call may start. Calls that hang from before do not count: a service that came back is not kept
    /// waiting for them.
    fn lets_through(&self, now: Instant) -> bool {
        match self.closed_until {
            None => true,
            Some(until) => until <= now && !self.probing,
        }
    }

    fn close(&mut self, now: Instant) {
        // Calls that were in flight together fail together; that is one failure of the service.
        if self.closed_until.is_some_and(|until| until > now) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.closed_until = Some(now + delay(self.failures, random()));
    }
}

fn retry_set(state: &mut State, mut batch: Batch, code: Code) {
    let now = Instant::now();
    batch.failures = batch.failures.saturating_add(1);
    let since = *batch.failing_since.get_or_insert(now);
    batch.due = Some(now + delay(batch.failures, random()));
    let others_succeed = state.last_success.is_some_and(|success| success > since);
    let threshold = match code {
        // Too much at once: less may fit.
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

fn blame(code: Code) -> Blame {
    match code {
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange | Code::AlreadyExists => Blame::Event,
        Code::Unavailable | Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented => Blame::Service,
        Code::Canceled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Internal
        | Code::DataLoss => Blame::Set,
    }
}
