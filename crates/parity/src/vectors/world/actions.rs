//! The simulated API for the TaskAction.

use aileron_action::{ACTION_FINALIZER, Action, TaskAction};
use aileron_executor::cluster::{Actions, WriteSlot};
use aileron_kubekit::ApiError;
use aileron_machinery::ActionKey;
use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::objects::merge;
use super::{Key, State, World, not_found};

/// The kind of the action in calls and injected failures.
const KIND: &str = "TaskAction";

/// How often a status write is tried after conflicts, as with Go's `retry.DefaultRetry`.
const STATUS_TRIES: usize = 5;

#[async_trait]
impl Actions for World {
    async fn add_finalizer(&self, action: &Action) -> Result<(), ApiError> {
        self.state().write(action.namespace(), action.name(), "update", |stored| {
            stored.metadata.finalizers.get_or_insert_default().push(ACTION_FINALIZER.into());
        })
    }

    async fn remove_finalizer(&self, action: &Action) -> Result<(), ApiError> {
        let mut state = self.state();
        state.write(action.namespace(), action.name(), "update", |stored| {
            stored.metadata.finalizers.get_or_insert_default().retain(|name| name != ACTION_FINALIZER);
        })?;
        state.drop_released_action();
        Ok(())
    }

    async fn patch_status(
        &self,
        key: &ActionKey,
        patch: Value,
        _: Option<u64>,
        _: &WriteSlot<'_>,
    ) -> Result<ObjectMeta, ApiError> {
        let mut state = self.state();
        let mut result = Ok(());
        for _ in 0..STATUS_TRIES {
            result = state.write(&key.namespace, &key.name, "updateStatus", |stored| change_status(stored, &patch));
            if !result.as_ref().is_err_and(ApiError::is_conflict) {
                break;
            }
        }
        result.map(|()| state.action.as_ref().map(|action| action.metadata.clone()).unwrap_or_default())
    }

    async fn add_labels(&self, action: &Action, labels: &[(&str, &str)]) -> Result<(), ApiError> {
        self.state().write(action.namespace(), action.name(), "patch", |stored| {
            let stored = stored.metadata.labels.get_or_insert_default();
            stored.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        })
    }

    async fn warn(&self, _: &TaskAction, reason: &str, _activity: &str, note: &str) {
        self.state().warnings.push(format!("Warning {reason} {note}"));
    }
}

impl State {
    fn write(
        &mut self,
        namespace: &str,
        name: &str,
        verb: &str,
        change: impl FnOnce(&mut TaskAction),
    ) -> Result<(), ApiError> {
        let key: Key = (KIND.into(), namespace.into(), name.into());
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

/// Applies a merge patch to the stored status. If the result is not a valid status, the status is removed.
fn change_status(stored: &mut TaskAction, patch: &Value) {
    let mut status = serde_json::to_value(stored.status.clone().unwrap_or_default()).unwrap_or_default();
    merge(&mut status, patch);
    stored.status = serde_json::from_value(status).ok();
}
