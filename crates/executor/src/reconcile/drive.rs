//! One round of a task: gather facts, ask the cache and the plugin, decide, apply.

use std::ops::ControlFlow;

use aileron_action::{Action, Template};
use aileron_machinery::{CorePlugin, CoreRequest, ExecutionError, TaskContext, code};
use jiff::Timestamp;

use super::apply::Target;
use super::decide::failure::without_task_context;
use super::decide::{
    BeforePlugin, Decision, Facts, after_cache, after_cache_update, after_plugin, before_cache, before_plugin,
};
use super::plugin_call::{running_since, stored_state};
use super::plugin_condition::ChosenPlugin;
use super::{ReconcileError, Reconciler, Wake};
use crate::registry::Why;
use crate::registry::panics::guarded;

impl Reconciler {
    /// One round of an action that is valid and has our finalizer.
    pub(super) async fn drive(
        &self,
        action: &Action,
        plugin: &dyn CorePlugin,
        why: Why,
    ) -> Result<Wake, ReconcileError> {
        let chosen = ChosenPlugin { id: plugin.entry().id.to_string(), why };
        let facts = Facts::gather(action, chosen, &self.settings, self.clock.now());
        let (actions, statuses) = (self.actions.as_ref(), self.statuses.as_ref());
        let task = match self.try_task_context(action, facts.now) {
            Ok(task) => task,
            Err(error) => {
                let decision = without_task_context(&facts, error);
                return Target { action, plugin, request: None, actions, statuses }.apply(decision).await;
            }
        };
        let state = stored_state(&facts.before);
        let running_since = running_since(&facts.before);
        let request = CoreRequest::new(&task, &state).with_running_since(running_since);
        let decision = self.decide(&facts, plugin, &request).await;
        Target { action, plugin, request: Some(&request), actions, statuses }.apply(decision).await
    }

    /// The steps of a decision, with the I/O between them.
    async fn decide(&self, facts: &Facts<'_>, plugin: &dyn CorePlugin, request: &CoreRequest<'_>) -> Decision {
        if let Some(decision) = before_cache(facts) {
            return decision;
        }
        let answer = self.ask_cache(facts.action, request.task).await;
        let reserved = match before_plugin(facts, answer) {
            ControlFlow::Break(decision) => return decision,
            ControlFlow::Continue(BeforePlugin::UseCache { phase, object_is_superfluous }) => {
                if object_is_superfluous && let Err(error) = guarded(plugin.abort(request)).await {
                    tracing::warn!(%error, "failed to stop the object that a cache hit made superfluous");
                }
                return after_cache(facts, *phase);
            }
            ControlFlow::Continue(BeforePlugin::CallPlugin { reserved }) => reserved,
        };
        let result = guarded(plugin.handle(request)).await;
        let mut step = match after_plugin(facts, result, reserved) {
            ControlFlow::Break(decision) => return decision,
            ControlFlow::Continue(step) => step,
        };
        self.update_cache(facts.action, request.task, &mut step.phase).await;
        after_cache_update(facts, &step, reserved)
    }

    /// The attempt as its plugin sees it, or the error that ends the action.
    ///
    /// # Differs from upstream
    ///
    /// A template that cannot be decoded and an invalid output location never become valid, so the action fails with that
    /// error. Upstream tries again for ever and reports nothing.
    fn try_task_context(&self, action: &Action, now: Timestamp) -> Result<TaskContext, ExecutionError> {
        if let Template::Unreadable(error) = &action.template {
            let message = format!("spec.taskTemplate is not a readable task template: {error}");
            return Err(ExecutionError::user(code::BAD_TASK_SPECIFICATION, message));
        }
        self.task_context(action, now)
            .map_err(|error| ExecutionError::user(code::BAD_TASK_SPECIFICATION, error.to_string()))
    }
}
