//! The objects of plugins in a real cluster: read from the watch caches, written with limited concurrency.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aileron_action::pending::ObjectEvent;
use aileron_action::plugin_choice::Served;
use aileron_kubekit::ApiError;
use aileron_machinery::time::clock::Clock;
use aileron_machinery::{AnyResource, ObjectPlugin, ResourceKind, TaskMetadata};
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, GetParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::core::request::Request;
use serde_json::{Value, json};

use super::Writer;
use super::finalizer::{self, ConflictRetries};
use super::requests::{answered, at, for_metadata, read, unbuildable};
use crate::caches::{Caches, VISIBLE_WITHIN};
use crate::cluster::{IdentityCheck, Objects, Observed, Sent};

/// How often a create is retried when the API server and the ResourceQuota controller wrote the usage of a quota at the
/// same time. Such a conflict does not mean that the quota is used up. If it continues, the API server is overloaded.
const QUOTA_CONFLICT_RETRIES: u32 = 4;
/// Added to the pause before each of these retries. The API server needs a moment to see the write of the controller.
const QUOTA_CONFLICT_PAUSE: Duration = Duration::from_millis(40);

/// Kind, namespace and name of an object.
type ObjectPlace = (ResourceKind, String, String);

/// A write of the executor to an object that the watch cache may not show yet.
#[derive(Clone, Debug, Default)]
struct OwnWrite {
    /// UID and time of creation.
    created: Option<(String, Instant)>,
    /// UID of the object whose deletion was requested.
    deleted: Option<String>,
}

/// The objects of a real cluster.
pub struct KubeObjects {
    writer: Writer,
    caches: Caches,
    own: Mutex<HashMap<ObjectPlace, OwnWrite>>,
    conflict_retries: ConflictRetries,
    clock: Arc<dyn Clock>,
}

impl KubeObjects {
    /// Reads from these caches and writes with this client.
    pub fn new(writer: Writer, caches: Caches, clock: Arc<dyn Clock>) -> Self {
        Self { writer, caches, own: Mutex::default(), conflict_retries: ConflictRetries::default(), clock }
    }

    /// Retries writes that conflict with those of other clients as configured here.
    #[must_use]
    pub fn with_conflict_retries(self, conflict_retries: ConflictRetries) -> Self {
        Self { conflict_retries, ..self }
    }

    /// Drops the recorded write to an object that no longer exists, but not that to a later object with the same name.
    pub fn gone(&self, kind: &ResourceKind, metadata: &ObjectMeta) {
        let name = |part: &Option<String>| part.clone().unwrap_or_default();
        let place = (kind.clone(), name(&metadata.namespace), name(&metadata.name));
        let mut own = self.own();
        let is_it = own.get(&place).is_some_and(|write| match &write.created {
            Some((created, _)) => Some(created) == metadata.uid.as_ref(),
            None => true,
        });
        if is_it {
            own.remove(&place);
        }
    }

    /// How many own writes are recorded.
    pub(crate) fn own_writes(&self) -> usize {
        self.own().len()
    }

    /// The object in the watch cache.
    fn shown(&self, (kind, namespace, name): &ObjectPlace) -> Option<Arc<dyn AnyResource>> {
        if *kind == ResourceKind::of::<Pod>() {
            self.caches.pods.get(namespace, name).map(|pod| pod as _)
        } else {
            self.caches.objects.get(kind, namespace, name)
        }
    }

    /// The object in the watch cache, unless it is older than the executor's own last write.
    fn trusted(&self, place: &ObjectPlace) -> Trusted {
        let cached = self.shown(place);
        let mut own = self.own();
        let Some(write) = own.get(place).cloned() else {
            return cached.map_or(Trusted::Unknown, Trusted::Shown);
        };
        let uid = cached.as_ref().and_then(|object| object.metadata().uid.clone()).unwrap_or_default();
        match (cached, write) {
            (Some(object), OwnWrite { created: Some((created, _)), .. }) if uid == created => {
                own.remove(place);
                Trusted::Shown(object)
            }
            (_, OwnWrite { created: Some((_, since)), .. })
                if self.clock.instant().saturating_duration_since(since) < VISIBLE_WITHIN =>
            {
                Trusted::NotYet
            }
            (Some(object), OwnWrite { created: None, deleted: Some(deleted) }) if uid == deleted => {
                Trusted::Shown(as_deleting(object.as_ref(), self.clock.now()))
            }
            (cached, _) => {
                own.remove(place);
                cached.map_or(Trusted::Unknown, Trusted::Shown)
            }
        }
    }

