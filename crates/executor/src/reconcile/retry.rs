//! What follows a failure: another attempt on the user's budget, a relaunch on the platform's, or the end.

use aileron_machinery::{
    CorePlugin, CoreRequest, CoreStep, ErrorKind, ExecutionError, Pending, PendingReason, PhaseInfo, PluginError,
    TaskInfo,
};
use jiff::Timestamp;
use k8s_openapi::ByteString;

use super::drive::{apply, guarded, info_of};
use super::limits::{Over, go, limits_queue, pause_after};
use super::{ReconcileError, Reconciler, Wake, plugin_id};
use crate::action::conditions::reason;
use crate::action::{Action, TaskActionStatus};
use crate::cluster::Urgency;

/// Code of an action whose platform failed too often.
const TOO_MANY_SYSTEM_FAILURES: &str = "MaxSystemFailuresExceeded";

/// As much of an error as fits into a line that people read while they wait.
const LINE: usize = 160;

impl Reconciler {
    /// The attempt failed on the user's account: the next attempt if one is left, else the end.
    pub(super) async fn retry_or_give_up(
        &self,
        action: &Action,
        plugin: &dyn CorePlugin,
        request: &CoreRequest<'_>,
        step: CoreStep,
    ) -> Result<Wake, ReconcileError> {
        let now = request.task.now;
        let mut status = action.status();
        apply(&mut status, &step);
        status.system_failures = 0;
        let attempt = status.observed_attempt();
        if attempt >= request.task.metadata.max_attempts {
            let error = step.phase.error().cloned().unwrap_or_else(|| {
                ExecutionError::user("MaxRetriesExceeded", format!("task failed after {attempt} attempt(s)"))
            });
            let mut phase = PhaseInfo::permanent_failure(error, info_of(&step.phase, request.task));
            if step.phase.is_out_of_time() {
                // What has run out of time still runs. It is stopped first: after a crash the time is still over, and
                // the object is stopped again.
                discard(plugin, request).await;
                phase = phase.out_of_time();
            }
            self.show(action, &mut status, &phase, now);
            self.record(action, &status, &phase).await?;
            return Ok(Wake::OnChange);
        }
        let pause = pause_after(request.task.template.metadata.as_ref(), attempt);
        let queued = PhaseInfo::queued("restarting task", TaskInfo::at(now));
        let queued = if pause.is_zero() {
            queued
        } else {
            let (next, most) = (attempt.saturating_add(1), request.task.metadata.max_attempts);
            let pause = go(pause);
            let why = step.phase.error().map(first_line).unwrap_or_default();
            let message = format!("waiting {pause} before attempt {next} of {most}, as the task asks for{why}");
            queued.with_pending(Pending::new(PendingReason::Retry, message))
        };
        status.attempts = attempt.saturating_add(1);
        forget_plugin_state(&mut status);
        if limits_queue(request.task.template.metadata.as_ref()) {
            // An attempt that never left the queue would lend its time to the next one.
            status.begin_history(reason::QUEUED, queued.reason(), now);
        }
        self.show(action, &mut status, &queued, now);
        let failed = failed_attempt(action, &step.phase, now);
        self.report_all(action, &[(&failed, &step.phase), (&status, &queued)]).await?;
        // The new attempt is written down before the old object goes. A crash in between leaves an object that the
        // next launch clears away; the other order would leave an attempt that looks lost and is run again.
        self.actions.write_status(action, &status, Urgency::Immediate).await?;
        discard(plugin, request).await;
        Ok(if pause.is_zero() { Wake::Now } else { now.checked_add(pause).map_or(Wake::Now, Wake::At) })
    }

    /// Time is up: for the attempt, after which another may follow, or for the action.
    pub(super) async fn out_of_time(
        &self,
        action: &Action,
        plugin: &dyn CorePlugin,
        request: &CoreRequest<'_>,
        step: &CoreStep,
        over: Over,
    ) -> Result<Wake, ReconcileError> {
        let info = info_of(&step.phase, request.task);
        if !over.is_final {
            let phase = PhaseInfo::retryable_failure(over.error, info).out_of_time();
            let step = CoreStep { phase, state: step.state.clone(), wake_at: None };
            return self.retry_or_give_up(action, plugin, request, step).await;
        }
        discard(plugin, request).await;
        let phase = PhaseInfo::permanent_failure(over.error, info).out_of_time();
        let mut status = action.status();
        self.show(action, &mut status, &phase, request.task.now);
        self.record(action, &status, &phase).await?;
        Ok(Wake::OnChange)
    }

