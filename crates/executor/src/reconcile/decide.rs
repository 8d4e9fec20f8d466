//! What a round decides about a task: pure functions on plain values.
//!
//! A round asks the cache service and the plugin, so it decides in four steps, with I/O between them:
//!
//! ```text
//! before_cache ─ cache lookup ─ before_plugin ─ plugin ─ after_plugin ─ cache update ─ after_cache_update
//!                                   └─ after_cache, if the cache made the plugin unnecessary
//! ```
//!
//! Every step may end the round with a [`Decision`], which [`apply`](super::apply) carries out. [`failure`] has the rules
//! for attempts that fail or run out of time.

pub(super) mod failure;
#[cfg(test)]
pub(super) mod tests;

use std::ops::ControlFlow;

use aileron_action::conditions::reason;
use aileron_action::events::cache_status;
use aileron_action::metadata::max_attempts;
use aileron_action::{Action, TaskActionStatus};
use aileron_idl::flyteidl2::core::TaskMetadata;
use aileron_machinery::error_text::chain;
use aileron_machinery::{CoreStep, Phase, PhaseInfo, PluginError};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use serde_json::json;

use self::failure::{after_system_failure, after_user_failure, fail, stop_at_limit};
use super::cache::{CacheAnswer, CacheStageError};
use super::limits::{LimitCheck, LimitExceeded, check_limits, retry_pause_end};
use super::missing_kind::{MissingKindDeadline, missing_kind_deadline};
use super::outage::{Outage, wait_for_end};
use super::plugin_condition::{ChosenPlugin, PLUGIN_CHOSEN, plugin_condition};
use super::{Settings, Wake};

/// Everything that is known about an action when its round begins.
pub(super) struct Facts<'a> {
    pub(super) action: &'a Action,
    /// The status when the round began.
    pub(super) before: TaskActionStatus,
    /// The limits that the author of the task set, if there are any.
    pub(super) limits: Option<&'a TaskMetadata>,
    /// Whether the action was within its limits when the round began.
    pub(super) limit_check: LimitCheck,
    /// How many attempts the task has.
    pub(super) max_attempts: u32,
    pub(super) plugin: ChosenPlugin,
    pub(super) settings: &'a Settings,
    /// The time of the round.
    pub(super) now: Timestamp,
}

/// What a round does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// Write nothing.
    Wait(Wake),
    /// Record a phase.
    Record(Box<Record>),
    /// Record the end of this attempt and the start of the next, then stop the object of this attempt.
    NextAttempt(Box<NextAttempt>),
    /// Report a failure of the platform, and count it.
    SystemFailure(Box<SystemFailure>),
}

/// A phase to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) status: TaskActionStatus,
    pub(super) phase: PhaseInfo,
    pub(super) object: ObjectStep,
    pub(super) wake: Wake,
}

/// What happens to the object of the attempt when a phase is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectStep {
    /// It stays as it is.
    Keep,
    /// It still runs and must not, so it is stopped before the end is recorded. If the executor crashes in between, the
    /// next round makes the same decision and stops it again.
    StopFirst,
    /// It can never run and would hold its quota, so it is deleted after the end is recorded.
    DeleteAfterwards,
}

/// The end of an attempt that another one follows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NextAttempt {
    /// The last status and phase of the failed attempt, for its last event.
    pub(super) failed: (TaskActionStatus, PhaseInfo),
    /// The first status and phase of the next attempt.
    pub(super) next: (TaskActionStatus, PhaseInfo),
    pub(super) wake: Wake,
}

/// A failure of the platform.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SystemFailure {
    /// The text of the warning on the action.
    pub(super) warning: String,
    /// The object itself failed, so it is stopped and created again.
    pub(super) stop_object: bool,
    pub(super) then: AfterSystemFailure,
}

/// What follows a failure of the platform.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AfterSystemFailure {
    /// The attempt is tried again, with this status.
    TryAgain { status: Box<TaskActionStatus>, wake: Wake },
    /// The platform failed too often.
    Fail(Box<Record>),
}

