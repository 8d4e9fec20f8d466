//! Letting the plugin work, and deciding what its answer means for the action.

use std::panic::AssertUnwindSafe;

use aileron_machinery::{
    CorePlugin, CoreRequest, CoreStep, ExecutionError, Phase, PhaseInfo, PluginError, StoredState, TaskContext,
    TaskInfo, code,
};
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;

use super::cache::{CacheDecision, CacheStageError};
use super::limits::{Verdict, judge, pauses_until};
use super::patience::{Patience, patience};
use super::{ReconcileError, Reconciler, Wake};
use crate::action::conditions::reason;
use crate::action::{Action, TaskActionStatus, Template};

impl Reconciler {
    /// One round of a well-formed action: cache, plugin, outcome, record.
    pub(super) async fn drive(&self, action: &Action, plugin: &dyn CorePlugin) -> Result<Wake, ReconcileError> {
        let task = match self.workable(action) {
            Ok(task) => task,
            Err(error) => return self.fail(action, error).await,
        };
        let stored = stored_state(action);
        let request = CoreRequest::new(&task, &stored).with_running_since(running_since(action));
        let before = action.status();
        let limits = task.template.metadata.as_ref();
        let verdict = judge(limits, &action.object, &before, task.now);
        let over = match &verdict {
            Verdict::Over(over) => Some(over.clone()),
            Verdict::Within(_) => None,
        };
        // Nothing runs that could have ended in the meantime.
        if let Some(over) = over.clone().filter(|over| over.is_queued) {
            return self.out_of_time(action, plugin, &request, &CoreStep::of(PhaseInfo::undefined()), over).await;
        }
        if let Some(until) = pauses_until(limits, &before).filter(|until| task.now < *until) {
            return Ok(Wake::At(earlier(Some(until), &verdict).unwrap_or(until)));
        }

        let cached = match self.consult_cache(action, &task).await {
            Ok(decision) => decision,
            Err(CacheStageError::Unusable(error)) => return self.fail(action, error).await,
            Err(error) => {
                tracing::warn!(%error, "the cache could not be consulted; trying again later");
                return Ok(Wake::Retry(self.requeue()));
            }
        };
        let reserved = cached == CacheDecision::Run { reserved: true };
        let (from_cache, mut step) = match cached {
            CacheDecision::Hit(phase) => {
                // Somebody filled the cache after our own object was made; nobody needs its outputs any more.
                if !stored.bytes.is_empty()
                    && let Err(error) = guarded(plugin.abort(&request)).await
                {
                    tracing::warn!(%error, "failed to stop the object that a cache hit made superfluous");
                }
                (true, CoreStep::of(phase))
            }
            CacheDecision::Wait(phase) => (true, CoreStep::of(phase)),
            CacheDecision::Run { .. } => match guarded(plugin.handle(&request)).await {
                Ok(step) => (false, step),
                Err(error) if over.is_none() => {
                    return self.system_error(action, before, plugin, &error).await;
                }
                // Whatever it is, there is no time left for it.
                Err(_) => (false, CoreStep::of(PhaseInfo::undefined())),
            },
        };
        // What has ended meanwhile has ended in time.
        let has_ended = matches!(step.phase.phase(), Phase::Success | Phase::PermanentFailure);
        let has_failed = step.phase.phase() == Phase::RetryableFailure && !step.phase.is_system_retryable_failure();
        if let Some(over) = over.filter(|over| !has_ended && (over.is_final || !has_failed)) {
            return self.out_of_time(action, plugin, &request, &step, over).await;
        }
        if step.phase.phase() == Phase::Undefined {
            step.wake_at = earlier(step.wake_at, &verdict);
            return Ok(self.next_look(&before, &step, reserved));
        }
        if !from_cache {
            self.settle_cache(action, &task, &mut step.phase).await;
            if step.phase.is_system_retryable_failure() {
                let error = flattened(&step.phase);
                return self.reset_after_system_failure(action, plugin, &request, &error).await;
            }
            if step.phase.phase() == Phase::RetryableFailure {
                return self.retry_or_give_up(action, plugin, &request, step).await;
            }
        }
        let mut status = before;
        apply(&mut status, &step);
        let now = task.now;
        if made_progress(&status, step.phase.phase()) {
            status.system_failures = 0;
        }
        self.show(action, &mut status, &step.phase, now);
        match patience(&status, self.settings.missing_kind_timeout, now) {
            Patience::Unbounded => {}
            Patience::Until(deadline) => step.wake_at = Some(step.wake_at.map_or(deadline, |at| at.min(deadline))),
            Patience::Over(error) => return self.fail(action, error).await,
        }
        self.record(action, &status, &step.phase).await?;
        step.wake_at = earlier(step.wake_at, &judge(limits, &action.object, &status, now));
        Ok(self.next_look(&status, &step, reserved))
    }