    /// The UID of an object, if it passes the check. If the watch cache does not show it, the API server is asked: the cache
    /// has only objects with the labels of the executor.
    async fn identify(&self, place: &ObjectPlace, check: &IdentityCheck<'_>) -> Result<String, ApiError> {
        let known = match self.trusted(place) {
            Trusted::Shown(object) if check(object.metadata()) => object.metadata().uid.clone(),
            Trusted::NotYet => self.own().get(place).and_then(|write| Some(write.created.clone()?.0)),
            Trusted::Shown(_) | Trusted::Unknown => None,
        };
        if let Some(uid) = known {
            return Ok(uid);
        }
        let (kind, namespace, name) = place;
        let request =
            requests(kind, namespace).get(name, &GetParams::default()).map_err(|error| unbuildable(&error))?;
        let found = for_metadata(self.writer.client(), request).await?;
        let uid = found.uid.clone().filter(|_| check(&found));
        uid.ok_or_else(|| ApiError::owned_by_other(&kind.kind, namespace, name))
    }

    /// Deletes the object with this UID, and with this resource version if one is given.
    async fn delete_with(
        &self,
        place: ObjectPlace,
        uid: String,
        resource_version: Option<String>,
    ) -> Result<(), ApiError> {
        let (kind, namespace, name) = &place;
        let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version });
        let parameters = DeleteParams { preconditions, ..DeleteParams::background() };
        let request = requests(kind, namespace).delete(name, &parameters).map_err(|error| unbuildable(&error))?;
        let _permit = self.writer.write_permit().await?;
        match answered::<Value>(self.writer.client(), request).await {
            Ok(_) => {
                self.record_deletion(&place, &uid);
                Ok(())
            }
            Err(error) => {
                // After a failed precondition this is not the object that was created here, or not in the state that was
                // last seen.
                if error.is_not_found() || error.is_conflict() {
                    self.own().remove(&place);
                }
                Err(error)
            }
        }
    }

    /// Records the deletion of an object, unless the watch has already removed it from the cache.
    fn record_deletion(&self, place: &ObjectPlace, uid: &str) {
        self.own().insert(place.clone(), OwnWrite { created: None, deleted: Some(uid.to_owned()) });
        let still_there = self.shown(place).is_some_and(|object| object.metadata().uid.as_deref() == Some(uid));
        if !still_there {
            self.own().remove(place);
        }
    }

    /// Remembers that the API server does not serve a kind. The watch of definitions may not have shown it, and whoever waits
    /// for the kind is woken only when a kind that was missing is served again.
    fn noting_missing<T>(&self, kind: &ResourceKind, answer: Result<T, ApiError>) -> Result<T, ApiError> {
        if answer.as_ref().is_err_and(ApiError::is_kind_not_served) {
            self.caches.objects.learn(kind, Served::No);
        }
        answer
    }

    fn own(&self) -> MutexGuard<'_, HashMap<ObjectPlace, OwnWrite>> {
        // No code panics while it holds the lock.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the watch cache says about an object, corrected by the executor's own writes.
enum Trusted {
    /// The cache has the object.
    Shown(Arc<dyn AnyResource>),
    /// The executor has just created the object, and the cache does not have it yet.
    NotYet,
    /// The cache does not have the object. It may still exist.
    Unknown,
}

