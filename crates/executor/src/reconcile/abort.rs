//! The action is being deleted: stop what runs, say so, and let it go.

use aileron_machinery::CoreRequest;

use super::drive::{guarded, stored_state};
use super::record::unless_refused;
use super::{ReconcileError, Reconciler, Wake, has_finalizer};
use crate::action::events::abort_event;
use crate::action::{Action, TaskActionStatus};

impl Reconciler {
    /// Abort, finalize, release the reservation, report, and only then remove our finalizer.
    pub(super) async fn abort(&self, action: &Action) -> Result<Wake, ReconcileError> {
        if !has_finalizer(action) {
            return Ok(Wake::Never);
        }
        let plugin = match self.registry.resolve(&action.object.spec) {
            Ok((plugin, _)) => plugin,
            Err(error) => {
                tracing::info!(%error, "no plugin to stop the task with");
                return self.let_go(action).await;
            }
        };
        let task = match self.task_context(action) {
            Ok(task) => task,
            Err(error) => {
                let note = format!(
                    "Could not build task execution context; skipping Abort/Finalize. Underlying resources may need \
                     manual cleanup: {error}"
                );
                self.actions.warn(&action.object, "FinalizationSkipped", "FinalizingTaskAction", &note).await;
                return self.let_go(action).await;
            }
        };
        let stored = stored_state(action);
        let request = CoreRequest::new(&task, &stored);
        let stopped = match guarded(plugin.abort(&request)).await {
            Ok(()) => guarded(plugin.finalize(&request)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = stopped {
            tracing::warn!(%error, "failed to stop the task; trying again later");
            return Ok(Wake::Retry(self.requeue()));
        }
        self.release_reservation(action, &task).await;
        let ended = action.object.status.as_ref().is_some_and(TaskActionStatus::is_terminal);
        // An action that had ended was not aborted; its deletion is only tidying up.
        if !ended {
            let event = abort_event(action, &self.settings.cluster, self.clock.now());
            let recorded = match self.events.record(event).await {
                Err(error) => unless_refused(error),
                Ok(()) => Ok(()),
            };
            if let Err(error) = recorded {
                tracing::warn!(%error, "failed to record the abort; trying again later");
                return Ok(Wake::Retry(self.requeue()));
            }
        }
        self.let_go(action).await
    }

    async fn let_go(&self, action: &Action) -> Result<Wake, ReconcileError> {
        match self.actions.remove_finalizer(action).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Wake::Never),
        }
    }
}