/// What a round does after it asked the cache.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum BeforePlugin {
    /// The cache makes the plugin unnecessary for now.
    UseCache {
        phase: Box<PhaseInfo>,
        /// The attempt has an object whose outputs are not needed any more.
        object_is_superfluous: bool,
    },
    /// The plugin works.
    CallPlugin {
        /// The action holds a cache reservation, which must be extended while it runs.
        reserved: bool,
    },
}

impl<'a> Facts<'a> {
    /// Collects the facts about an action.
    pub(super) fn gather(action: &'a Action, plugin: ChosenPlugin, settings: &'a Settings, now: Timestamp) -> Self {
        let before = action.status();
        let template = action.template.get();
        let limits = template.and_then(|template| template.metadata.as_ref());
        let limit_check = check_limits(limits, &action.object, &before, now);
        let max_attempts = template.map_or(1, |template| max_attempts(template));
        Self { action, before, limits, limit_check, max_attempts, plugin, settings, now }
    }

    /// Puts a phase into a status: conditions, history, summary, phase, attempt, cache status.
    pub(super) fn show(&self, status: &mut TaskActionStatus, phase: &PhaseInfo) {
        self.show_conditions(status, phase);
        status.state_json = self.state_json(phase);
        status.plugin_phase = phase.phase().as_str().into();
        status.plugin_phase_version = phase.version();
        status.attempts = status.observed_attempt();
        status.cache_status = cache_status(phase.info()).into();
    }

    /// Puts a phase into conditions and history. With the first phase comes the condition that names the plugin.
    pub(super) fn show_conditions(&self, status: &mut TaskActionStatus, phase: &PhaseInfo) {
        let is_first = status.phase_history.is_empty();
        status.show_phase(phase, self.now);
        if is_first && let Some((reason, message)) = plugin_condition(&self.plugin, &self.action.object.spec.task_type)
        {
            status.set_condition(PLUGIN_CHOSEN, true, reason, &message, self.now);
        }
    }

    /// A summary for people who read the object.
    fn state_json(&self, phase: &PhaseInfo) -> String {
        let spec = &self.action.object.spec;
        json!({
            "phase": phase.phase().as_str(),
            "actionId": format!("{}/{}", spec.run_name, spec.action_name),
            "timestamp": self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        })
        .to_string()
    }
}

/// Before the cache is asked: a queued attempt whose time is over stops, and the pause before a retry is kept.
pub(super) fn before_cache(facts: &Facts<'_>) -> Option<Decision> {
    // A queued attempt cannot have ended since the last round, so the plugin need not be asked.
    if let Some(limit) = facts.limit_check.exceeded().filter(|limit| limit.before_start) {
        return Some(stop_at_limit(facts, &CoreStep::of(PhaseInfo::undefined()), limit));
    }
    let until = retry_pause_end(facts.limits, &facts.before).filter(|until| facts.now < *until)?;
    let until = facts.limit_check.earliest(Some(until)).unwrap_or(until);
    Some(Decision::Wait(Wake::At(until)))
}

/// After the cache was asked: its answer decides whether the plugin works.
pub(super) fn before_plugin(
    facts: &Facts<'_>,
    answer: Result<CacheAnswer, CacheStageError>,
) -> ControlFlow<Decision, BeforePlugin> {
    match answer {
        Ok(CacheAnswer::Hit(phase)) => {
            let object_is_superfluous = !facts.before.plugin_state.0.is_empty();
            ControlFlow::Continue(BeforePlugin::UseCache { phase: Box::new(phase), object_is_superfluous })
        }
        Ok(CacheAnswer::WaitForOwner(phase)) => {
            ControlFlow::Continue(BeforePlugin::UseCache { phase: Box::new(phase), object_is_superfluous: false })
        }
        Ok(CacheAnswer::Run { reserved }) => ControlFlow::Continue(BeforePlugin::CallPlugin { reserved }),
        Err(CacheStageError::Unusable(error)) => {
            ControlFlow::Break(Decision::Record(Box::new(fail(facts, facts.before.clone(), error))))
        }
        // The end of a task that has started must be seen. The next round tries to extend the reservation again.
        Err(CacheStageError::Reservation { .. } | CacheStageError::Storage(_)) if has_started(&facts.before) => {
            ControlFlow::Continue(BeforePlugin::CallPlugin { reserved: true })
        }
        Err(CacheStageError::Reservation(error)) => {
            ControlFlow::Break(wait_for_end(facts, Outage::Cache, &chain(error.as_ref())))
        }
        Err(CacheStageError::Storage(error)) => {
            ControlFlow::Break(wait_for_end(facts, Outage::Storage, &chain(error.as_ref())))
        }
        Err(CacheStageError::Outputs(error)) if error.is_outage() => {
            ControlFlow::Break(wait_for_end(facts, Outage::Storage, &chain(&error)))
        }
        Err(CacheStageError::Outputs(_)) => ControlFlow::Break(Decision::Wait(Wake::Retry(facts.settings.requeue()))),
    }
}

