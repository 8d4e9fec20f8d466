//! The action itself.

use aileron_action::{Action, FINALIZER, TaskAction, TaskActionStatus};
use aileron_executor::cluster::{Actions, Urgency};
use aileron_kubekit::ApiError;
use async_trait::async_trait;

use super::{Key, State, World, not_found};

/// Kind of the action in calls and injections.
const KIND: &str = "TaskAction";

/// How often a status write is tried while others write too. Go's `retry.DefaultRetry` has as many steps.
const STATUS_TRIES: usize = 5;

#[async_trait]
impl Actions for World {
    async fn add_finalizer(&self, action: &Action) -> Result<(), ApiError> {
        self.state().write(action, "update", |stored| {
            stored.metadata.finalizers.get_or_insert_default().push(FINALIZER.into());
        })
    }

    async fn remove_finalizer(&self, action: &Action) -> Result<(), ApiError> {
        let mut state = self.state();
        state.write(action, "update", |stored| {
            stored.metadata.finalizers.get_or_insert_default().retain(|name| name != FINALIZER);
        })?;
        state.drop_released_action();
        Ok(())
    }

    async fn write_status(&self, action: &Action, status: &TaskActionStatus, _: Urgency) -> Result<(), ApiError> {
        let mut state = self.state();
        let mut result = Ok(());
        for _ in 0..STATUS_TRIES {
            result = state.write(action, "updateStatus", |stored| stored.status = Some(status.clone()));
            if !result.as_ref().is_err_and(ApiError::is_conflict) {
                break;
            }
        }
        result
    }

    async fn add_labels(&self, action: &Action, labels: &[(&str, &str)]) -> Result<(), ApiError> {
        self.state().write(action, "patch", |stored| {
            let stored = stored.metadata.labels.get_or_insert_default();
            stored.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        })
    }

    async fn warn(&self, _: &TaskAction, reason: &str, _activity: &str, note: &str) {
        self.state().warnings.push(format!("Warning {reason} {note}"));
    }
}

impl State {
    fn write(&mut self, action: &Action, verb: &str, change: impl FnOnce(&mut TaskAction)) -> Result<(), ApiError> {
        let key: Key = (KIND.into(), action.namespace().into(), action.name().into());
        let result = match (self.refusal(verb, KIND), &mut self.action) {
            (Some(refusal), _) => Err(refusal),
            (None, None) => Err(not_found("taskactions.flyte.org", &key.2)),
            (None, Some(stored)) => {
                change(stored);
                Ok(())
            }
        };
        self.log(verb, &key, None, result)
    }
}
