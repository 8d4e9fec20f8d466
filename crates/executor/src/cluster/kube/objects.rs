//! The objects of plugins in a real cluster: read from watch caches, written with bounded concurrency.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aileron_action::pending::ObjectEvent;
use aileron_kubekit::ApiError;
use aileron_machinery::{AnyK8sPlugin, AnyResource, ResourceKind, TaskMetadata};
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, GetParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::core::request::Request;
use serde_json::{Value, json};

use super::Writer;
use super::finalizer::{Persistence, take_off};
use super::requests::{answered, at, for_metadata, read, unbuildable};
use crate::caches::Caches;
use crate::cluster::{IsMeant, Objects, Observed, Sent};

/// How long a fresh object may be missing from the cache before the server itself is asked.
const VISIBLE_WITHIN: Duration = Duration::from_secs(30);
/// How often a create is sent again because the server and the controller that counts wrote usage at the same time. It
/// says nothing about how much is left, so nobody else needs to wait; a server that goes on like that is overloaded.
const QUOTA_TRIES: u32 = 4;
/// How much longer to wait before each such try: the server needs a moment to hear of the other write.
const QUOTA_PAUSE: Duration = Duration::from_millis(40);

type Place = (ResourceKind, String, String);

/// What we did to an object that the cache may not show yet.
#[derive(Clone, Debug, Default)]
struct OwnWrite {
    created: Option<(String, Instant)>,
    deleted: Option<String>,
}

/// The objects of a real cluster.
pub struct KubeObjects {
    writer: Writer,
    caches: Caches,
    own: Mutex<HashMap<Place, OwnWrite>>,
    persistence: Persistence,
}

impl KubeObjects {
    /// Reads from these caches and writes with this client.
    pub fn new(writer: Writer, caches: Caches) -> Self {
        Self { writer, caches, own: Mutex::default(), persistence: Persistence::default() }
    }

    /// The same, as persistent as this where others write at the same time.
    #[must_use]
    pub fn with_persistence(self, persistence: Persistence) -> Self {
        Self { persistence, ..self }
    }

    /// An object is gone, so what we remember of it is too; but not what we remember of a later one of the same name.
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

    /// What the watches show at a place.
    fn shown(&self, (kind, namespace, name): &Place) -> Option<Arc<dyn AnyResource>> {
        if *kind == ResourceKind::of::<Pod>() {
            self.caches.pods.get(namespace, name).map(|pod| pod as _)
        } else {
            self.caches.objects.get(kind, namespace, name)
        }
    }

    /// What the cache shows, unless it is from before our own last write.
    fn trusted(&self, place: &Place) -> Trusted {
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
            (_, OwnWrite { created: Some((_, since)), .. }) if since.elapsed() < VISIBLE_WITHIN => Trusted::NotYet,
            (Some(object), OwnWrite { created: None, deleted: Some(deleted) }) if uid == deleted => {
                Trusted::Shown(as_deleting(object.as_ref()))
            }
            (cached, _) => {
                own.remove(place);
                cached.map_or(Trusted::Unknown, Trusted::Shown)
            }
        }
    }

    /// The UID of the object at a place, if it is the one meant. What the cache shows of it costs nothing; the server is
    /// asked where the cache shows none, since it has only what bears our labels.
    async fn identify(&self, place: &Place, is_meant: &IsMeant<'_>) -> Result<String, ApiError> {
        let known = match self.trusted(place) {
            Trusted::Shown(object) if is_meant(object.metadata()) => object.metadata().uid.clone(),
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
        let uid = found.uid.clone().filter(|_| is_meant(&found));
        uid.ok_or_else(|| ApiError::somebody_elses(&kind.kind, namespace, name))
    }

    /// Remembers that an object is on its way out, unless the watch has already seen it go.
    fn remember_deletion(&self, place: &Place, uid: &str) {
        self.own().insert(place.clone(), OwnWrite { created: None, deleted: Some(uid.to_owned()) });
        let still_there = self.shown(place).is_some_and(|object| object.metadata().uid.as_deref() == Some(uid));
        if !still_there {
            self.own().remove(place);
        }
    }

    fn own(&self) -> MutexGuard<'_, HashMap<Place, OwnWrite>> {
        // Nothing panics while the lock is held.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Trusted {
    Shown(Arc<dyn AnyResource>),
    NotYet,
    Unknown,
}

