//! Takes actions from the queue and runs their reconcile rounds, never two of the same action at a time.

pub mod admission_wakeups;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aileron_action::{Action, TaskActionStatus};
use aileron_machinery::time::backoff::ExponentialBackoff;
use aileron_machinery::{ActionKey, PendingReason};
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::caches::actions::ActionStore;
use crate::queue::{Next, Queue};
use crate::reconcile::{Reconciler, Wake};
use crate::status_writer::StatusWriter;

/// One round does one step, and most actions need a few steps in a row when they start. An action that wants more
/// consecutive rounds than this goes to the end of the queue, so that a defect in one action does not block the others.
const MAX_CONSECUTIVE_ROUNDS: usize = 8;

/// An action gets a safety round when it had no round for this long. The watches should report every change, so a change
/// that only a safety round finds is counted, and the count should stay at zero.
const SAFETY_INTERVAL: Duration = Duration::from_secs(600);

/// A back-off period of the admission is not longer than this, unless it is configured so. If an action that waits for
/// admission asks for a round later than this, that round only guards against a lost wake-up.
const LONGEST_GATE_PAUSE: Duration = Duration::from_secs(100);

/// The pause after the first failed round. It doubles with each further failure: after a short outage of the API server
/// the round is retried soon, and during a long one the retries do not overload it.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// The longest pause after a failed round. An action should go on within seconds after the end of an outage. The number of
/// concurrent rounds bounds the load of the retries.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

/// Rounds in flight get this long to finish when the process stops. Together with [`FLUSH_TIMEOUT`] and the time for
/// pending events this stays below the 30 s that Kubernetes gives a pod to terminate.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(12);
/// Then writing the held statuses may take this long.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the reconcile rounds of all actions.
pub struct Controller {
    /// Reconciles one action.
    pub reconciler: Arc<Reconciler>,
    /// The actions as this process last saw or wrote them.
    pub action_store: Arc<ActionStore>,
    /// The actions that need a round.
    pub queue: Arc<Queue>,
    /// Writes statuses, some of them a little later.
    pub statuses: Arc<StatusWriter>,
    /// `executor.maxConcurrentReconciles`: how many rounds run at once. Writes to the API server have a
    /// smaller limit of their own.
    pub max_rounds: usize,
}

