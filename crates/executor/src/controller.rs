//! The loop that gives every action its rounds: when something about it changed or is due, and never two at a time.

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
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::caches::actions::ActionStore;
use crate::queue::{Next, Queue};
use crate::reconcile::{Reconciler, Wake};
use crate::status_writer::StatusWriter;

/// One round does one step, and most lives need a few steps in a row at the start; more than this in a row would be a
/// defect, and then others get their turn first.
const STEPS_IN_A_ROW: usize = 8;

/// How long an action may go without a look although nothing was seen to change. Watches tell everything, so what this
/// finds is counted, and the count should stay at zero.
const SAFETY: Duration = Duration::from_secs(600);

/// A task at the gate comes back by itself after a pause that a refusal brought, which is no longer than this unless
/// somebody configures it so; what it asks for beyond that is a look in case it was not called.
const LONGEST_GATE_PAUSE: Duration = Duration::from_secs(100);

/// First pause after a round that failed, doubled with each further failure: an API server that hiccups is asked again
/// soon, one that is down is not hammered.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// The longest such pause; an action should not sleep long past the end of an outage.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// How long rounds may take to end when the process is to stop. Together with [`FLUSH`] and the grace for events this
/// stays below the 30 s that Kubernetes grants a pod.
const DRAIN: Duration = Duration::from_secs(12);
/// How long held statuses may take to be written then.
const FLUSH: Duration = Duration::from_secs(5);

/// Runs rounds.
pub struct Controller {
    /// Decides and does.
    pub reconciler: Arc<Reconciler>,
    /// What is known of the actions.
    pub memory: Arc<ActionStore>,
    /// Who is next.
    pub queue: Arc<Queue>,
    /// Writes statuses, among them those that it holds until they are due.
    pub statuses: Arc<StatusWriter>,
    /// `executor.maxConcurrentReconciles`: rounds under way at once. Writes have a smaller bound of their own.
    pub max_rounds: usize,
}

impl Controller {
    /// Runs until cancelled, then lets the rounds under way finish.
    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        let rounds = TaskTracker::new();
        let permits = Arc::new(Semaphore::new(self.max_rounds.max(1)));
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
            let key = tokio::select! {
                () = cancel.cancelled() => break,
                key = self.queue.next() => key,
            };
            let controller = Arc::clone(&self);
            rounds.spawn(async move {
                // A panic here would be our own defect; it must not leave the action without any further round.
                if AssertUnwindSafe(controller.rounds(&key)).catch_unwind().await.is_err() {
                    tracing::error!(namespace = %key.namespace, name = %key.name, "a round panicked");
                    let pause = backoff(controller.queue.failed(&key));
                    let at = controller.reconciler.clock.instant() + pause;
                    controller.queue.finished(&key, Next::At(at));
                }
                drop(permit);
            });
        }
        rounds.close();
        if tokio::time::timeout(DRAIN, rounds.wait()).await.is_err() {
            tracing::warn!(rounds = rounds.len(), "rounds were still under way at the end; they will be done again");
        }
        if tokio::time::timeout(FLUSH, self.statuses.flush_all()).await.is_err() {
            tracing::warn!("not every held status could be written at the end; the next start decides them anew");
        }
    }

    /// Rounds for one action until it has nothing more to do at once.
    async fn rounds(&self, key: &ActionKey) {
        let clock = &self.reconciler.clock;
        let started = clock.instant();
        let safety = self.queue.is_safety(key);
        let mut before = None;
        let mut next = Next::Again;
        for _ in 0..STEPS_IN_A_ROW {
            let Some(action) = self.memory.get(key) else {
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
            let wake = self.reconciler.reconcile(&action).instrument(span.clone()).await;
            match wake {
                Ok(Wake::Now) => continue,
                Ok(wake) => {
                    if safety && found_something(before, self.memory.get(key).as_deref()) {
                        metrics::counter!("aileron_safety_finds_total").increment(1);
                        tracing::warn!(parent: &span, "a change was missed and found only by looking");
                    }
                    next = self.after(key, wake).instrument(span).await;
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

    /// When to come back after a round that went well.
    async fn after(&self, key: &ActionKey, wake: Wake) -> Next {
        self.queue.succeeded(key);
        let Some(action) = self.memory.get(key).filter(|_| wake != Wake::Never) else { return Next::Idle };
        let clock = &self.reconciler.clock;
        let (now, instant) = (clock.now(), clock.instant());
        let held = match self.statuses.flush_if_due(key, || self.queue.is_dirty(key)).await {
            Ok(held) => held,
            Err(error) if error.is_not_found() => None,
            Err(error) => return self.after_failure(key, &error),
        };
        next_round(wake, held, waits_at_the_gate(&action), now, instant)
    }

    fn after_failure(&self, key: &ActionKey, error: &dyn std::error::Error) -> Next {
        let failures = self.queue.failed(key);
        let pause = backoff(failures);
        metrics::counter!("aileron_round_failures_total").increment(1);
        tracing::warn!(error = %error, failures, pause_ms = pause.as_millis(), "the round failed and is tried again");
        Next::At(self.reconciler.clock.instant() + pause)
    }
}

/// When the next round of an action is due. `wake` is what its last round asked for, `held` when a held status must be
/// sent. An action at the gate is woken by the gate, so a far-off round that it asks for only guards against a lost
/// wake-up.
fn next_round(wake: Wake, held: Option<Instant>, at_gate: bool, now: Timestamp, instant: Instant) -> Next {
    let wanted = match wake {
        Wake::Never => return Next::Idle,
        Wake::Now => return Next::Again,
        Wake::OnChange => None,
        Wake::Retry(pause) => Some(instant + unsigned(pause)),
        Wake::At(at) => Some(instant + unsigned(at.duration_since(now))),
    };
    match wanted.into_iter().chain(held).min() {
        Some(at) if at_gate && at > instant + LONGEST_GATE_PAUSE => Next::Safety(at),
        Some(at) => Next::At(at),
        None => Next::Safety(instant + SAFETY),
    }
}

/// Whether a look that nothing seemed to call for found that something had changed. At the gate the words change as others
/// come and go; what matters there is whether the action could have gone on.
fn found_something(before: &Action, after: Option<&Action>) -> bool {
    let Some(after) = after else { return true };
    if !waits_at_the_gate(before) {
        return before.object.status != after.object.status;
    }
    // An attempt that waited longer than its task allows was not forgotten.
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
