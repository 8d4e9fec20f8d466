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
        let patch = json_patch(addition(&action.object.metadata))?;
        let _permit = self.writer.write_permit().await?;
        let metadata = self.patch_metadata(&key, &patch).await?;
        self.action_store.wrote_metadata(&key, &metadata);
        Ok(())
    }

    async fn remove_finalizer(&self, action: &Action) -> Result<(), ApiError> {
        let key = ActionKey::of(&action.object.metadata);
        let Some(patch) = removal(&action.object.metadata) else { return Ok(()) };
        let patch = json_patch(patch)?;
        let _permit = self.writer.write_permit().await?;
        let metadata = self.patch_metadata(&key, &patch).await?;
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

    async fn refresh(&self, key: &ActionKey) -> Result<Option<TaskAction>, ApiError> {
        let request = || requests(key).get(&key.name, &GetParams::default()).map_err(|error| unbuildable(&error));
        match read::<Listed<TaskAction>>(self.writer.client(), request).await {
            Ok(Listed::Decoded(object)) => {
                self.action_store.read_again(key, |store| store.observe(TaskAction::clone(&object)));
                Ok(Some(*object))
            }
            Ok(Listed::Malformed(object)) => {
                self.action_store.read_again(key, |store| store.observe_malformed(object.salvage()));
                Ok(None)
            }
            // The watch removes the action.
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn add_labels(&self, action: &Action, labels: &[(&str, &str)]) -> Result<(), ApiError> {
        let key = ActionKey::of(&action.object.metadata);
        let labels: serde_json::Map<String, Value> =
            labels.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        let _permit = self.writer.write_permit().await?;
        let metadata = self.patch_metadata(&key, &labelling(&action.object.metadata, &labels)).await?;
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

/// A patch that adds our finalizer after those of others. The API server refuses it if the list has changed: a request that
/// arrives twice must not add the finalizer twice.
fn addition(known: &ObjectMeta) -> Value {
    let uid = json!({"op": "test", "path": "/metadata/uid", "value": known.uid});
    match known.finalizers.as_deref() {
        None | Some([]) => json!([
            uid,
            {"op": "test", "path": "/metadata/finalizers", "value": null},
            {"op": "add", "path": "/metadata/finalizers", "value": [ACTION_FINALIZER]},
        ]),
        Some(others) => json!([
            uid,
            {"op": "test", "path": "/metadata/finalizers", "value": others},
            {"op": "add", "path": "/metadata/finalizers/-", "value": ACTION_FINALIZER},
        ]),
    }
}

/// A patch that adds labels. The API server refuses it for another action of the same name: a request may arrive late, and with
/// the labels of an ended action that one would never be run.
fn labelling(known: &ObjectMeta, labels: &serde_json::Map<String, Value>) -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"uid": known.uid, "labels": labels}}))
}

/// A patch that removes our finalizer and nothing else; `None` if there is none. An older executor may have added it twice.
fn removal(known: &ObjectMeta) -> Option<Value> {
    let names = known.finalizers.as_deref().unwrap_or_default();
    // From the last to the first, because each removal moves those behind it.
    let ours = names.iter().enumerate().rev().filter(|(_, name)| *name == ACTION_FINALIZER);
    let mut operations = vec![json!({"op": "test", "path": "/metadata/uid", "value": known.uid})];
    for (index, _) in ours {
        let path = format!("/metadata/finalizers/{index}");
        operations.push(json!({"op": "test", "path": path, "value": ACTION_FINALIZER}));
        operations.push(json!({"op": "remove", "path": path}));
    }
    (operations.len() > 1).then_some(Value::Array(operations))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn with(finalizers: &[&str]) -> ObjectMeta {
        let finalizers = finalizers.iter().map(|name| (*name).to_owned()).collect();
        ObjectMeta { uid: Some("u".into()), finalizers: Some(finalizers), ..ObjectMeta::default() }
    }

    /// The finalizers after these patches, each made for what `known` shows. A patch that the API server refuses changes
    /// nothing.
    fn after(object: &ObjectMeta, patches: &[Value]) -> Vec<String> {
        let mut object = json!({"metadata": object});
        for patch in patches {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
            let mut changed = object.clone();
            if json_patch::patch(&mut changed, &patch).is_ok() {
                object = changed;
            }
        }
        serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap()
    }

    #[test]
    fn a_request_that_arrives_twice_adds_the_finalizer_once() {
        let others = with(&["example.org/hold"]);
        let patch = addition(&others);
        assert_eq!(after(&others, &[patch.clone(), patch]), ["example.org/hold", ACTION_FINALIZER]);
    }

    #[test]
    fn every_copy_of_our_finalizer_is_removed_and_no_other() {
        let known = with(&[ACTION_FINALIZER, "example.org/hold", ACTION_FINALIZER]);
        let patch = removal(&known).unwrap();
        assert_eq!(after(&known, &[patch.clone(), patch]), ["example.org/hold"]);
        assert_eq!(removal(&with(&["example.org/hold"])), None);
    }

    #[test]
    fn a_later_action_of_the_same_name_is_not_changed() {
        let known = with(&[ACTION_FINALIZER]);
        let later = ObjectMeta { uid: Some("v".into()), ..known.clone() };
        assert_eq!(after(&later, &[removal(&known).unwrap()]), [ACTION_FINALIZER]);
        // The API server compares the UID of a merge patch with that of the object.
        let Patch::Merge(labels) = labelling(&known, &serde_json::Map::new()) else { panic!("a merge patch") };
        assert_eq!(labels["metadata"]["uid"], "u");
    }
}
