//! Whether an action can work at all. The executor owns nothing before this is known, so an invalid object can be
//! deleted at once.

use aileron_action::conditions::{condition, reason};
use aileron_action::{Action, TaskActionStatus, missing_fields};
use jiff::Timestamp;

use super::{ReconcileError, Reconciler, Wake};
use crate::registry::{NoPlugin, Why};

/// Why an action can never work.
#[derive(Debug, thiserror::Error)]
pub(super) enum Invalid {
    /// Fields that every task needs are empty.
    #[error("required spec fields are empty: [{}]", .0.join(" "))]
    MissingFields(Vec<&'static str>),
    /// Fields of the object cannot be decoded.
    #[error("{0}")]
    Malformed(String),
    /// No plugin serves the task type.
    #[error("no plugin found for task type {task_type:?}: {source}")]
    NoPlugin {
        /// The type.
        task_type: String,
        /// What the registry says.
        source: NoPlugin,
    },
}

impl Invalid {
    fn condition_reason(&self) -> &'static str {
        match self {
            Self::MissingFields(_) | Self::Malformed(_) => reason::INVALID_SPEC,
            Self::NoPlugin { .. } => reason::PLUGIN_NOT_FOUND,
        }
    }

    fn event_reason(&self) -> &'static str {
        match self {
            Self::MissingFields(_) | Self::Malformed(_) => "FailedValidation",
            Self::NoPlugin { .. } => "FailedPluginResolve",
        }
    }
}

impl Reconciler {
    /// Says on the action why it can never work, and ends it.
    pub(super) async fn reject(&self, action: &Action, invalid: &Invalid) -> Result<Wake, ReconcileError> {
        let status = rejected(action.status(), invalid, self.clock.now());
        let message = invalid.to_string();
        self.actions.warn(&action.object, invalid.event_reason(), "ValidatingTaskAction", &message).await;
        self.statuses.write_now(action, &status).await?;
        // The next round finds an ended action, and labels it.
        Ok(Wake::Now)
    }
}

/// The plugin of a valid action. `plugin` is what the registry chooses for it.
pub(super) fn validate<P>(action: &Action, plugin: Result<(P, Why), NoPlugin>) -> Result<(P, Why), Invalid> {
    let missing = missing_fields(action);
    if !missing.is_empty() {
        return Err(Invalid::MissingFields(missing));
    }
    let task_type = &action.object.spec.task_type;
    plugin.map_err(|source| Invalid::NoPlugin { task_type: task_type.clone(), source })
}

/// The last status of an action that can never work.
fn rejected(mut status: TaskActionStatus, invalid: &Invalid, now: Timestamp) -> TaskActionStatus {
    let message = invalid.to_string();
    status.set_condition(condition::FAILED, true, invalid.condition_reason(), &message, now);
    status.set_condition(condition::PROGRESSING, false, invalid.condition_reason(), &message, now);
    status.show_pending(None, now);
    status
}

#[cfg(test)]
mod tests {
    use aileron_action::TaskAction;

    use super::*;
    use crate::reconcile::decide::tests::valid_object;

    #[test]
    fn all_missing_fields_are_named_before_a_plugin_is_looked_for() {
        let no_plugin = || Err::<((), Why), _>(NoPlugin::NoDefault("t".into()));
        let empty = Action::new(TaskAction::default(), None);
        let message = validate(&empty, no_plugin()).map_err(|error| error.to_string()).err().unwrap_or_default();
        let all = "runName project domain actionName taskType taskTemplate inputUri runOutputBase";
        assert_eq!(message, format!("required spec fields are empty: [{all}]"));

        let valid = Action::new(valid_object(), None);
        assert_eq!(missing_fields(&valid), Vec::<&str>::new());
        assert!(matches!(validate(&valid, no_plugin()), Err(Invalid::NoPlugin { task_type, .. }) if task_type == "t"));
        assert!(validate(&valid, Ok((7, Why::Default))).is_ok_and(|chosen| chosen == (7, Why::Default)));
    }

    #[test]
    fn a_template_that_cannot_be_decoded_is_not_a_missing_one() {
        let mut object = valid_object();
        object.spec.task_template.0 = b"\xff\xff\xff".to_vec();
        assert_eq!(
            missing_fields(&Action::new(object, None)),
            Vec::<&str>::new(),
            "the round fails it with the reason"
        );
    }

    #[test]
    fn a_rejected_action_has_ended_and_waits_for_nothing() {
        use aileron_machinery::{Pending, PendingReason};
        let now = Timestamp::UNIX_EPOCH;
        let mut before = TaskActionStatus::default();
        before.show_pending(Some(&Pending::new(PendingReason::Quota, "q")), now);
        let status = rejected(before, &Invalid::MissingFields(vec!["runName"]), now);
        assert!(status.is_terminal() && status.pending().is_none());
        assert_eq!(status.conditions[0].reason, "InvalidSpec");
        let source = NoPlugin::NoDefault("t".into());
        let unknown = Invalid::NoPlugin { task_type: "t".into(), source };
        assert_eq!(rejected(TaskActionStatus::default(), &unknown, now).conditions[0].reason, "PluginNotFound");
    }
}
