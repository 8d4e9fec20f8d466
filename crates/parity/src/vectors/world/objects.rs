//! The simulated API for the objects of plugins.

use std::sync::Arc;

use aileron_action::pending::ObjectEvent;
use aileron_executor::cluster::{IdentityCheck, Objects, Observed, Sent};
use aileron_kubekit::ApiError;
use aileron_machinery::{AnyResource, ObjectPlugin, ResourceKind, TaskMetadata};
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{Key, State, World, already_exists, not_found, resource_name};

#[async_trait]
impl Objects for World {
    async fn create(
        &self,
        plugin: &dyn ObjectPlugin,
        object: Box<dyn AnyResource>,
        _: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<Sent, ApiError> {
        let kind = plugin.kind();
        let document = document(object.as_ref())?;
        let key = key_of(&kind, object.as_ref());
        let mut state = self.state();
        let result = match state.refusal("create", &key.0) {
            Some(refusal) => Err(refusal),
            None if state.objects.contains_key(&key) => Err(already_exists(&resource_name(&kind), &key.2)),
            None => {
                state.objects.insert(key.clone(), document.clone());
                Ok(Sent::Created(None))
            }
        };
        state.log("create", &key, Some(document), result)
    }

    async fn observe(&self, plugin: &dyn ObjectPlugin, namespace: &str, name: &str) -> Result<Observed, ApiError> {
        match self.get_live(plugin, namespace, name).await {
            Ok(object) => Ok(Observed::Present(object)),
            Err(error) if error.is_not_found() => Ok(Observed::Absent(error)),
            Err(error) => Err(error),
        }
    }

    async fn get_live(
        &self,
        plugin: &dyn ObjectPlugin,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<dyn AnyResource>, ApiError> {
        let kind = plugin.kind();
        let key = key(&kind, namespace, name);
        let mut state = self.state();
        let result = match state.refusal("get", &key.0) {
            Some(refusal) => Err(refusal),
            None => state.objects.get(&key).cloned().ok_or_else(|| not_found(&resource_name(&kind), name)),
        };
        let document = state.log("get", &key, None, result)?;
        plugin.decode(document).map_err(|error| unreadable(&error))
    }

    fn cached(&self, plugin: &dyn ObjectPlugin, namespace: &str, name: &str) -> Option<Arc<dyn AnyResource>> {
        let document = self.state().objects.get(&key(&plugin.kind(), namespace, name)).cloned()?;
        plugin.decode(document).ok()
    }

    async fn delete(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        check: &IdentityCheck<'_>,
    ) -> Result<(), ApiError> {
        let key = key(kind, namespace, name);
        let mut state = self.state();
        state.check_identity(kind, &key, check)?;
        let result = match state.refusal("delete", &key.0) {
            Some(refusal) => Err(refusal),
            None => state.delete(kind, &key),
        };
        state.log("delete", &key, None, result)
    }

    async fn delete_unchanged(&self, kind: &ResourceKind, object: &dyn AnyResource) -> Result<(), ApiError> {
        let ObjectMeta { namespace, name, uid, resource_version, .. } = object.metadata();
        let is_same = |found: &ObjectMeta| found.uid == *uid && found.resource_version == *resource_version;
        let (namespace, name) = (namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
        self.delete(kind, namespace, name, &is_same).await
    }

    async fn patch(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        patch: Value,
        check: &IdentityCheck<'_>,
    ) -> Result<(), ApiError> {
        let key = key(kind, namespace, name);
        let mut state = self.state();
        state.check_identity(kind, &key, check)?;
        let result = match state.refusal("patch", &key.0) {
            Some(refusal) => Err(refusal),
            None => state.change(kind, &key, |object| merge(object, &patch)),
        };
        state.log("patch", &key, None, result)
    }

    /// Upstream uses an update here, so failures that are injected for updates apply to this call.
    async fn remove_finalizer(
        &self,
        kind: &ResourceKind,
        object: &dyn AnyResource,
        name: &str,
    ) -> Result<(), ApiError> {
        let key = key_of(kind, object);
        let mut state = self.state();
        let result = match state.refusal("update", &key.0) {
            Some(refusal) => Err(refusal),
            None => state.change(kind, &key, |object| {
                if let Some(Value::Array(finalizers)) = object.pointer_mut("/metadata/finalizers") {
                    finalizers.retain(|finalizer| finalizer != name);
                }
            }),
        };
        state.log("patch", &key, None, result)
    }

    fn events_since(
        &self,
        kind: &ResourceKind,
        _namespace: &str,
        name: &str,
        created_after: Option<Timestamp>,
        recorded_after: Option<Timestamp>,
    ) -> Vec<ObjectEvent> {
        let state = self.state();
        let mut events: Vec<ObjectEvent> = state
            .events
            .iter()
            .filter(|event| event.description.kind == kind.kind && event.description.object == name)
            .map(|event| ObjectEvent {
                message: event.description.note.clone(),
                created_at: event.description.creation_timestamp,
                recorded_at: event.recorded_at,
            })
            .filter(|event| {
                let seen = (created_after, recorded_after);
                (Some(event.created_at), Some(event.recorded_at)) > seen && Some(event.created_at) >= created_after
            })
            .collect();
        events.sort_by_key(|event| (event.created_at, event.recorded_at));
        events
    }

    fn pods_of(&self, attempt: &TaskMetadata) -> Vec<Arc<Pod>> {
        let namespace = attempt.namespace.as_str();
        let state = self.state();
        let pods = state.objects.iter().filter(|((kind, place, _), _)| kind == "Pod" && place == namespace);
        pods.filter_map(|(_, pod)| serde_json::from_value(pod.clone()).ok()).map(Arc::new).collect()
    }
}

impl State {
    /// Fails for an object of another owner: the executor does not write it, so no call is recorded. For a missing object
    /// the call is sent and recorded.
    fn check_identity(&self, kind: &ResourceKind, key: &Key, check: &IdentityCheck<'_>) -> Result<(), ApiError> {
        let Some(object) = self.objects.get(key) else { return Ok(()) };
        let metadata = serde_json::from_value::<ObjectMeta>(object["metadata"].clone());
        if metadata.is_ok_and(|metadata| check(&metadata)) {
            return Ok(());
        }
        Err(ApiError::owned_by_other(&kind.kind, &key.1, &key.2))
    }

    /// Deletes an object. With finalizers, it only gets a deletion timestamp.
    fn delete(&mut self, kind: &ResourceKind, key: &Key) -> Result<(), ApiError> {
        let now = self.now;
        self.change(kind, key, |object| {
            if object.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null) {
                object["metadata"]["deletionTimestamp"] = json!(now);
            }
        })
    }

    /// Changes an object. It is removed if it is being deleted and has no finalizers.
    fn change(&mut self, kind: &ResourceKind, key: &Key, change: impl FnOnce(&mut Value)) -> Result<(), ApiError> {
        let object = self.objects.get_mut(key).ok_or_else(|| not_found(&resource_name(kind), &key.2))?;
        change(object);
        let held =
            object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        let deleting = object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null());
        if deleting && !held {
            self.objects.remove(key);
        }
        Ok(())
    }
}

fn key(kind: &ResourceKind, namespace: &str, name: &str) -> Key {
    (kind.kind.to_string(), namespace.to_owned(), name.to_owned())
}

fn key_of(kind: &ResourceKind, object: &dyn AnyResource) -> Key {
    let metadata = object.metadata();
    key(kind, metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

fn document(object: &dyn AnyResource) -> Result<Value, ApiError> {
    object.to_json().map_err(|error| unreadable(&error))
}

fn unreadable(error: &aileron_machinery::PluginError) -> ApiError {
    ApiError::unanswered(error.to_string())
}

/// A JSON merge patch (RFC 7386).
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(members) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            members.remove(key);
        } else {
            merge(members.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
