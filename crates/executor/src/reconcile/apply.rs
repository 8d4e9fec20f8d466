//! Carrying out what a round decided.

use aileron_action::Action;
use aileron_machinery::{CorePlugin, CoreRequest};

use super::decide::{AfterSystemFailure, Decision, NextAttempt, ObjectStep, Record, SystemFailure};
use super::plugin_call::guarded;
use super::{ReconcileError, Reconciler, Wake};

impl Reconciler {
    /// Carries out a decision. Returns when the next round is due.
    pub(super) async fn apply(
        &self,
        action: &Action,
        plugin: &dyn CorePlugin,
        request: &CoreRequest<'_>,
        decision: Decision,
    ) -> Result<Wake, ReconcileError> {
        match decision {
            Decision::Wait(wake) => Ok(wake),
            Decision::Record(record) => self.apply_record(action, plugin, request, *record).await,
            Decision::NextAttempt(next) => {
                let NextAttempt { failed, next, wake } = *next;
                // The new attempt is written before the old object is stopped. A crash in between leaves an object that
                // the next launch removes. In the other order it would leave an attempt that looks lost and runs again.
                self.statuses.record_next_attempt(action, (&failed.0, &failed.1), (&next.0, &next.1)).await?;
                stop_object(plugin, request).await;
                Ok(wake)
            }
            Decision::SystemFailure(failure) => {
                let SystemFailure { warning, stop_object: stop, then } = *failure;
                if stop {
                    stop_object(plugin, request).await;
                }
                tracing::warn!(reason = warning, "the platform failed the task");
                self.actions.warn(&action.object, "FailedPluginHandle", "HandlingPlugin", &warning).await;
                match then {
                    AfterSystemFailure::TryAgain { status, wake } => {
                        self.statuses.write_now(action, &status).await?;
                        Ok(wake)
                    }
                    AfterSystemFailure::Fail(record) => self.apply_record(action, plugin, request, record).await,
                }
            }
        }
    }

    /// Records a phase, and stops or deletes the object before or after that.
    ///
    /// # Differs from upstream
    ///
    /// An object that can never run, such as a pod with an invalid image name, is deleted when its task has failed.
    /// Upstream has a flag for this and does nothing with it: the pod holds its quota until the action is deleted. The
    /// delete is sent once. If it fails, the object is left to `plugins.k8s.delete-finished` and to the deletion of the
    /// action, as every other object of an ended action.
    async fn apply_record(
        &self,
        action: &Action,
        plugin: &dyn CorePlugin,
        request: &CoreRequest<'_>,
        record: Record,
    ) -> Result<Wake, ReconcileError> {
        let Record { status, phase, object, wake } = record;
        if object == ObjectStep::StopFirst {
            stop_object(plugin, request).await;
        }
        self.statuses.record(action, &status, &phase).await?;
        if object == ObjectStep::DeleteAfterwards {
            stop_object(plugin, request).await;
        }
        Ok(wake)
    }
}

/// Stops the object of an attempt, which deletes it unless its plugin stops objects in another way. A failure is logged:
/// the object that remains is removed by the next launch or with its action.
///
/// # Differs from upstream
///
/// Our finalizer is removed, too. Upstream leaves it, so that with `inject-finalizer` the object never goes away, and a
/// relaunch waits for its name for ever.
async fn stop_object(plugin: &dyn CorePlugin, request: &CoreRequest<'_>) {
    let stopped = match guarded(plugin.abort(request)).await {
        Ok(()) if request.task.platform.k8s.inject_finalizer => guarded(plugin.finalize(request)).await,
        stopped => stopped,
    };
    if let Err(error) = stopped {
        tracing::warn!(%error, "failed to stop the object of the failed attempt");
    }
}