/// Whether the plugin has started something whose end must be seen. An attempt is also `Queued` before its first round
/// of the plugin, but then no state is stored.
pub(super) fn has_started(status: &TaskActionStatus) -> bool {
    match Phase::from_name(&status.plugin_phase) {
        Some(Phase::Initializing | Phase::Running) => true,
        Some(Phase::Queued) => !status.plugin_state.0.is_empty(),
        _ => false,
    }
}

/// The cache made the plugin unnecessary.
pub(super) fn after_cache(facts: &Facts<'_>, phase: PhaseInfo) -> Decision {
    let step = CoreStep::of(phase);
    match exceeded_by(facts, &step.phase) {
        Some(limit) => stop_at_limit(facts, &step, limit),
        None => record_step(facts, &step, false),
    }
}

/// The plugin has answered. The step goes on to the cache, unless time is over or there is nothing to record.
pub(super) fn after_plugin(
    facts: &Facts<'_>,
    result: Result<CoreStep, PluginError>,
    reserved: bool,
) -> ControlFlow<Decision, CoreStep> {
    let step = match result {
        Ok(step) => step,
        Err(error) if facts.limit_check.exceeded().is_none() => {
            return ControlFlow::Break(match error.storage_outage() {
                Some(outage) => wait_for_end(facts, Outage::Storage, &outage.to_string()),
                None => after_system_failure(facts, facts.before.clone(), &error, false),
            });
        }
        // There is no time left to try again.
        Err(_) => CoreStep::of(PhaseInfo::undefined()),
    };
    if let Some(limit) = exceeded_by(facts, &step.phase) {
        return ControlFlow::Break(stop_at_limit(facts, &step, limit));
    }
    if step.phase.phase() == Phase::Undefined {
        let wake_at = facts.limit_check.earliest(step.wake_at);
        let wake = next_wake(facts, &facts.before, Phase::Undefined, wake_at, reserved);
        return ControlFlow::Break(Decision::Wait(wake));
    }
    ControlFlow::Continue(step)
}

/// The cache was updated with the plugin's step: a failure is charged, and anything else is recorded.
pub(super) fn after_cache_update(facts: &Facts<'_>, step: &CoreStep, reserved: bool) -> Decision {
    if step.phase.is_system_retryable_failure() {
        let mut status = facts.before.clone();
        forget_plugin_state(&mut status);
        return after_system_failure(facts, status, &as_plugin_error(&step.phase), true);
    }
    if step.phase.phase() == Phase::RetryableFailure {
        return after_user_failure(facts, step);
    }
    record_step(facts, step, reserved)
}

/// Stores the state that a step brought, if it brought one.
pub(super) fn store_plugin_state(status: &mut TaskActionStatus, step: &CoreStep) {
    if let Some(write) = &step.state {
        status.plugin_state = ByteString(write.bytes.clone());
        status.plugin_state_version = write.version;
    }
}

/// Removes the stored state, so that the plugin starts from the beginning.
pub(super) fn forget_plugin_state(status: &mut TaskActionStatus) {
    status.plugin_state = ByteString::default();
    status.plugin_state_version = 0;
}