#[async_trait]
impl Objects for KubeObjects {
    async fn create(
        &self,
        plugin: &dyn AnyK8sPlugin,
        object: Box<dyn AnyResource>,
        holds: &(dyn Fn() -> bool + Send + Sync),
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
            let turn = self.writer.turn().await?;
            // Many may have waited for their turn, and the first of them was refused.
            if !holds() {
                return Ok(Sent::HeldBack);
            }
            match for_metadata(self.writer.client(), request).await {
                Err(error) if error.is_conflict_of_quotas() && tries < QUOTA_TRIES => {
                    drop(turn);
                    tries += 1;
                    tokio::time::sleep(QUOTA_PAUSE * tries).await;
                }
                other => break other?,
            }
        };
        let uid = created.uid.unwrap_or_default();
        self.own().insert((kind, namespace, name), OwnWrite { created: Some((uid, Instant::now())), deleted: None });
        Ok(Sent::Created(created.resource_version.and_then(|version| version.parse().ok())))
    }

    fn lacks(&self, kind: &ResourceKind) -> bool {
        self.caches.objects.lacks(kind)
    }

    async fn observe(&self, plugin: &dyn AnyK8sPlugin, namespace: &str, name: &str) -> Result<Observed, ApiError> {
        let place = (plugin.kind(), namespace.to_owned(), name.to_owned());
        match self.trusted(&place) {
            Trusted::Shown(object) => Ok(Observed::Present(object)),
            Trusted::NotYet => Ok(Observed::NotYetVisible),
            // One live look before an object counts as lost.
            Trusted::Unknown => match self.look(plugin, namespace, name).await {
                Ok(object) => Ok(Observed::Present(object)),
                Err(error) if error.is_not_found() => Ok(Observed::Absent(error)),
                Err(error) => Err(error),
            },
        }
    }

    async fn look(
        &self,
        plugin: &dyn AnyK8sPlugin,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<dyn AnyResource>, ApiError> {
        let requests = requests(&plugin.kind(), namespace);
        let request = || requests.get(name, &GetParams::default()).map_err(|error| unbuildable(&error));
        let object: Value = read(self.writer.client(), request).await?;
        plugin.decode(object).map_err(|error| unserialisable(&error))
    }

    fn cached(&self, plugin: &dyn AnyK8sPlugin, namespace: &str, name: &str) -> Option<Arc<dyn AnyResource>> {
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
        is_meant: &IsMeant<'_>,
    ) -> Result<(), ApiError> {
        let place = (kind.clone(), namespace.to_owned(), name.to_owned());
        let uid = self.identify(&place, is_meant).await?;
        let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
        let parameters = DeleteParams { preconditions, ..DeleteParams::background() };
        let request = requests(kind, namespace).delete(name, &parameters).map_err(|error| unbuildable(&error))?;
        let _turn = self.writer.turn().await?;
        match answered::<Value>(self.writer.client(), request).await {
            Ok(_) => {
                self.remember_deletion(&place, &uid);
                Ok(())
            }
            Err(error) => {
                // A precondition that fails means that what we meant to delete is gone and another took its name.
                if error.is_not_found() || error.is_conflict() {
                    self.own().remove(&place);
                }
                Err(error)
            }
        }
    }

    async fn patch(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        mut patch: Value,
        is_meant: &IsMeant<'_>,
    ) -> Result<(), ApiError> {
        let place = (kind.clone(), namespace.to_owned(), name.to_owned());
        // UIDs do not change, so the server refuses this for any other object.
        let uid = self.identify(&place, is_meant).await?;
        json_patch::merge(&mut patch, &json!({"metadata": {"uid": uid}}));
        let request = requests(kind, namespace)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .map_err(|error| unbuildable(&error))?;
        let _turn = self.writer.turn().await?;
        for_metadata(self.writer.client(), request).await.map(drop)
    }

    async fn update(
        &self,
        kind: &ResourceKind,
        mut object: Box<dyn AnyResource>,
        is_meant: &IsMeant<'_>,
    ) -> Result<(), ApiError> {
        let metadata = object.metadata();
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let place = (kind.clone(), namespace.clone(), name.clone());
        object.metadata_mut().uid = Some(self.identify(&place, is_meant).await?);
        let body = object.to_json().map_err(|error| unserialisable(&error))?.to_string().into_bytes();
        let request = requests(kind, &namespace)
            .replace(&name, &PostParams::default(), body)
            .map_err(|error| unbuildable(&error))?;
        let _turn = self.writer.turn().await?;
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
        take_off(&self.writer, &requests, metadata, name, self.persistence).await
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

/// We asked for its deletion, so it counts as being deleted even before the watch says so.
fn as_deleting(object: &dyn AnyResource) -> Arc<dyn AnyResource> {
    let mut object = object.boxed_clone();
    object.metadata_mut().deletion_timestamp.get_or_insert_with(|| Time(Timestamp::now()));
    Arc::from(object)
}
