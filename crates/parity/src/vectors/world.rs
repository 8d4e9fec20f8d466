//! The simulated environment of a recorded scenario: a cluster, a clock, storage and services, all in memory.
//!
//! It answers like an API server, returns the failures that a step injects, and records all calls.

mod actions;
mod objects;
mod services;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use aileron_executor::manager::ManagerBackends;
use aileron_executor::storage::{BlobStore, MemoryStore};
use aileron_kubekit::ApiError;
use aileron_machinery::ResourceKind;
use aileron_machinery::time::clock::Clock;
use anyhow::Context as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::messages::bytes;

pub use services::CatalogAnswers;

/// A failure that a step injects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Injection {
    reason: String,
    code: u16,
    message: String,
    /// The message of a transport error, instead of an answer of the server.
    generic: Option<String>,
    /// The kind of object that is affected; without it, all kinds except TaskAction.
    kind: Option<String>,
    /// How many calls fail; without it, all.
    times: Option<u32>,
}

/// A Kubernetes event.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EventDescription {
    note: String,
    kind: String,
    object: String,
    creation_timestamp: Timestamp,
}

#[derive(Clone, Debug)]
struct RecordedEvent {
    description: EventDescription,
    recorded_at: Timestamp,
}

/// Names an object to remove.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Removed {
    kind: String,
    namespace: String,
    name: String,
}

/// Kind, namespace, name.
type Key = (String, String, String);

/// The mutable state of a scenario.
#[derive(Debug)]
struct State {
    now: Timestamp,
    objects: BTreeMap<Key, Value>,
    action: Option<TaskAction>,
    events: Vec<RecordedEvent>,
    injections: BTreeMap<String, Injection>,
    calls: Vec<Value>,
    warnings: Vec<String>,
    action_events: Vec<Value>,
    events_down: bool,
    catalog: CatalogAnswers,
    catalog_calls: Vec<Value>,
}

/// The simulated environment of one scenario.
#[derive(Debug)]
pub struct World {
    /// The blob store.
    pub store: std::sync::Arc<MemoryStore>,
    /// The first time of the scenario, as time of day and as monotonic time. Both clocks of the world advance together.
    start: (Timestamp, Instant),
    state: Mutex<State>,
}

impl World {
    /// An environment that contains only an action.
    pub fn new(now: Timestamp, action: TaskAction) -> Self {
        let state = State {
            now,
            objects: BTreeMap::new(),
            action: Some(action),
            events: Vec::new(),
            injections: BTreeMap::new(),
            calls: Vec::new(),
            warnings: Vec::new(),
            action_events: Vec::new(),
            events_down: false,
            catalog: CatalogAnswers::default(),
            catalog_calls: Vec::new(),
        };
        Self { store: std::sync::Arc::default(), start: (now, Instant::now()), state: Mutex::new(state) }
    }

