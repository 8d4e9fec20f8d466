//! What follows a failure: a retry that uses one of the task's attempts, a relaunch that uses the platform's budget, or
//! the end of the action.

use aileron_action::TaskActionStatus;
use aileron_action::conditions::reason;
use aileron_machinery::{
    CoreStep, ErrorKind, ExecutionError, Pending, PendingReason, PhaseInfo, PluginError, TaskInfo,
};

use super::{
    AfterSystemFailure, Decision, Facts, NextAttempt, ObjectStep, Record, SystemFailure, forget_plugin_state,
    object_after_end, store_plugin_state,
};
use crate::reconcile::Wake;
use crate::reconcile::limits::{LimitExceeded, go, limits_queue_time, retry_pause};

/// Code of an action that ended because the platform failed too often.
const TOO_MANY_SYSTEM_FAILURES: &str = "MaxSystemFailuresExceeded";

/// Bounds the length of an error, in characters, when it is quoted in the sentence that says what a task waits for.
const QUOTED_ERROR_LENGTH: usize = 160;

/// The attempt failed through the task's own fault: the next attempt follows if one is left, else the action ends.
pub(in crate::reconcile) fn after_user_failure(facts: &Facts<'_>, step: &CoreStep) -> Decision {
    let mut status = facts.before.clone();
    store_plugin_state(&mut status, step);
    status.system_failures = 0;
    let attempt = status.observed_attempt();
    if attempt >= facts.max_attempts {
        return Decision::Record(Box::new(end_after_last_attempt(facts, status, step)));
    }
    let pause = retry_pause(facts.limits, attempt);
    let queued = PhaseInfo::queued("restarting task", TaskInfo::at(facts.now));
    let queued = if pause.is_zero() {
        queued
    } else {
        let (next, most, pause) = (attempt.saturating_add(1), facts.max_attempts, go(pause));
        let why = step.phase.error().map(quoted).unwrap_or_default();
        let message = format!("waiting {pause} before attempt {next} of {most}, as the task asks for{why}");
        queued.with_pending(Pending::new(PendingReason::Retry, message))
    };
    status.attempts = attempt.saturating_add(1);
    forget_plugin_state(&mut status);
    if limits_queue_time(facts.limits) {
        // Without a new history entry, the queue time of this attempt would count towards the limit of the next one.
        status.begin_history(reason::QUEUED, queued.reason(), facts.now);
    }
    facts.show(&mut status, &queued);
    let wake = if pause.is_zero() { Wake::Now } else { facts.now.checked_add(pause).map_or(Wake::Now, Wake::At) };
    let failed = (failed_attempt(facts, &step.phase), step.phase.clone());
    Decision::NextAttempt(Box::new(NextAttempt { failed, next: (status, queued), wake }))
}

/// A time limit is reached: that of the attempt, after which another may follow, or that of the action.
pub(in crate::reconcile) fn stop_at_limit(facts: &Facts<'_>, step: &CoreStep, limit: &LimitExceeded) -> Decision {
    let info = info_of(&step.phase, facts);
    if !limit.ends_action {
        let phase = PhaseInfo::retryable_failure(limit.error.clone(), info).out_of_time();
        let step = CoreStep { phase, state: step.state.clone(), wake_at: None };
        return after_user_failure(facts, &step);
    }
    let phase = PhaseInfo::permanent_failure(limit.error.clone(), info).out_of_time();
    let mut status = facts.before.clone();
    facts.show(&mut status, &phase);
    Decision::Record(Box::new(Record { status, phase, object: ObjectStep::StopFirst, wake: Wake::OnChange }))
}

