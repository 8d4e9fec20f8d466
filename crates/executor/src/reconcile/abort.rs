//! The action is being deleted: its task is stopped, the abort is reported, and our finalizer is removed.

use std::sync::Arc;

use aileron_action::metadata::MetadataError;
use aileron_action::{Action, TaskActionStatus};
use aileron_machinery::{CorePlugin, CoreRequest, PluginError, TaskContext};

use super::plugin_call::stored_state;
use super::{ReconcileError, Reconciler, Wake, has_finalizer};
use crate::registry::NoPlugin;
use crate::registry::panics::guarded;

/// What a round knows about an action that is being deleted. `P` is its plugin.
struct AbortFacts<P> {
    has_finalizer: bool,
    plugin: Result<P, NoPlugin>,
    task: Result<TaskContext, MetadataError>,
}

/// What a round does with an action that is being deleted.
#[derive(Debug)]
enum AbortPlan<P> {
    /// Nothing: the action was never owned, or has been released already.
    Ignore,
    /// The task cannot be stopped: no plugin would know how.
    ReleaseWithoutPlugin(NoPlugin),
    /// The task cannot be stopped: its objects cannot be named. The warning says so on the action.
    ReleaseWithWarning(String),
    /// The plugin stops the task.
    Stop { plugin: P, task: Box<TaskContext> },
}

/// What follows the attempt to stop a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterStop {
    /// It failed, and is tried again later.
    TryAgain,
    /// The abort is reported before the action is released.
    Report,
    /// The action had ended before, so it was not aborted: it is only cleaned up.
    Release,
}

impl Reconciler {
    /// Abort, finalize, release the cache reservation, report, and only then remove our finalizer.
    pub(super) async fn abort(&self, action: &Action) -> Result<Wake, ReconcileError> {
        let facts = AbortFacts {
            has_finalizer: has_finalizer(action),
            plugin: self.registry.resolve(&action.object.spec).map(|(plugin, _)| Arc::clone(plugin)),
            task: self.task_context(action, self.clock.now()),
        };
        let (plugin, task) = match plan_abort(facts) {
            AbortPlan::Ignore => return Ok(Wake::Never),
            AbortPlan::ReleaseWithoutPlugin(error) => {
                tracing::info!(%error, "no plugin can stop the task; releasing the action");
                return self.release(action).await;
            }
            AbortPlan::ReleaseWithWarning(note) => {
                self.actions.warn(&action.object, "FinalizationSkipped", "FinalizingTaskAction", &note).await;
                return self.release(action).await;
            }
            AbortPlan::Stop { plugin, task } => (plugin, task),
        };
        let stopped = self.stop(action, plugin.as_ref(), &task).await;
        if let Err(error) = &stopped {
            tracing::warn!(%error, "failed to stop the task; trying again later");
        }
        let after = after_stop(&stopped, action.object.status.as_ref());
        if after == AfterStop::TryAgain {
            return Ok(Wake::Retry(self.settings.requeue()));
        }
        self.release_reservation(action, &task).await;
        if after == AfterStop::Report
            && let Err(error) = self.statuses.report_abort(action).await
        {
            tracing::warn!(%error, "failed to record the abort; trying again later");
            return Ok(Wake::Retry(self.settings.requeue()));
        }
        self.release(action).await
    }

    async fn stop(&self, action: &Action, plugin: &dyn CorePlugin, task: &TaskContext) -> Result<(), PluginError> {
        let state = stored_state(&action.status());
        let request = CoreRequest::new(task, &state);
        guarded(plugin.abort(&request)).await?;
        guarded(plugin.finalize(&request)).await
    }

    /// Removes our finalizer, so that the API server can remove the action.
    async fn release(&self, action: &Action) -> Result<Wake, ReconcileError> {
        match self.actions.remove_finalizer(action).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Wake::Never),
        }
    }
}

fn plan_abort<P>(facts: AbortFacts<P>) -> AbortPlan<P> {
    if !facts.has_finalizer {
        return AbortPlan::Ignore;
    }
    match (facts.plugin, facts.task) {
        (Err(error), _) => AbortPlan::ReleaseWithoutPlugin(error),
        (Ok(_), Err(error)) => AbortPlan::ReleaseWithWarning(format!(
            "Could not build task execution context; skipping Abort/Finalize. Underlying resources may need manual \
             cleanup: {error}"
        )),
        (Ok(plugin), Ok(task)) => AbortPlan::Stop { plugin, task: Box::new(task) },
    }
}

fn after_stop(stopped: &Result<(), PluginError>, status: Option<&TaskActionStatus>) -> AfterStop {
    match stopped {
        Err(_) => AfterStop::TryAgain,
        Ok(()) if status.is_some_and(TaskActionStatus::is_terminal) => AfterStop::Release,
        Ok(()) => AfterStop::Report,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_action::TaskAction;
    use aileron_action::metadata::output_prefix;
    use aileron_machinery::{PhaseInfo, Platform, TaskInfo, TaskMetadata, TaskPaths};
    use jiff::Timestamp;

    use super::*;

    fn task() -> TaskContext {
        TaskContext::new(
            Arc::default(),
            TaskMetadata::default(),
            TaskPaths::default(),
            Platform::default(),
            Timestamp::UNIX_EPOCH,
        )
    }

    fn no_task() -> MetadataError {
        let mut object = TaskAction::default();
        object.spec.run_output_base = "%zz".into();
        output_prefix(&Action::new(object, None), 1).unwrap_err()
    }

    #[test]
    fn an_action_without_our_finalizer_is_ignored() {
        let facts = AbortFacts { has_finalizer: false, plugin: Ok(()), task: Ok(task()) };
        assert!(matches!(plan_abort(facts), AbortPlan::Ignore));
    }

    #[test]
    fn an_action_that_nothing_can_stop_is_released() {
        let no_plugin = || NoPlugin::NoDefault("mystery".into());
        for task in [Ok(task()), Err(no_task())] {
            let facts = AbortFacts::<()> { has_finalizer: true, plugin: Err(no_plugin()), task };
            assert!(matches!(plan_abort(facts), AbortPlan::ReleaseWithoutPlugin(error) if error == no_plugin()));
        }
        let facts = AbortFacts { has_finalizer: true, plugin: Ok(()), task: Err(no_task()) };
        let plan = plan_abort(facts);
        assert!(matches!(&plan, AbortPlan::ReleaseWithWarning(note) if note.contains("manual cleanup: ")), "{plan:?}");
    }

    #[test]
    fn a_task_is_stopped_by_its_plugin() {
        let facts = AbortFacts { has_finalizer: true, plugin: Ok(7), task: Ok(task()) };
        assert!(matches!(plan_abort(facts), AbortPlan::Stop { plugin: 7, .. }));
    }

    #[test]
    fn an_abort_is_reported_unless_the_action_had_ended_before() {
        let failed = Err(PluginError::uncoded("the API server is away"));
        let mut ended = TaskActionStatus::default();
        assert_eq!(after_stop(&Ok(()), None), AfterStop::Report);
        assert_eq!(after_stop(&Ok(()), Some(&ended)), AfterStop::Report);
        ended.show_phase(&PhaseInfo::success(TaskInfo::at(Timestamp::UNIX_EPOCH)), Timestamp::UNIX_EPOCH);
        assert_eq!(after_stop(&Ok(()), Some(&ended)), AfterStop::Release);
        for status in [None, Some(&ended)] {
            assert_eq!(after_stop(&failed, status), AfterStop::TryAgain);
        }
    }
}