    /// The backends of a plugin manager in this environment.
    pub fn backends(self: &Arc<Self>, store: Arc<dyn BlobStore>) -> ManagerBackends {
        let (objects, clock) = (Arc::clone(self) as _, Arc::clone(self) as _);
        ManagerBackends { objects, store, gate: Arc::default(), tokens: None, clock }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds blobs to the store. `files` maps locations to base64.
    pub fn add_files(&self, files: &Value) -> anyhow::Result<()> {
        for (location, content) in files.as_object().into_iter().flatten() {
            self.store.insert(location.clone(), bytes(content).with_context(|| format!("file {location}"))?);
        }
        Ok(())
    }

    /// Applies the changes before a step, in the recorded order, and clears the calls of earlier steps.
    ///
    /// `now` is the clock of the step. It is set last, so that events are recorded at the previous time.
    pub fn prepare(&self, step: &Value, now: Timestamp) -> anyhow::Result<()> {
        self.add_files(step.get("files").unwrap_or(&Value::Null))?;
        let mut state = self.state();
        for object in list(step, "set") {
            let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            let key = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
            let mut object = object.clone();
            if let Some(before) = state.objects.get(&key) {
                keep_identity(before, &mut object);
            }
            state.objects.insert(key, object);
        }
        for removed in list(step, "remove") {
            let Removed { kind, namespace, name } = serde_json::from_value(removed.clone()).context("remove")?;
            state.objects.remove(&(kind, namespace, name));
        }
        for event in list(step, "events") {
            let description = serde_json::from_value(event.clone()).context("events")?;
            let recorded_at = state.now;
            state.events.push(RecordedEvent { description, recorded_at });
        }
        state.now = now;
        state.injections = match step.get("inject") {
            None | Some(Value::Null) => BTreeMap::new(),
            Some(given) => serde_json::from_value(given.clone()).context("inject")?,
        };
        state.events_down = step.get("eventsError").is_some_and(|value| *value != Value::Bool(false));
        if let Some(answers) = step.get("catalog").filter(|answers| !answers.is_null()) {
            state.catalog = serde_json::from_value(answers.clone()).context("catalog")?;
        }
        state.calls.clear();
        state.warnings.clear();
        state.action_events.clear();
        state.catalog_calls.clear();
        Ok(())
    }

    /// The stored action, if it still exists.
    pub fn action(&self) -> Option<TaskAction> {
        self.state().action.clone()
    }

    /// Changes the stored action, if it still exists.
    pub fn change_action(&self, change: impl FnOnce(&mut TaskAction)) {
        if let Some(action) = &mut self.state().action {
            change(action);
        }
    }

    /// Deletes the action as a user would. It is removed when it has no finalizers.
    pub fn delete_action(&self) {
        let mut state = self.state();
        let now = state.now;
        if let Some(action) = &mut state.action {
            action.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
        }
        state.drop_released_action();
    }

    /// The calls of the step so far.
    pub fn calls(&self) -> Vec<Value> {
        self.state().calls.clone()
    }

    /// The Kubernetes events of type Warning that were recorded for the action.
    pub fn warnings(&self) -> Vec<String> {
        self.state().warnings.clone()
    }

    /// The events that the events service accepted.
    pub fn action_events(&self) -> Vec<Value> {
        self.state().action_events.clone()
    }

    /// The calls to the cache service.
    pub fn catalog_calls(&self) -> Vec<Value> {
        self.state().catalog_calls.clone()
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        self.state().now
    }

    fn instant(&self) -> Instant {
        let (date, instant) = self.start;
        instant + Duration::try_from(self.now().duration_since(date)).unwrap_or_default()
    }
}

impl State {
    /// The injected failure of a call, if there is one.
    fn refusal(&mut self, verb: &str, kind: &str) -> Option<ApiError> {
        let injection = self.injections.get_mut(verb)?;
        let applies = match &injection.kind {
            Some(only) => only == kind,
            None => kind != "TaskAction",
        };
        if !applies {
            return None;
        }
        match &mut injection.times {
            Some(0) => return None,
            Some(left) => *left -= 1,
            None => {}
        }
        Some(match &injection.generic {
            Some(message) => ApiError::unanswered(message.clone()),
            None => refusal(injection.code, &injection.reason, injection.message.clone()),
        })
    }

    /// Records a call and its result.
    fn log<T>(
        &mut self,
        verb: &str,
        key: &Key,
        object: Option<Value>,
        result: Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let outcome = match &result {
            Ok(_) => "ok",
            Err(error) if error.reason.is_empty() => "Unknown",
            Err(error) => &error.reason,
        };
        let mut call = json!({"verb": verb, "kind": key.0, "namespace": key.1, "name": key.2, "result": outcome});
        if let Some(object) = object {
            call["object"] = object;
        }
        self.calls.push(call);
        result
    }