impl Controller {
    /// Runs until cancelled, then waits for the rounds in flight. A round that does not end in time is aborted. If this
    /// future is dropped, all rounds are.
    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        self.start_queue();
        let mut rounds = JoinSet::new();
        let permits = Arc::new(Semaphore::new(self.max_rounds.max(1)));
        loop {
            let next = async {
                let permit = Arc::clone(&permits).acquire_owned().await.ok()?;
                Some((permit, self.queue.next().await))
            };
            let (permit, key) = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Some(_) = rounds.join_next() => continue,
                next = next => match next {
                    Some(next) => next,
                    None => break,
                },
            };
            let controller = Arc::clone(&self);
            rounds.spawn(async move {
                // A panic is a defect of the executor. The action still needs its next round.
                if AssertUnwindSafe(controller.rounds(&key)).catch_unwind().await.is_err() {
                    tracing::error!(namespace = %key.namespace, name = %key.name, "a round panicked");
                    let pause = backoff(controller.queue.failed(&key));
                    let at = controller.reconciler.clock.instant() + pause;
                    controller.queue.finished(&key, Next::At(at));
                }
                drop(permit);
            });
        }
        let drained = async { while rounds.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_err() {
            tracing::warn!(
                rounds = rounds.len(),
                "rounds were still running when the process stopped; the next process runs them again"
            );
            rounds.shutdown().await;
        }
        if tokio::time::timeout(FLUSH_TIMEOUT, self.statuses.flush_all()).await.is_err() {
            tracing::warn!(
                "not every held status was written before the process stopped; the next process decides them again"
            );
        }
    }

    /// Gives every action its first round, the oldest first.
    fn start_queue(&self) {
        let created = |key: &ActionKey| self.action_store.get(key)?.object.metadata.creation_timestamp.clone();
        let mut keys: Vec<_> = self.action_store.keys().into_iter().map(|key| (created(&key), key)).collect();
        keys.sort_by(|(one, key), (other, other_key)| (one, &key.name).cmp(&(other, &other_key.name)));
        self.queue.open();
        for (_, key) in keys {
            self.queue.wake(&key);
        }
    }

    /// Runs rounds of one action until none is needed immediately.
    async fn rounds(&self, key: &ActionKey) {
        let clock = &self.reconciler.clock;
        let started = clock.instant();
        // A round that does not know the status might report and write an earlier state after a later one.
        if self.action_store.is_uncertain(key)
            && let Err(error) = self.reconciler.actions.refresh(key).await
        {
            let next = self.after_failure(key, &error);
            self.queue.finished(key, next);
            return;
        }
        let safety = self.queue.is_safety(key);
        let mut before = None;
        let mut next = Next::Again;
        for _ in 0..MAX_CONSECUTIVE_ROUNDS {
            let Some(action) = self.action_store.get(key) else {
                next = Next::Idle;
                break;
            };
            let span = tracing::info_span!(
                "action",
                namespace = %key.namespace,
                name = %key.name,
                task_type = action.object.spec.task_type,
                attempt = action.object.status.as_ref().map_or(1, TaskActionStatus::observed_attempt),
            );
            let before = before.get_or_insert_with(|| Arc::clone(&action));
            // The time of day may be set while the round runs, so both clocks are read before it.
            let begin = (clock.now(), clock.instant());
            let wake = self.reconciler.reconcile(&action).instrument(span.clone()).await;
            match wake {
                Ok(Wake::Now) => continue,
                Ok(wake) => {
                    if safety && found_something(before, self.action_store.get(key).as_deref()) {
                        metrics::counter!("aileron_safety_finds_total").increment(1);
                        tracing::warn!(parent: &span, "no watch reported a change of this action; a safety round found it");
                    }
                    next = self.after(key, wake, begin).instrument(span).await;
                }
                Err(error) => {
                    let _entered = span.enter();
                    next = self.after_failure(key, &error);
                }
            }
            break;
        }
        metrics::histogram!("aileron_round_seconds").record((clock.instant() - started).as_secs_f64());
        self.queue.finished(key, next);
    }

    /// When the next round is due after a round without an error, which began at this time.
    async fn after(&self, key: &ActionKey, wake: Wake, begin: (Timestamp, Instant)) -> Next {
        self.queue.succeeded(key);
        let Some(action) = self.action_store.get(key).filter(|_| wake != Wake::Never) else { return Next::Idle };
        let held = match self.statuses.flush_if_due(key, || self.queue.is_dirty(key)).await {
            Ok(held) => held,
            Err(error) if error.is_not_found() => None,
            Err(error) => return self.after_failure(key, &error),
        };
        next_round(wake, held, waits_at_the_gate(&action), begin, self.reconciler.clock.instant())
    }

    fn after_failure(&self, key: &ActionKey, error: &dyn std::error::Error) -> Next {
        let failures = self.queue.failed(key);
        let pause = backoff(failures);
        metrics::counter!("aileron_round_failures_total").increment(1);
        tracing::warn!(error = %error, failures, pause_ms = pause.as_millis(), "the round failed and will be retried");
        Next::At(self.reconciler.clock.instant() + pause)
    }
}

/// When the next round of an action is due. `wake` is the result of its last round, which began at `begin`, and `held` is when
/// a held status must be written. `at_gate` says that the action waits for admission: the gate wakes it, so a round in the
/// far future only guards against a lost wake-up.
fn next_round(wake: Wake, held: Option<Instant>, at_gate: bool, begin: (Timestamp, Instant), now: Instant) -> Next {
    let wanted = match wake {
        Wake::Never => return Next::Idle,
        Wake::Now => return Next::Again,
        Wake::OnChange => None,
        Wake::Retry(pause) => Some(now + unsigned(pause)),
        Wake::At(at) => Some(begin.1 + unsigned(at.duration_since(begin.0))),
    };
    match wanted.into_iter().chain(held).min() {
        Some(at) if at_gate && at > now + LONGEST_GATE_PAUSE => Next::Safety(at),
        Some(at) => Next::At(at),
        None => Next::Safety(now + SAFETY_INTERVAL),
    }
}

/// Whether a safety round found a change that no watch reported. While an action waits for admission, the text of its
/// reason changes with the other waiting actions; there only a missed chance to go on counts.
fn found_something(before: &Action, after: Option<&Action>) -> bool {
    let Some(after) = after else { return true };
    if !waits_at_the_gate(before) {
        return before.object.status != after.object.status;
    }
    // An attempt that exceeded its time limit while it waited missed no change.
    let (before, now) = (before.status(), after.status());
    !waits_at_the_gate(after) && !now.is_terminal() && now.observed_attempt() == before.observed_attempt()
}

fn waits_at_the_gate(action: &Action) -> bool {
    let pending = action.object.status.as_ref().and_then(TaskActionStatus::pending);
    let reason = pending.and_then(|pending| PendingReason::from_code(&pending.reason));
    matches!(reason, Some(PendingReason::Quota | PendingReason::BackOff))
}

fn backoff(failures: u32) -> Duration {
    ExponentialBackoff::doubling(FIRST_BACKOFF, LONGEST_BACKOFF).pause(failures)
}

fn unsigned(duration: SignedDuration) -> Duration {
    Duration::try_from(duration).unwrap_or_default()
}

#[cfg(test)]
mod tests;