/// What happens to the object of an action that ends with this phase.
pub(super) fn object_after_end(phase: &PhaseInfo) -> ObjectStep {
    if phase.phase() == Phase::PermanentFailure && phase.cleanup_on_failure() {
        ObjectStep::DeleteAfterwards
    } else {
        ObjectStep::Keep
    }
}

/// The limit that stops an attempt in this phase. An attempt that has ended by itself is not stopped: it ended in time. A
/// failure of the task counts as such an end, unless it is the action's own deadline that is over, because then no retry
/// follows.
fn exceeded_by<'a>(facts: &'a Facts<'_>, phase: &PhaseInfo) -> Option<&'a LimitExceeded> {
    let has_ended = matches!(phase.phase(), Phase::Success | Phase::PermanentFailure);
    let has_failed = phase.phase() == Phase::RetryableFailure && !phase.is_system_retryable_failure();
    facts.limit_check.exceeded().filter(|limit| !has_ended && (limit.ends_action || !has_failed))
}

/// Records a phase that is not a failure to be retried.
fn record_step(facts: &Facts<'_>, step: &CoreStep, reserved: bool) -> Decision {
    let mut status = facts.before.clone();
    store_plugin_state(&mut status, step);
    if made_progress(&status, step.phase.phase()) {
        status.system_failures = 0;
    }
    facts.show(&mut status, &step.phase);
    let wake_at = match missing_kind_deadline(&status, facts.settings.missing_kind_timeout, facts.now) {
        MissingKindDeadline::None => step.wake_at,
        MissingKindDeadline::At(deadline) => Some(step.wake_at.map_or(deadline, |at| at.min(deadline))),
        MissingKindDeadline::Passed(error) => {
            return Decision::Record(Box::new(fail(facts, facts.before.clone(), error)));
        }
    };
    let wake_at = check_limits(facts.limits, &facts.action.object, &status, facts.now).earliest(wake_at);
    let wake = next_wake(facts, &status, step.phase.phase(), wake_at, reserved);
    let object = object_after_end(&step.phase);
    Decision::Record(Box::new(Record { status, phase: step.phase.clone(), object, wake }))
}

/// When the next round is due after a round that went well.
fn next_wake(
    facts: &Facts<'_>,
    status: &TaskActionStatus,
    phase: Phase,
    wake_at: Option<Timestamp>,
    reserved: bool,
) -> Wake {
    if status.is_terminal() {
        return Wake::OnChange;
    }
    // The cache service does not tell when another action releases its reservation, and our own must be extended.
    if reserved || phase == Phase::WaitingForCache {
        let requeue = facts.settings.requeue();
        let pause = wake_at.map(|at| at.duration_since(facts.now).max(SignedDuration::ZERO));
        return Wake::Retry(pause.map_or(requeue, |pause| pause.min(requeue)));
    }
    wake_at.map_or(Wake::OnChange, Wake::At)
}

/// The action enters a phase that it has not reached before, so earlier failures of the platform are not counted any
/// more.
///
/// # Differs from upstream
///
/// Upstream resets the counter at any phase, also at the `Queued` that follows every relaunch, so that a task which fails
/// in the same way each time is started again for ever.
fn made_progress(status: &TaskActionStatus, phase: Phase) -> bool {
    let shown = match phase {
        Phase::NotReady | Phase::Queued | Phase::WaitingForResources | Phase::WaitingForCache => reason::QUEUED,
        Phase::Initializing => reason::INITIALIZING,
        Phase::Running => reason::EXECUTING,
        _ => return true,
    };
    status.phase_history.iter().all(|entry| entry.phase != shown)
}

/// A failed phase as the error that is counted as a failure of the platform.
fn as_plugin_error(phase: &PhaseInfo) -> PluginError {
    match phase.error() {
        Some(error) => PluginError::uncoded(format!("[{}] {}", error.code, error.message)),
        None => PluginError::uncoded("system retryable failure"),
    }
}