#[async_trait]
impl Objects for KubeObjects {
    async fn create(
        &self,
        plugin: &dyn ObjectPlugin,
        object: Box<dyn AnyResource>,
        is_allowed: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<Sent, ApiError> {
        let kind = plugin.kind();
        let metadata = object.metadata();
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let body = object.to_json().map_err(|error| unserialisable(&error))?.to_string().into_bytes();
        let requests = requests(&kind, &namespace);
        let mut tries = 0;
        let created = loop {
            let request = requests.create(&PostParams::default(), body.clone()).map_err(|error| unbuildable(&error))?;
            let permit = self.writer.write_permit().await?;
            // Another create may have been refused while this one waited for its write permit.
            if !is_allowed() {
                return Ok(Sent::HeldBack);
            }
            match for_metadata(self.writer.client(), request).await {
                Err(error) if error.is_conflict_of_quotas() && tries < QUOTA_CONFLICT_RETRIES => {
                    drop(permit);
                    tries += 1;
                    tokio::time::sleep(QUOTA_CONFLICT_PAUSE * tries).await;
                }
                other => break self.noting_missing(&kind, other)?,
            }
        };
        let uid = created.uid.unwrap_or_default();
        self.own()
            .insert((kind, namespace, name), OwnWrite { created: Some((uid, self.clock.instant())), deleted: None });
        Ok(Sent::Created(created.resource_version.and_then(|version| version.parse().ok())))
    }

    fn kind_missing(&self, kind: &ResourceKind) -> bool {
        self.caches.objects.kind_missing(kind)
    }

    fn definition(&self, plugin: &str) -> Option<Arc<Value>> {
        self.caches.objects.definition(plugin)
    }

    async fn observe(&self, plugin: &dyn ObjectPlugin, namespace: &str, name: &str) -> Result<Observed, ApiError> {
        let place = (plugin.kind(), namespace.to_owned(), name.to_owned());
        match self.trusted(&place) {
            Trusted::Shown(object) => Ok(Observed::Present(object)),
            Trusted::NotYet => Ok(Observed::NotYetVisible),
            // An object counts as lost only if the API server itself does not have it.
            Trusted::Unknown => match self.get_live(plugin, namespace, name).await {
                Ok(object) => Ok(Observed::Present(object)),
                Err(error) if error.is_not_found() => Ok(Observed::Absent(error)),
                Err(error) => Err(error),
            },
        }
    }

    async fn get_live(
        &self,
        plugin: &dyn ObjectPlugin,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<dyn AnyResource>, ApiError> {
        let requests = requests(&plugin.kind(), namespace);
        let request = || requests.get(name, &GetParams::default()).map_err(|error| unbuildable(&error));
        let object: Value = self.noting_missing(&plugin.kind(), read(self.writer.client(), request).await)?;
        plugin.decode(object).map_err(|error| unserialisable(&error))
    }

    fn cached(&self, plugin: &dyn ObjectPlugin, namespace: &str, name: &str) -> Option<Arc<dyn AnyResource>> {
        match self.trusted(&(plugin.kind(), namespace.to_owned(), name.to_owned())) {
            Trusted::Shown(object) => Some(object),
            Trusted::NotYet | Trusted::Unknown => None,
        }
    }

    async fn delete(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        check: &IdentityCheck<'_>,
    ) -> Result<(), ApiError> {
        let place = (kind.clone(), namespace.to_owned(), name.to_owned());
        let uid = self.identify(&place, check).await?;
        self.delete_with(place, uid, None).await
    }

    async fn delete_unchanged(&self, kind: &ResourceKind, object: &dyn AnyResource) -> Result<(), ApiError> {
        let ObjectMeta { namespace, name, uid, resource_version, .. } = object.metadata().clone();
        let place = (kind.clone(), namespace.unwrap_or_default(), name.unwrap_or_default());
        self.delete_with(place, uid.unwrap_or_default(), resource_version).await
    }

    async fn patch(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        mut patch: Value,
        check: &IdentityCheck<'_>,
    ) -> Result<(), ApiError> {
        let place = (kind.clone(), namespace.to_owned(), name.to_owned());
        // A UID cannot change, so the API server refuses this patch for any other object.
        let uid = self.identify(&place, check).await?;
        json_patch::merge(&mut patch, &json!({"metadata": {"uid": uid}}));
        let request = requests(kind, namespace)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .map_err(|error| unbuildable(&error))?;
        let _permit = self.writer.write_permit().await?;
        for_metadata(self.writer.client(), request).await.map(drop)
    }

    async fn remove_finalizer(
        &self,
        kind: &ResourceKind,
        object: &dyn AnyResource,
        name: &str,
    ) -> Result<(), ApiError> {
        let metadata = object.metadata();
        let requests = requests(kind, metadata.namespace.as_deref().unwrap_or_default());
        finalizer::remove_finalizer(&self.writer, &requests, metadata, name, self.conflict_retries).await
    }

    fn events_since(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        created_after: Option<Timestamp>,
        recorded_after: Option<Timestamp>,
    ) -> Vec<ObjectEvent> {
        self.caches.events.since(&kind.kind, namespace, name, created_after, recorded_after)
    }

    fn pods_of(&self, attempt: &TaskMetadata) -> Vec<Arc<Pod>> {
        self.caches.pods.of_attempt(attempt)
    }
}

fn requests(kind: &ResourceKind, namespace: &str) -> Request {
    at(&kind.group, &kind.version, &kind.plural, namespace)
}

fn unserialisable(error: &dyn std::error::Error) -> ApiError {
    ApiError::unanswered(error.to_string())
}

/// The object with a deletion timestamp: the executor requested its deletion, and the watch does not show that yet.
fn as_deleting(object: &dyn AnyResource, now: Timestamp) -> Arc<dyn AnyResource> {
    let mut object = object.boxed_clone();
    object.metadata_mut().deletion_timestamp.get_or_insert(Time(now));
    Arc::from(object)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use aileron_kubekit::KIND_NOT_SERVED;
    use axum::http::StatusCode;

    use super::*;

    /// A clock that follows tokio's, with a fixed time of day.
    struct TestClock;

    impl Clock for TestClock {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn instant(&self) -> Instant {
            tokio::time::Instant::now().into_std()
        }
    }

    fn objects() -> KubeObjects {
        objects_at(axum::Router::new())
    }

    fn objects_at(server: axum::Router) -> KubeObjects {
        let client = kube::Client::new(server, "default");
        KubeObjects::new(Writer::new(client), Caches::new("flyte"), Arc::new(TestClock))
    }

    fn metadata() -> ObjectMeta {
        let (namespace, name, uid) = (Some("ns".into()), Some("a-0".into()), Some("uid".into()));
        ObjectMeta { namespace, name, uid, ..ObjectMeta::default() }
    }

    fn place() -> ObjectPlace {
        (ResourceKind::of::<Pod>(), "ns".into(), "a-0".into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_created_object_counts_as_not_yet_visible_for_a_bounded_time_of_the_injected_clock() {
        let objects = objects();
        let created = Some(("uid".into(), objects.clock.instant()));
        objects.own().insert(place(), OwnWrite { created, deleted: None });
        tokio::time::advance(VISIBLE_WITHIN - Duration::from_millis(1)).await;
        assert!(matches!(objects.trusted(&place()), Trusted::NotYet));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(matches!(objects.trusted(&place()), Trusted::Unknown));
        assert!(objects.own().is_empty());
    }

    #[tokio::test]
    async fn an_object_that_has_changed_since_it_was_seen_is_not_deleted() {
        let current = |axum::Json(parameters): axum::Json<Value>| async move {
            let seen = &parameters["preconditions"];
            match (seen["uid"].as_str(), seen["resourceVersion"].as_str()) {
                (Some("uid"), Some("8")) => (StatusCode::OK, axum::Json(json!({}))),
                _ => (StatusCode::CONFLICT, axum::Json(json!({"code": 409, "reason": "Conflict"}))),
            }
        };
        let path = "/api/v1/namespaces/ns/pods/a-0";
        let objects = objects_at(axum::Router::new().route(path, axum::routing::delete(current)));
        let mut pod = Pod { metadata: metadata(), ..Pod::default() };
        pod.metadata.resource_version = Some("7".into());
        let kind = ResourceKind::of::<Pod>();
        assert!(objects.delete_unchanged(&kind, &pod).await.unwrap_err().is_conflict());
        pod.metadata.resource_version = Some("8".into());
        objects.delete_unchanged(&kind, &pod).await.unwrap();
    }

    #[tokio::test]
    async fn an_object_whose_deletion_was_requested_is_shown_as_being_deleted() {
        let objects = objects();
        objects.caches.pods.insert(Pod { metadata: metadata(), ..Pod::default() });
        objects.record_deletion(&place(), "uid");
        let Trusted::Shown(shown) = objects.trusted(&place()) else { panic!("the cache has the pod") };
        assert_eq!(shown.metadata().deletion_timestamp.as_ref().unwrap().0, Timestamp::UNIX_EPOCH);
    }

    #[tokio::test]
    async fn a_kind_is_missing_once_the_api_server_does_not_serve_it() {
        let (objects, kind) = (objects(), ResourceKind::new("ray.io", "v1", "RayJob", "rayjobs"));
        let refused = |reason: &str| {
            let error = ApiError { code: 404, reason: reason.into(), message: "m".into(), retry_after: None };
            objects.noting_missing::<()>(&kind, Err(error)).unwrap_err();
            objects.kind_missing(&kind)
        };
        assert!(!refused("NotFound"), "only the object is missing");
        assert!(refused(KIND_NOT_SERVED));
        assert!(objects.caches.objects.learn(&kind, Served::Yes), "whoever waits is woken when it is served again");
    }
}
