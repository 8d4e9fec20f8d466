//! Can this action be worked on at all? Nothing is owned before the answer is yes, so a bad object can simply be
//! deleted.

use std::sync::Arc;

use aileron_action::conditions::{condition, reason};
use aileron_action::{Action, missing_fields};
use aileron_machinery::CorePlugin;

use super::{ReconcileError, Reconciler, Wake};
use crate::cluster::Urgency;
use crate::registry::{NoPlugin, Registry, Why};

/// Why not.
#[derive(Debug, thiserror::Error)]
pub(super) enum Invalid {
    /// Fields that every task needs are empty.
    #[error("required spec fields are empty: [{}]", .0.join(" "))]
    MissingFields(Vec<&'static str>),
    /// Nobody serves the task type.
    #[error("no plugin found for task type {task_type:?}: {source}")]
    NoPlugin {
        /// The type.
        task_type: String,
        /// Why.
        source: NoPlugin,
    },
}

impl Invalid {
    fn condition_reason(&self) -> &'static str {
        match self {
            Self::MissingFields(_) => reason::INVALID_SPEC,
            Self::NoPlugin { .. } => reason::PLUGIN_NOT_FOUND,
        }
    }

    fn event_reason(&self) -> &'static str {
        match self {
            Self::MissingFields(_) => "FailedValidation",
            Self::NoPlugin { .. } => "FailedPluginResolve",
        }
    }
}

/// The plugin for a well-formed action.
pub(super) fn validate<'a>(action: &Action, registry: &'a Registry) -> Result<(&'a Arc<dyn CorePlugin>, Why), Invalid> {
    let spec = &action.object.spec;
    let missing = missing_fields(action);
    if !missing.is_empty() {
        return Err(Invalid::MissingFields(missing));
    }
    registry.resolve(spec).map_err(|source| Invalid::NoPlugin { task_type: spec.task_type.clone(), source })
}

impl Reconciler {
    /// Says why the action will never be worked on, and ends it.
    pub(super) async fn reject(&self, action: &Action, invalid: &Invalid) -> Result<Wake, ReconcileError> {
        let now = self.clock.now();
        let message = invalid.to_string();
        self.actions.warn(&action.object, invalid.event_reason(), "ValidatingTaskAction", &message).await;
        let mut status = action.status();
        status.set_condition(condition::FAILED, true, invalid.condition_reason(), &message, now);
        status.set_condition(condition::PROGRESSING, false, invalid.condition_reason(), &message, now);
        status.show_pending(None, now);
        self.actions.write_status(action, &status, Urgency::Immediate).await?;
        // The next round labels it as ended.
        Ok(Wake::Now)
    }
}