    /// When to look again after a phase was recorded.
    fn next_look(&self, status: &TaskActionStatus, step: &CoreStep, reserved: bool) -> Wake {
        if status.is_terminal() {
            return Wake::OnChange;
        }
        // Nobody tells when the owner of a reservation is done, and our own must be extended.
        if reserved || step.phase.phase() == Phase::WaitingForCache {
            let pause = step.wake_at.map(|at| at.duration_since(self.clock.now()).max(SignedDuration::ZERO));
            return Wake::Retry(pause.map_or_else(|| self.requeue(), |pause| pause.min(self.requeue())));
        }
        step.wake_at.map_or(Wake::OnChange, Wake::At)
    }

    /// The attempt, if anything can be made of it.
    ///
    /// # Differs from upstream
    ///
    /// A template that cannot be decoded and an output location that is none never get better; the action fails with
    /// that, instead of being looked at for ever without a word.
    fn workable(&self, action: &Action) -> Result<TaskContext, ExecutionError> {
        if let Template::Unreadable(error) = &action.template {
            let message = format!("spec.taskTemplate is not a readable task template: {error}");
            return Err(ExecutionError::user(code::BAD_TASK_SPECIFICATION, message));
        }
        self.task_context(action).map_err(|error| ExecutionError::user(code::BAD_TASK_SPECIFICATION, error.to_string()))
    }
}

/// The earlier of a moment and the one at which time is up.
fn earlier(at: Option<Timestamp>, verdict: &Verdict) -> Option<Timestamp> {
    match verdict {
        Verdict::Within(until) => [at, *until].into_iter().flatten().min(),
        Verdict::Over(_) => at,
    }
}

/// Stores what a step brought.
pub(super) fn apply(status: &mut TaskActionStatus, step: &CoreStep) {
    if let Some(write) = &step.state {
        status.plugin_state = ByteString(write.bytes.clone());
        status.plugin_state_version = write.version;
    }
}

/// Calls into a plugin; a panic is an error of that one task.
pub(super) async fn guarded<T>(call: impl Future<Output = Result<T, PluginError>>) -> Result<T, PluginError> {
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            metrics::counter!("aileron_plugin_panics_total").increment(1);
            Err(PluginError::uncoded(format!("plugin panicked: {}", text.as_deref().unwrap_or("no message"))))
        }
    }
}

/// What was stored, as its plugin gets it back.
pub(super) fn stored_state(action: &Action) -> StoredState {
    action.object.status.as_ref().map_or_else(StoredState::default, |status| StoredState {
        bytes: status.plugin_state.0.clone(),
        version: status.plugin_state_version,
    })
}

/// When the history last entered `Executing`, if it is still there.
fn running_since(action: &Action) -> Option<Timestamp> {
    let status = action.object.status.as_ref()?;
    let last = status.phase_history.last()?;
    (last.phase == reason::EXECUTING).then_some(last.occurred_at.0)
}

/// The action entered a phase that it had not reached before, so earlier failures of the platform are forgiven.
///
/// # Differs from upstream
///
/// Upstream forgives at any phase, also at the `Queued` that follows every relaunch, so that a task which dies in the
/// same way each time is started again for ever.
fn made_progress(status: &TaskActionStatus, phase: Phase) -> bool {
    let shown = match phase {
        Phase::NotReady | Phase::Queued | Phase::WaitingForResources | Phase::WaitingForCache => reason::QUEUED,
        Phase::Initializing => reason::INITIALIZING,
        Phase::Running => reason::EXECUTING,
        _ => return true,
    };
    status.phase_history.iter().all(|line| line.phase != shown)
}

/// The text under which a failed phase counts as a platform failure.
fn flattened(phase: &PhaseInfo) -> PluginError {
    match phase.error() {
        Some(error) => PluginError::uncoded(format!("[{}] {}", error.code, error.message)),
        None => PluginError::uncoded("system retryable failure"),
    }
}

/// The information of a phase, or none but the time.
pub(super) fn info_of(phase: &PhaseInfo, task: &TaskContext) -> TaskInfo {
    phase.info().cloned().unwrap_or_else(|| TaskInfo::at(task.now))
}
