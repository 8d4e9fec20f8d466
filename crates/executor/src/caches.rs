//! Copies of the state of the cluster in memory: actions, pods, other objects, events and pod templates.
//!
//! The watches fill the caches. Reading them needs no request to the API server.

pub mod actions;
pub mod events;
pub mod held_status;
pub mod memory;
pub mod objects;
pub mod pods;
pub mod readiness;
pub mod templates;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::actions::ActionStore;
use self::events::EventCache;
use self::objects::ObjectCache;
use self::pods::PodCache;
use self::templates::TemplateCache;

/// An object that was written longer ago than this and that the watch cache does not show was missed by the watch. Even
/// a busy watch is behind by seconds only.
pub(crate) const VISIBLE_WITHIN: Duration = Duration::from_secs(30);

/// All caches of the process. Clones share them.
#[derive(Clone)]
pub struct Caches {
    /// Actions that have not ended.
    pub actions: Arc<ActionStore>,
    /// Pods of tasks.
    pub pods: Arc<PodCache>,
    /// Other objects of tasks.
    pub objects: Arc<ObjectCache>,
    /// Kubernetes events about pods and other objects of tasks.
    pub events: Arc<EventCache>,
    /// Pod templates.
    pub pod_templates: Arc<TemplateCache>,
}

impl Caches {
    /// Empty caches. Pod templates that a namespace does not have are taken from the executor's namespace.
    pub fn new(executor_namespace: &str) -> Self {
        Self {
            actions: Arc::default(),
            pods: Arc::default(),
            objects: Arc::default(),
            events: Arc::default(),
            pod_templates: Arc::new(TemplateCache::new(executor_namespace)),
        }
    }
}

/// The namespace and name of an object.
pub(crate) type Place = (String, String);

/// The resource version of each object, by its place.
pub(crate) type Versions = HashMap<Place, u64>;

/// The namespace and name of an object.
pub(crate) fn place(metadata: &ObjectMeta) -> Place {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// The resource version of an object. Resource versions of one kind in one cluster grow with each write. A version that
/// is not a number counts as 0, the oldest, so the object in the cache never hides a change.
pub(crate) fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// The place and the resource version of an object.
pub(crate) fn placed_version(metadata: &ObjectMeta) -> (Place, u64) {
    (place(metadata), version(metadata))
}
