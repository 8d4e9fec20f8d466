//! Carrying out what a round decided.

#[cfg(test)]
mod tests;

use aileron_action::Action;
use aileron_machinery::{CorePlugin, CoreRequest, PluginError};

use super::decide::{AfterSystemFailure, Decision, NextAttempt, ObjectStep, Record, SystemFailure};
use super::{ReconcileError, Wake};
use crate::cluster::Actions;
use crate::registry::panics::guarded;
use crate::status_writer::StatusWriter;

/// What a decision is carried out on.
pub(super) struct Target<'a> {
    pub(super) action: &'a Action,
    pub(super) plugin: &'a dyn CorePlugin,
    /// The request that the plugin is called with. `None` if the task has no usable context: then no object is stopped.
    pub(super) request: Option<&'a CoreRequest<'a>>,
    pub(super) actions: &'a dyn Actions,
    pub(super) statuses: &'a StatusWriter,
}

impl Target<'_> {
    /// Carries out a decision. Returns when the next round is due.
    pub(super) async fn apply(&self, decision: Decision) -> Result<Wake, ReconcileError> {
        match decision {
            Decision::Wait(wake) => Ok(wake),
            Decision::Record(record) => self.record(*record).await,
            Decision::NextAttempt(next) => {
                let NextAttempt { failed, next, wake } = *next;
                // The new attempt is written before the old object is stopped. A crash in between leaves an object that
                // the next launch removes. In the other order it would leave an attempt that looks lost and runs again.
                self.statuses.record_next_attempt(self.action, (&failed.0, &failed.1), (&next.0, &next.1)).await?;
                self.stop_object().await;
                Ok(wake)
            }
            Decision::SystemFailure(failure) => {
                let SystemFailure { warning, stop_object, then } = *failure;
                match then {
                    AfterSystemFailure::TryAgain { .. } if stop_object => self.discard_object().await,
                    AfterSystemFailure::Fail(_) if stop_object => self.stop_object().await,
                    AfterSystemFailure::TryAgain { .. } | AfterSystemFailure::Fail(_) => {}
                }
                tracing::warn!(reason = warning, "the platform failed the task");
                self.actions.warn(&self.action.object, "FailedPluginHandle", "HandlingPlugin", &warning).await;
                match then {
                    AfterSystemFailure::TryAgain { status, wake } => {
                        self.statuses.write_now(self.action, &status).await?;
                        Ok(wake)
                    }
                    AfterSystemFailure::Fail(record) => self.record(*record).await,
                }
            }
        }
    }

    /// Records a phase, and stops or deletes the object before or after that.
    ///
    /// # Differs from upstream
    ///
    /// An object that can never run, such as a pod with an invalid image name, is deleted when its task has failed.
    /// Upstream has a flag for this and does nothing with it: the pod holds its quota until the action is deleted.
    ///
    /// The delete is sent once. If it fails, the failure is logged and the object is left to
    /// `plugins.k8s.delete-finished` and to the deletion of the action, as every other object of an ended action.
    async fn record(&self, record: Record) -> Result<Wake, ReconcileError> {
        let Record { status, phase, object, wake } = record;
        if object == ObjectStep::StopFirst {
            self.stop_object().await;
        }
        self.statuses.record_phase(self.action, &status, &phase).await?;
        // The delete comes before the labels: after a round that only failed to write the labels, the next round does
        // nothing else.
        if object == ObjectStep::DeleteAfterwards {
            self.stop_object().await;
        }
        if status.is_terminal() {
            self.release_ended(object).await;
        }
        self.statuses.label_if_ended(self.action, &status).await?;
        Ok(wake)
    }

    /// Releases the object of an ended task: removes our finalizer, and deletes the object if
    /// `plugins.k8s.delete-resource-on-finalize` says so. A failure is logged: the clean-up of finished objects releases it
    /// later.
    ///
    /// # Differs from upstream
    ///
    /// Upstream documents both settings in this way, but finalizes an object only when its action is deleted. So with
    /// `inject-finalizer` a finished pod cannot be deleted before that.
    async fn release_ended(&self, object: ObjectStep) {
        let Some(request) = self.request else { return };
        let k8s = &request.task.platform.k8s;
        // Stopping an object has removed the finalizer already.
        let has_finalizer = k8s.inject_finalizer && object == ObjectStep::Keep;
        if (has_finalizer || k8s.delete_resource_on_finalize)
            && let Err(error) = guarded(self.plugin.finalize(request)).await
        {
            tracing::warn!(%error, "failed to release the object of the ended task; retrying later");
        }
    }

    /// Stops the object of the attempt, which deletes it unless its plugin stops objects in another way. A failure is
    /// logged: the object that remains is removed by the next launch or with its action.
    ///
    /// # Differs from upstream
    ///
    /// Our finalizer is removed, too. Upstream leaves it, so that with `inject-finalizer` the object never goes away, and
    /// a relaunch waits for its name for ever.
    async fn stop_object(&self) {
        let Some(request) = self.request else { return };
        let stopped = guarded(self.plugin.abort(request)).await;
        self.release_stopped(request, stopped).await;
    }

    /// Deletes the object of an attempt that is started again, however its plugin stops objects.
    async fn discard_object(&self) {
        let Some(request) = self.request else { return };
        let discarded = guarded(self.plugin.discard(request)).await;
        self.release_stopped(request, discarded).await;
    }

    async fn release_stopped(&self, request: &CoreRequest<'_>, stopped: Result<(), PluginError>) {
        let released = match stopped {
            Ok(()) if request.task.platform.k8s.inject_finalizer => guarded(self.plugin.finalize(request)).await,
            stopped => stopped,
        };
        if let Err(error) = released {
            tracing::warn!(%error, "failed to stop the object of the failed attempt");
        }
    }
}