/// The platform failed: it is counted, and the attempt is tried again, until the budget is used up. An error that would
/// come back in the same way ends the action at once. `stop_object` says that the object itself failed.
pub(in crate::reconcile) fn after_system_failure(
    facts: &Facts<'_>,
    mut status: TaskActionStatus,
    error: &PluginError,
    stop_object: bool,
) -> Decision {
    if let Some(code) = error.non_retryable_code() {
        let error = ExecutionError { kind: ErrorKind::User, code: code.into(), message: error.to_string() };
        return Decision::Record(Box::new(fail(facts, status, error)));
    }
    let id = &facts.plugin.id;
    let warning = format!("Plugin {id:?} system error: {error}");
    status.system_failures = status.system_failures.saturating_add(1);
    let failures = status.system_failures;
    let then = if failures > facts.settings.max_system_failures() {
        let message = format!("plugin {id:?} failed with system error {failures} times: {error}");
        let error = ExecutionError::system(TOO_MANY_SYSTEM_FAILURES, message);
        AfterSystemFailure::Fail(Box::new(fail(facts, status, error)))
    } else {
        AfterSystemFailure::TryAgain { status: Box::new(status), wake: Wake::Retry(facts.settings.requeue()) }
    };
    Decision::SystemFailure(Box::new(SystemFailure { warning, stop_object, then }))
}

/// The plugin cannot be asked, because the task has no usable context. The next round would fail in the same way, so the
/// action ends.
pub(in crate::reconcile) fn without_task_context(facts: &Facts<'_>, error: ExecutionError) -> Decision {
    Decision::Record(Box::new(fail(facts, facts.before.clone(), error)))
}

/// Ends the action with an error that no attempt reported.
pub(in crate::reconcile) fn fail(facts: &Facts<'_>, mut status: TaskActionStatus, error: ExecutionError) -> Record {
    let phase = PhaseInfo::permanent_failure(error, TaskInfo::at(facts.now));
    facts.show_conditions(&mut status, &phase);
    status.plugin_phase = phase.phase().as_str().into();
    status.plugin_phase_version = phase.version();
    Record { status, phase, object: ObjectStep::Keep, wake: Wake::Never }
}

fn end_after_last_attempt(facts: &Facts<'_>, mut status: TaskActionStatus, step: &CoreStep) -> Record {
    let error = step.phase.error().cloned().unwrap_or_else(|| {
        let attempts = status.observed_attempt();
        ExecutionError::user("MaxRetriesExceeded", format!("task failed after {attempts} attempt(s)"))
    });
    let mut phase = PhaseInfo::permanent_failure(error, info_of(&step.phase, facts));
    if step.phase.cleanup_on_failure() {
        phase = phase.with_cleanup();
    }
    let mut object = object_after_end(&phase);
    if step.phase.is_out_of_time() {
        phase = phase.out_of_time();
        object = ObjectStep::StopFirst;
    }
    facts.show(&mut status, &phase);
    Record { status, phase, object, wake: Wake::OnChange }
}

/// The status at the end of an attempt that another one follows, for its last event.
///
/// # Differs from upstream
///
/// Upstream never reports such an attempt: it stays "running" in the records for ever. Here its end and the beginning of
/// the next one are recorded together, because a client that follows an action stops when its last attempt has ended.
fn failed_attempt(facts: &Facts<'_>, phase: &PhaseInfo) -> TaskActionStatus {
    let mut ended = facts.before.clone();
    ended.show_phase(phase, facts.now);
    ended
}

/// Code and first line of an error, to be put at the end of a sentence.
fn quoted(error: &ExecutionError) -> String {
    let line = error.message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let short: String = line.chars().take(QUOTED_ERROR_LENGTH).collect();
    // An error document may have no code.
    let code = if error.code.is_empty() { "an error" } else { &error.code };
    format!("; the attempt before failed with {code}: {short}")
}

/// What a phase tells beyond its name; only the time if it tells nothing.
fn info_of(phase: &PhaseInfo, facts: &Facts<'_>) -> TaskInfo {
    phase.info().cloned().unwrap_or_else(|| TaskInfo::at(facts.now))
}

#[cfg(test)]
mod tests;
