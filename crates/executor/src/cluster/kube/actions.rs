//! Writes to actions, entered into the memory as they are made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aileron_action::{Action, FINALIZER, TaskAction, TaskActionStatus};
use aileron_kubekit::ApiError;
use aileron_machinery::ActionKey;
use aileron_machinery::{PendingReason, Phase};
use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::Writer;
use super::requests::{at, for_metadata, unbuildable};
use super::status_patch::merge_patch;
use crate::caches::actions::{ActionStore, ours_over};
use crate::cluster::{Actions, Urgency};

/// Who records warnings, as `kubectl describe` shows it; the same name as the Go executor's.
const REPORTER: &str = "taskaction-controller";

/// An action is queued when it appears, and its event with the reason is recorded at once; so the status can wait for
/// something better, and says so only if nothing better comes.
const HOLD_QUEUED: Duration = Duration::from_secs(10);
/// Whoever wonders why nothing happens shall find the reason; what is in the way for less than this is not worth a word.
const HOLD_EXPLAINED: Duration = Duration::from_secs(1);
/// Most pods run shortly after they begin to be prepared.
const HOLD_INITIALIZING: Duration = Duration::from_secs(2);
/// Beyond this a step is shown however busy the server is: a phase that lags more looks like a stuck task.
const HOLD_QUEUED_AT_MOST: Duration = Duration::from_secs(15);
/// That user code runs is what people wait to see.
const HOLD_RUNNING_AT_MOST: Duration = Duration::from_secs(3);
/// When to see whether the server is still busy.
const BUSY_PAUSE: Duration = Duration::from_millis(250);
/// Warnings are a courtesy; more than this many waiting to be sent means trouble, and then they are dropped.
const WARNINGS_UNDER_WAY: usize = 32;

/// The actions of a real cluster.
pub struct KubeActions {
    writer: Writer,
    memory: Arc<ActionStore>,
    recorder: Recorder,
    warnings: Arc<Semaphore>,
}

impl KubeActions {
    /// Writes with this client, remembering there.
    pub fn new(writer: Writer, memory: Arc<ActionStore>) -> Self {
        let reporter = Reporter { controller: REPORTER.into(), instance: None };
        let recorder = Recorder::new(writer.client().clone(), reporter);
        Self { writer, memory, recorder, warnings: Arc::new(Semaphore::new(WARNINGS_UNDER_WAY)) }
    }

    /// Writes a held status if its time has come and nothing newer is on its way. The answer is when it will be due.
    pub async fn flush_if_due(
        &self,
        key: &ActionKey,
        superseded: impl Fn() -> bool,
    ) -> Result<Option<Instant>, ApiError> {
        let Some(held) = self.memory.held(key) else { return Ok(None) };
        let now = Instant::now();
        if held.due > now {
            return Ok(Some(held.due));
        }
        // Where there is more to write than the server takes, steps on the way give way to work that ends tasks.
        if self.writer.is_busy() && now < held.since + longest_patience(&held.wanted) {
            return Ok(Some(now + BUSY_PAUSE));
        }
        let turn = self.writer.turn().await?;
        if superseded() {
            return Ok(Some(held.due));
        }
        // Once more: it may have been written or changed while we waited for our turn.
        if let Some(held) = self.memory.held(key) {
            self.patch_status(key, &held.written, &held.wanted).await?;
        }
        drop(turn);
        Ok(None)
    }

    /// Writes all held statuses, before the process ends.
    pub async fn flush_all(&self) {
        let flush = async |key: ActionKey| {
            let (Some(held), Ok(_turn)) = (self.memory.held(&key), self.writer.turn().await) else { return };
            if let Err(error) = self.patch_status(&key, &held.written, &held.wanted).await {
                tracing::warn!(namespace = %key.namespace, name = %key.name, %error, "failed to write a held status");
            }
        };
        // The turns bound how many are under way.
        futures::future::join_all(self.memory.keys().into_iter().map(flush)).await;
    }

