//! Writes to actions. Writes of metadata are recorded in the action store here; the status writer records writes of the
//! status.

use std::sync::Arc;

use aileron_action::{ACTION_FINALIZER, Action, TaskAction};
use aileron_kubekit::ApiError;
use aileron_machinery::ActionKey;
use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::api::{GetParams, ObjectMeta, Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::Writer;
use super::requests::{at, for_metadata, read, unbuildable};
use crate::caches::actions::ActionStore;
use crate::cluster::listed::Listed;
use crate::cluster::{Actions, WriteSlot};

/// The name under which warnings are recorded, as `kubectl describe` shows it. The Go executor uses the same name.
const REPORTER: &str = "taskaction-controller";

/// Bounds the warnings in flight. More than this means that the API server is overloaded. Further warnings are dropped,
/// because they only inform people who read the object.
const WARNINGS_IN_FLIGHT: usize = 32;

/// The actions of a real cluster.
pub struct KubeActions {
    writer: Writer,
    action_store: Arc<ActionStore>,
    recorder: Recorder,
    warnings: Arc<Semaphore>,
}

impl KubeActions {
    /// Writes with this client, and records the writes in this action store.
    pub fn new(writer: Writer, action_store: Arc<ActionStore>) -> Self {
        let reporter = Reporter { controller: REPORTER.into(), instance: None };
        let recorder = Recorder::new(writer.client().clone(), reporter);
        Self { writer, action_store, recorder, warnings: Arc::new(Semaphore::new(WARNINGS_IN_FLIGHT)) }
    }

    async fn patch_metadata(&self, key: &ActionKey, patch: &Patch<Value>) -> Result<ObjectMeta, ApiError> {
        let request =
            requests(key).patch(&key.name, &PatchParams::default(), patch).map_err(|error| unbuildable(&error))?;
        for_metadata(self.writer.client(), request).await
    }
}

#[async_trait]
impl Actions for KubeActions {
    async fn add_finalizer(&self, action: &Action) -> Result<(), ApiError> {
        let key = ActionKey::of(&action.object.metadata);
        let has_some = action.object.metadata.finalizers.as_ref().is_some_and(|names| !names.is_empty());
        // Appending keeps the finalizers of other controllers. If there is no list yet, the patch tests that this is still so.
        let patch = if has_some {
            json!([{"op": "add", "path": "/metadata/finalizers/-", "value": ACTION_FINALIZER}])
        } else {
            json!([
                {"op": "test", "path": "/metadata/finalizers", "value": null},
                {"op": "add", "path": "/metadata/finalizers", "value": [ACTION_FINALIZER]},
            ])
        };
        let _permit = self.writer.write_permit().await?;
        let metadata = self.patch_metadata(&key, &json_patch(patch)?).await?;
        self.action_store.wrote_metadata(&key, &metadata);
        Ok(())
    }

    async fn remove_finalizer(&self, action: &Action) -> Result<(), ApiError> {
        let key = ActionKey::of(&action.object.metadata);
        let names = action.object.metadata.finalizers.as_deref().unwrap_or_default();
        let Some(index) = names.iter().position(|name| name == ACTION_FINALIZER) else { return Ok(()) };
        let path = format!("/metadata/finalizers/{index}");
        let patch = json!([{"op": "test", "path": path, "value": ACTION_FINALIZER}, {"op": "remove", "path": path}]);
        let _permit = self.writer.write_permit().await?;
        let metadata = self.patch_metadata(&key, &json_patch(patch)?).await?;
        self.action_store.wrote_metadata(&key, &metadata);
        Ok(())
    }

    async fn write_slot(&self) -> Result<WriteSlot<'_>, ApiError> {
        Ok(WriteSlot::of(self.writer.write_permit().await?))
    }

    fn is_busy(&self) -> bool {
        self.writer.is_busy()
    }

    async fn patch_status(
        &self,
        key: &ActionKey,
        patch: Value,
        version: Option<u64>,
        _slot: &WriteSlot<'_>,
    ) -> Result<ObjectMeta, ApiError> {
        let mut patch = json!({"status": patch});
        if let Some(version) = version {
            patch["metadata"] = json!({"resourceVersion": version.to_string()});
        }
        let patch = Patch::Merge(patch);
        let request = requests(key)
            .patch_subresource("status", &key.name, &PatchParams::default(), &patch)
            .map_err(|error| unbuildable(&error))?;
        for_metadata(self.writer.client(), request).await
    }

    async fn refresh(&self, key: &ActionKey) -> Result<(), ApiError> {
        let request = || requests(key).get(&key.name, &GetParams::default()).map_err(|error| unbuildable(&error));
        match read::<Listed<TaskAction>>(self.writer.client(), request).await {
            Ok(Listed::Decoded(object)) => self.action_store.read_again(key, |store| store.observe(*object)),
            Ok(Listed::Malformed(object)) => {
                self.action_store.read_again(key, |store| store.observe_malformed(object.salvage()));
            }
            // The watch removes the action.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn add_labels(&self, action: &Action, labels: &[(&str, &str)]) -> Result<(), ApiError> {
        let key = ActionKey::of(&action.object.metadata);
        let labels: serde_json::Map<String, Value> =
            labels.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        let _permit = self.writer.write_permit().await?;
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        let metadata = self.patch_metadata(&key, &patch).await?;
        self.action_store.ended(&key, &metadata);
        Ok(())
    }

    async fn warn(&self, action: &TaskAction, reason: &str, activity: &str, note: &str) {
        let Ok(permit) = Arc::clone(&self.warnings).try_acquire_owned() else { return };
        let event = Event {
            type_: EventType::Warning,
            reason: reason.into(),
            note: Some(truncated(note)),
            action: activity.into(),
            secondary: None,
        };
        let about: ObjectReference = action.object_ref(&());
        let recorder = self.recorder.clone();
        tokio::spawn(async move {
            if let Err(error) = recorder.publish(&event, &about).await {
                tracing::debug!(%error, "failed to record a warning");
            }
            drop(permit);
        });
    }
}

fn requests(key: &ActionKey) -> kube::core::request::Request {
    at("flyte.org", "v1", "taskactions", &key.namespace)
}

fn json_patch(operations: Value) -> Result<Patch<Value>, ApiError> {
    serde_json::from_value(operations)
        .map(Patch::Json)
        .map_err(|error| ApiError::unanswered(format!("failed to build the patch: {error}")))
}

/// The note, cut to the 1024 bytes that the API server accepts.
fn truncated(note: &str) -> String {
    const LIMIT: usize = 1024;
    let mut end = note.len().min(LIMIT);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note[..end].to_owned()
}