    /// Removes an action that is being deleted and has no finalizers.
    fn drop_released_action(&mut self) {
        let released = self.action.as_ref().is_some_and(|action| {
            let held = action.metadata.finalizers.as_deref().is_some_and(|finalizers| !finalizers.is_empty());
            action.metadata.deletion_timestamp.is_some() && !held
        });
        if released {
            self.action = None;
        }
    }
}

fn list<'a>(step: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    step.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The name of a kind in messages of the API server.
fn resource_name(kind: &ResourceKind) -> String {
    if kind.group.is_empty() { kind.plural.to_string() } else { format!("{}.{}", kind.plural, kind.group) }
}

fn refusal(code: u16, reason: &str, message: String) -> ApiError {
    ApiError { code, reason: reason.to_owned(), message, retry_after: None }
}

fn not_found(resource: &str, name: &str) -> ApiError {
    refusal(404, "NotFound", format!("{resource} {name:?} not found"))
}

/// Keeps labels and owner references of an object when a step sets a new state without them. Recordings leave them out,
/// but in a cluster they stay, and the executor identifies its objects by them.
fn keep_identity(before: &Value, object: &mut Value) {
    let is_empty =
        |value: &Value| value.as_object().is_none_or(Map::is_empty) && value.as_array().is_none_or(Vec::is_empty);
    for key in ["labels", "ownerReferences"] {
        if is_empty(&object["metadata"][key]) {
            object["metadata"][key] = before["metadata"][key].clone();
        }
    }
}

fn already_exists(resource: &str, name: &str) -> ApiError {
    refusal(409, "AlreadyExists", format!("{resource} {name:?} already exists"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use aileron_executor::cluster::Objects as _;
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn world() -> World {
        World::new(Timestamp::UNIX_EPOCH, TaskAction::default())
    }

    fn pod(finalizers: &[&str]) -> Value {
        json!({"kind": "Pod", "metadata": {"namespace": "n", "name": "p", "finalizers": finalizers}})
    }

    fn kind() -> ResourceKind {
        ResourceKind::of::<Pod>()
    }

    fn results(world: &World) -> Vec<String> {
        world.calls().iter().map(|call| call["result"].as_str().unwrap_or_default().to_owned()).collect()
    }

    #[tokio::test]
    async fn an_injected_failure_applies_to_the_given_number_of_calls() {
        let world = world();
        let inject = json!({"delete": {"reason": "Conflict", "code": 409, "message": "no", "times": 1}});
        world.prepare(&json!({"set": [pod(&[])], "inject": inject}), Timestamp::UNIX_EPOCH).unwrap();
        assert!(world.delete(&kind(), "n", "p", &|_| true).await.unwrap_err().is_conflict());
        world.delete(&kind(), "n", "p", &|_| true).await.unwrap();
        assert!(world.delete(&kind(), "n", "p", &|_| true).await.unwrap_err().is_not_found());
        assert_eq!(results(&world), ["Conflict", "ok", "NotFound"]);
    }

    #[tokio::test]
    async fn an_object_with_finalizers_stays_until_the_last_one_is_removed() {
        let world = world();
        world.prepare(&json!({"set": [pod(&["a", "b"])]}), Timestamp::UNIX_EPOCH).unwrap();
        world.delete(&kind(), "n", "p", &|_| true).await.unwrap();
        let held: Pod = serde_json::from_value(pod(&["a", "b"])).unwrap();
        world.remove_finalizer(&kind(), &held, "a").await.unwrap();
        world.delete(&kind(), "n", "p", &|_| true).await.unwrap();
        world.remove_finalizer(&kind(), &held, "b").await.unwrap();
        assert!(world.delete(&kind(), "n", "p", &|_| true).await.unwrap_err().is_not_found());
    }

    #[tokio::test]
    async fn an_object_keeps_labels_and_owner_and_foreign_objects_are_not_deleted() {
        let world = world();
        let mut made = pod(&[]);
        made["metadata"]["labels"] = json!({"attempt": "1"});
        made["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u"}]);
        world.prepare(&json!({"set": [made]}), Timestamp::UNIX_EPOCH).unwrap();
        let mut ended = pod(&[]);
        ended["metadata"]["labels"] = json!({});
        ended["status"] = json!({"phase": "Succeeded"});
        world.prepare(&json!({"set": [ended]}), Timestamp::UNIX_EPOCH).unwrap();
        assert!(world.delete(&kind(), "n", "p", &|_| false).await.unwrap_err().is_not_found());
        assert!(world.calls().is_empty(), "no request is sent for a foreign object");
        let marked =
            |found: &ObjectMeta| found.labels.iter().flatten().count() == 1 && found.owner_references.is_some();
        world.delete(&kind(), "n", "p", &marked).await.unwrap();
    }

    #[test]
    fn a_deleted_action_without_finalizer_is_gone() {
        let world = world();
        world.delete_action();
        assert!(world.action().is_none());
    }
}