    async fn patch_status(
        &self,
        key: &ActionKey,
        written: &TaskActionStatus,
        wanted: &TaskActionStatus,
    ) -> Result<(), ApiError> {
        // A signal that came after this was decided must not look like one that we take back.
        let wanted = &ours_over(wanted.clone(), written);
        let Some(change) = merge_patch(&as_json(written)?, &as_json(wanted)?) else {
            self.memory.has_status(key, wanted);
            return Ok(());
        };
        let patch = Patch::Merge(json!({"status": change}));
        let request = requests(key)
            .patch_subresource("status", &key.name, &PatchParams::default(), &patch)
            .map_err(|error| unbuildable(&error))?;
        self.memory.announce_status(key, wanted);
        let metadata = for_metadata(self.writer.client(), request).await?;
        self.memory.wrote_status(key, wanted, &metadata);
        Ok(())
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
        // Appending never disturbs others; only where there is no list yet must it be checked that there is none.
        let patch = if has_some {
            json!([{"op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER}])
        } else {
            json!([
                {"op": "test", "path": "/metadata/finalizers", "value": null},
                {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]},
            ])
        };
        let _turn = self.writer.turn().await?;
        let metadata = self.patch_metadata(&key, &json_patch(patch)?).await?;
        self.memory.wrote_metadata(&key, &metadata);
        Ok(())
    }

    async fn remove_finalizer(&self, action: &Action) -> Result<(), ApiError> {
        let key = ActionKey::of(&action.object.metadata);
        let names = action.object.metadata.finalizers.as_deref().unwrap_or_default();
        let Some(index) = names.iter().position(|name| name == FINALIZER) else { return Ok(()) };
        let path = format!("/metadata/finalizers/{index}");
        let patch = json!([{"op": "test", "path": path, "value": FINALIZER}, {"op": "remove", "path": path}]);
        let _turn = self.writer.turn().await?;
        let metadata = self.patch_metadata(&key, &json_patch(patch)?).await?;
        self.memory.wrote_metadata(&key, &metadata);
        Ok(())
    }

    async fn write_status(&self, action: &Action, status: &TaskActionStatus, urgency: Urgency) -> Result<(), ApiError> {
        let key = ActionKey::of(&action.object.metadata);
        if urgency == Urgency::Intermediate {
            self.memory.hold_status(&key, status, Instant::now() + patience(status));
            return Ok(());
        }
        let _turn = self.writer.turn().await?;
        let written = self.memory.written_status(&key).unwrap_or_else(|| action.status());
        self.patch_status(&key, &written, status).await
    }

    async fn add_labels(&self, action: &Action, labels: &[(&str, &str)]) -> Result<(), ApiError> {
        let key = ActionKey::of(&action.object.metadata);
        let labels: serde_json::Map<String, Value> =
            labels.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        let _turn = self.writer.turn().await?;
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        let metadata = self.patch_metadata(&key, &patch).await?;
        self.memory.ended(&key, &metadata);
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

/// How long an intermediate status may wait for a newer one.
fn patience(status: &TaskActionStatus) -> Duration {
    let is_held_up = status.pending().is_some_and(|pending| pending.reason != PendingReason::Starting.as_str());
    match Phase::from_name(&status.plugin_phase) {
        Some(Phase::Queued | Phase::WaitingForResources | Phase::Initializing) if is_held_up => HOLD_EXPLAINED,
        Some(Phase::Queued | Phase::WaitingForResources) => HOLD_QUEUED,
        Some(Phase::Initializing) => HOLD_INITIALIZING,
        _ => Duration::ZERO,
    }
}

/// How long at most, when there is more to write than the server takes.
fn longest_patience(status: &TaskActionStatus) -> Duration {
    match Phase::from_name(&status.plugin_phase) {
        Some(Phase::Queued | Phase::WaitingForResources | Phase::Initializing) => HOLD_QUEUED_AT_MOST,
        _ => HOLD_RUNNING_AT_MOST,
    }
}

fn as_json(status: &TaskActionStatus) -> Result<Value, ApiError> {
    serde_json::to_value(status)
        .map_err(|error| ApiError::unanswered(format!("failed to serialise the status: {error}")))
}

fn json_patch(operations: Value) -> Result<Patch<Value>, ApiError> {
    serde_json::from_value(operations)
        .map(Patch::Json)
        .map_err(|error| ApiError::unanswered(format!("failed to build the patch: {error}")))
}

/// The server takes notes of at most 1024 bytes.
fn truncated(note: &str) -> String {
    const LIMIT: usize = 1024;
    let mut end = note.len().min(LIMIT);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note[..end].to_owned()
}