    /// The object failed on the platform's account: away with it, and once more from the start.
    pub(super) async fn reset_after_system_failure(
        &self,
        action: &Action,
        plugin: &dyn CorePlugin,
        request: &CoreRequest<'_>,
        error: &PluginError,
    ) -> Result<Wake, ReconcileError> {
        discard(plugin, request).await;
        let mut status = action.status();
        forget_plugin_state(&mut status);
        self.system_error(action, status, plugin, error).await
    }

    /// Charges a failure to the platform; beyond the allowed number, or when trying again is useless, it is the end.
    pub(super) async fn system_error(
        &self,
        action: &Action,
        mut status: TaskActionStatus,
        plugin: &dyn CorePlugin,
        error: &PluginError,
    ) -> Result<Wake, ReconcileError> {
        let id = plugin_id(plugin);
        if let Some(code) = error.non_retryable_code() {
            let error = ExecutionError { kind: ErrorKind::User, code: code.into(), message: error.to_string() };
            return self.end(action, status, error).await;
        }
        tracing::warn!(plugin = id, %error, "the platform failed the task");
        let note = format!("Plugin {id:?} system error: {error}");
        self.actions.warn(&action.object, "FailedPluginHandle", "HandlingPlugin", &note).await;
        status.system_failures = status.system_failures.saturating_add(1);
        let failures = status.system_failures;
        if failures > self.max_system_failures() {
            let message = format!("plugin {id:?} failed with system error {failures} times: {error}");
            return self.end(action, status, ExecutionError::system(TOO_MANY_SYSTEM_FAILURES, message)).await;
        }
        self.actions.write_status(action, &status, Urgency::Immediate).await?;
        Ok(Wake::Retry(self.requeue()))
    }

    /// Ends the action with an error that no attempt brought.
    pub(super) async fn fail(&self, action: &Action, error: ExecutionError) -> Result<Wake, ReconcileError> {
        self.end(action, action.status(), error).await
    }

    async fn end(
        &self,
        action: &Action,
        mut status: TaskActionStatus,
        error: ExecutionError,
    ) -> Result<Wake, ReconcileError> {
        let now = self.clock.now();
        let phase = PhaseInfo::permanent_failure(error, TaskInfo::at(now));
        self.show_phase(action, &mut status, &phase, now);
        status.plugin_phase = phase.phase().as_str().into();
        status.plugin_phase_version = phase.version();
        self.record(action, &status, &phase).await?;
        Ok(Wake::Never)
    }

    /// Zero means the default, as in the configuration.
    fn max_system_failures(&self) -> u32 {
        match self.settings.max_system_failures {
            0 => super::Settings::default().max_system_failures,
            allowed => allowed,
        }
    }
}

/// Stops the object of a failed attempt.
///
/// # Differs from upstream
///
/// Our finalizer comes off, too. Upstream leaves it, so that with `inject-finalizer` the object never goes away, and a
/// relaunch waits for its name for ever.
async fn discard(plugin: &dyn CorePlugin, request: &CoreRequest<'_>) {
    let stopped = match guarded(plugin.abort(request)).await {
        Ok(()) if request.task.platform.k8s.inject_finalizer => guarded(plugin.finalize(request)).await,
        stopped => stopped,
    };
    if let Err(error) = stopped {
        tracing::warn!(%error, "failed to stop the object of the failed attempt");
    }
}

/// The status at the end of an attempt that another follows, for its last event.
///
/// # Differs from upstream
///
/// Upstream never reports such an attempt: it stays "running" in the records for ever. Here its end and the beginning of
/// the next are recorded together, since whoever follows an action stops when its last known attempt has ended.
fn failed_attempt(action: &Action, phase: &PhaseInfo, now: Timestamp) -> TaskActionStatus {
    let mut ended = action.status();
    ended.show_phase(phase, now);
    ended
}

/// An error in few words, to be put behind others.
fn first_line(error: &ExecutionError) -> String {
    let line = error.message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let short: String = line.chars().take(LINE).collect();
    format!("; the attempt before failed with {}: {short}", error.code)
}

fn forget_plugin_state(status: &mut TaskActionStatus) {
    status.plugin_state = ByteString::default();
    status.plugin_state_version = 0;
}
