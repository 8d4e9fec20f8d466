//! The manager with a plugin whose id and kind are known only at run time, on a cluster in memory.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Mutex;

use aileron_action::pending::ObjectEvent;
use aileron_kubekit::ApiError;
use aileron_machinery::testing::task;
use aileron_machinery::time::clock::SystemClock;
use aileron_machinery::{
    AbortBehavior, AnyResource, JsonObject, Needs, ObjectRef, PhaseContext, PluginProperties, StoredState, TaskInfo,
    TaskMetadata,
};
use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::*;
use crate::cluster::{IdentityCheck, Observed, Sent};
use crate::storage::{MemoryStore, StorageError};

/// A plugin that a file could describe: JSON in, JSON out.
struct Kettle {
    abort: AbortBehavior,
}

fn kettle_kind() -> ResourceKind {
    ResourceKind::new("kitchen.example.com".to_owned(), "v1", "Kettle", "kettles")
}

#[async_trait]
impl ObjectPlugin for Kettle {
    fn entry(&self) -> PluginEntry {
        PluginEntry::new(format!("kettle-{}", 2), &["kettle"])
    }

    fn kind(&self) -> ResourceKind {
        kettle_kind()
    }

    fn properties(&self) -> PluginProperties {
        PluginProperties::default().with_definition()
    }

    fn read_definition(&self, _: &CustomResourceDefinition) -> Value {
        json!({"whistles": true})
    }

    async fn needs(&self, _: &TaskContext) -> Result<Needs, PluginError> {
        Ok(Needs::none().with_base_pod())
    }

    async fn build(&self, task: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError> {
        let pod = task.base_pod.as_ref().and_then(|pod| pod.spec.clone()).unwrap_or_default();
        let whistles = task.definition.as_ref().map(|facts| facts["whistles"].clone());
        let spec = json!({"image": pod.containers[0].image, "whistle": whistles});
        Ok(Box::new(JsonObject::new(self.kind(), json!({"spec": spec}))?))
    }

    async fn phase(&self, cx: &PhaseContext<'_>, object: &dyn AnyResource) -> Result<PhaseInfo, PluginError> {
        let info = TaskInfo::at(cx.task.now);
        Ok(match object.to_json()?["status"]["state"].as_str() {
            Some("boiling") => PhaseInfo::running(info).with_reason("boils").with_check_at(cx.task.now),
            Some("done") => PhaseInfo::success(info),
            _ => PhaseInfo::queued("cold", info),
        })
    }

    async fn on_abort(&self, _: &TaskContext, _: &ObjectRef) -> Result<AbortBehavior, PluginError> {
        Ok(self.abort.clone())
    }
}

/// The objects of a cluster in memory, by kind and name, and the writes that were asked for.
#[derive(Default)]
struct Cluster {
    objects: Mutex<BTreeMap<(String, String), Value>>,
    writes: Mutex<Vec<String>>,
    refuses_patches: bool,
}

impl Cluster {
    fn get(&self, kind: &ResourceKind, name: &str) -> Option<Value> {
        self.objects.lock().unwrap().get(&(kind.kind.to_string(), name.to_owned())).cloned()
    }

    fn put(&self, kind: &ResourceKind, name: &str, object: Value) {
        self.objects.lock().unwrap().insert((kind.kind.to_string(), name.to_owned()), object);
    }

    fn wrote(&self, write: String) {
        self.writes.lock().unwrap().push(write);
    }

    fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.writes.lock().unwrap())
    }

    fn identified(&self, kind: &ResourceKind, name: &str, check: &IdentityCheck<'_>) -> Result<Value, ApiError> {
        let object = self.get(kind, name).ok_or_else(not_found)?;
        let metadata: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
        if check(&metadata) { Ok(object) } else { Err(ApiError::owned_by_other(&kind.kind, "p-d", name)) }
    }
}

fn not_found() -> ApiError {
    ApiError { code: 404, reason: "NotFound".into(), message: "not found".into(), retry_after: None }
}

#[async_trait]
impl Objects for Cluster {
    async fn create(
        &self,
        plugin: &dyn ObjectPlugin,
        object: Box<dyn AnyResource>,
        _: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<Sent, ApiError> {
        let name = object.metadata().name.clone().unwrap();
        self.wrote(format!("create {name}"));
        self.put(&plugin.kind(), &name, object.to_json().unwrap());
        Ok(Sent::Created(None))
    }

    fn definition(&self, plugin: &str) -> Option<Arc<Value>> {
        (plugin == "kettle-2").then(|| Arc::new(json!({"whistles": true})))
    }

    async fn observe(&self, plugin: &dyn ObjectPlugin, _: &str, name: &str) -> Result<Observed, ApiError> {
        let found = self.get(&plugin.kind(), name).map(|object| plugin.decode(object).unwrap());
        Ok(found.map_or_else(|| Observed::Absent(not_found()), Observed::Present))
    }

    async fn get_live(&self, plugin: &dyn ObjectPlugin, _: &str, name: &str) -> Result<Arc<dyn AnyResource>, ApiError> {
        self.get(&plugin.kind(), name).map(|object| plugin.decode(object).unwrap()).ok_or_else(not_found)
    }

    fn cached(&self, plugin: &dyn ObjectPlugin, _: &str, name: &str) -> Option<Arc<dyn AnyResource>> {
        self.get(&plugin.kind(), name).map(|object| plugin.decode(object).unwrap())
    }

    async fn delete(
        &self,
        kind: &ResourceKind,
        _: &str,
        name: &str,
        check: &IdentityCheck<'_>,
    ) -> Result<(), ApiError> {
        self.identified(kind, name, check)?;
        self.wrote(format!("delete {} {name}", kind.kind));
        Ok(())
    }

    async fn delete_unchanged(&self, kind: &ResourceKind, object: &dyn AnyResource) -> Result<(), ApiError> {
        let ObjectMeta { name, uid, resource_version, .. } = object.metadata();
        let is_same = |found: &ObjectMeta| found.uid == *uid && found.resource_version == *resource_version;
        self.delete(kind, "", name.as_deref().unwrap_or_default(), &is_same).await
    }

    async fn patch(
        &self,
        kind: &ResourceKind,
        _: &str,
        name: &str,
        patch: Value,
        check: &IdentityCheck<'_>,
    ) -> Result<(), ApiError> {
        self.identified(kind, name, check)?;
        if self.refuses_patches {
            return Err(ApiError { code: 422, reason: "Invalid".into(), ..ApiError::default() });
        }
        self.wrote(format!("patch {} {name} {patch}", kind.kind));
        Ok(())
    }

    async fn remove_finalizer(&self, _: &ResourceKind, _: &dyn AnyResource, _: &str) -> Result<(), ApiError> {
        Ok(())
    }

    fn events_since(
        &self,
        _: &ResourceKind,
        _: &str,
        _: &str,
        _: Option<Timestamp>,
        _: Option<Timestamp>,
    ) -> Vec<ObjectEvent> {
        Vec::new()
    }

    fn pods_of(&self, _: &TaskMetadata) -> Vec<Arc<Pod>> {
        Vec::new()
    }
}

/// A store whose server is away, or that refuses the executor.
struct BrokenStore(std::io::ErrorKind);

impl BrokenStore {
    fn error(&self, uri: &str) -> StorageError {
        StorageError::Files { action: "read", uri: uri.into(), source: self.0.into() }
    }
}

#[async_trait]
impl BlobStore for BrokenStore {
    async fn get(&self, uri: &str) -> Result<Option<Bytes>, StorageError> {
        Err(self.error(uri))
    }

    async fn put(&self, uri: &str, _: Bytes) -> Result<(), StorageError> {
        Err(self.error(uri))
    }

    async fn size(&self, uri: &str) -> Result<Option<u64>, StorageError> {
        Err(self.error(uri))
    }
}

fn manager(cluster: &Arc<Cluster>, abort: AbortBehavior) -> PluginManager {
    manager_with(cluster, abort, Arc::new(MemoryStore::new()))
}

fn manager_with(cluster: &Arc<Cluster>, abort: AbortBehavior, store: Arc<dyn BlobStore>) -> PluginManager {
    let backends = ManagerBackends {
        objects: Arc::clone(cluster) as _,
        store,
        gate: Arc::default(),
        tokens: None,
        clock: Arc::new(SystemClock),
    };
    PluginManager::new(Arc::new(Kettle { abort }), backends)
}

fn kettle_task() -> TaskContext {
    let mut task = task("kettle", &Value::Null);
    let metadata = Arc::make_mut(&mut task.metadata);
    metadata.owner.uid = "u1".into();
    metadata.labels = [("attempt".to_owned(), "1".to_owned())].into();
    task
}

async fn round(manager: &PluginManager, stored: &mut StoredState) -> CoreStep {
    let task = kettle_task();
    let step = manager.handle(&CoreRequest::new(&task, stored)).await.unwrap();
    if let Some(write) = step.state.clone() {
        *stored = StoredState { bytes: write.bytes, version: write.version };
    }
    step
}

#[tokio::test]
async fn a_plugin_of_a_kind_known_at_run_time_is_driven_from_task_to_success() {
    let cluster = Arc::new(Cluster::default());
    let manager = manager(&cluster, AbortBehavior::default());
    let mut stored = StoredState::default();

    assert_eq!(round(&manager, &mut stored).await.phase.phase(), Phase::Queued);
    let mut object = cluster.get(&kettle_kind(), "run-a0-0").unwrap();
    assert_eq!(
        (object["apiVersion"].clone(), object["kind"].clone()),
        (json!("kitchen.example.com/v1"), json!("Kettle"))
    );
    assert_eq!(object["spec"], json!({"image": "image:1", "whistle": true}), "base pod and definition were handed in");

    object["status"] = json!({"state": "boiling"});
    cluster.put(&kettle_kind(), "run-a0-0", object.clone());
    let step = round(&manager, &mut stored).await;
    assert_eq!((step.phase.phase(), step.phase.version()), (Phase::Running, 0));
    assert_eq!(step.wake_at, Some(kettle_task().now), "the time of the next check comes from the phase");

    object["status"] = json!({"state": "done"});
    cluster.put(&kettle_kind(), "run-a0-0", object);
    let step = round(&manager, &mut stored).await;
    assert_eq!((step.phase.phase(), step.wake_at), (Phase::Success, None));
    assert_eq!(cluster.writes(), ["create run-a0-0"]);
}

#[tokio::test]
async fn an_outage_of_the_storage_is_told_apart_from_a_refusal() {
    for (kind, is_outage) in [(std::io::ErrorKind::TimedOut, true), (std::io::ErrorKind::PermissionDenied, false)] {
        let cluster = Arc::new(Cluster::default());
        let manager = manager_with(&cluster, AbortBehavior::default(), Arc::new(BrokenStore(kind)));
        let mut stored = StoredState::default();
        round(&manager, &mut stored).await;
        let mut object = cluster.get(&kettle_kind(), "run-a0-0").unwrap();
        object["status"] = json!({"state": "done"});
        cluster.put(&kettle_kind(), "run-a0-0", object);
        let task = kettle_task();
        let error = manager.handle(&CoreRequest::new(&task, &stored)).await.unwrap_err();
        assert_eq!(error.storage_outage().is_some(), is_outage, "{error}");
    }
}

#[tokio::test]
async fn an_object_that_a_restarted_executor_finds_is_read_in_the_next_round() {
    let cluster = Arc::new(Cluster::default());
    let manager = manager(&cluster, AbortBehavior::default());
    assert_eq!(round(&manager, &mut StoredState::default()).await.wake_at, None, "the watch shows a created object");
    // The executor was killed before it wrote a status.
    let step = round(&manager, &mut StoredState::default()).await;
    assert_eq!((step.phase.phase(), step.wake_at), (Phase::Queued, Some(kettle_task().now)));
}

#[tokio::test]
async fn the_manager_raises_the_version_when_only_the_reason_changes() {
    let cluster = Arc::new(Cluster::default());
    let manager = manager(&cluster, AbortBehavior::default());
    let mut stored = StoredState::default();
    assert_eq!(round(&manager, &mut stored).await.phase.reason(), "task submitted to K8s");
    let step = round(&manager, &mut stored).await;
    assert_eq!((step.phase.reason(), step.phase.version()), ("cold", 1));
    let step = round(&manager, &mut stored).await;
    assert_eq!((step.phase.version(), step.state), (1, None), "nothing is new, so nothing is stored");
}

/// The writes of an abort, after the object was created.
async fn aborted(abort: AbortBehavior, refuses_patches: bool) -> Vec<String> {
    let cluster = Arc::new(Cluster { refuses_patches, ..Cluster::default() });
    let manager = manager(&cluster, abort);
    let mut stored = StoredState::default();
    round(&manager, &mut stored).await;
    cluster.put(&ResourceKind::of::<Pod>(), "helper", json!({"metadata": {"name": "helper"}}));
    cluster.writes();
    let task = kettle_task();
    manager.abort(&CoreRequest::new(&task, &stored)).await.unwrap();
    cluster.writes()
}

#[tokio::test]
async fn an_attempt_is_stopped_in_the_way_its_plugin_wants() {
    let off = json!({"spec": {"off": true}});
    let patch = |delete_on_error| AbortBehavior::Patch { patch: off.clone(), target: None, delete_on_error };
    assert_eq!(aborted(AbortBehavior::default(), false).await, ["delete Kettle run-a0-0"]);
    assert_eq!(aborted(patch(true), false).await, [format!("patch Kettle run-a0-0 {off}")]);
    assert_eq!(aborted(patch(true), true).await, ["delete Kettle run-a0-0"]);
    let helper = ObjectRef::new(ResourceKind::of::<Pod>(), "p-d", "helper");
    let instead = AbortBehavior::Delete { target: Some(helper) };
    assert_eq!(aborted(instead, false).await, ["delete Pod helper"]);
}

#[tokio::test]
async fn the_object_of_an_attempt_that_starts_again_is_deleted_however_its_plugin_stops_objects() {
    let cluster = Arc::new(Cluster::default());
    let suspend = AbortBehavior::Patch { patch: json!({"spec": {"off": true}}), target: None, delete_on_error: false };
    let manager = manager(&cluster, suspend);
    let mut stored = StoredState::default();
    round(&manager, &mut stored).await;
    cluster.writes();
    let task = kettle_task();
    manager.discard(&CoreRequest::new(&task, &stored)).await.unwrap();
    assert_eq!(cluster.writes(), ["delete Kettle run-a0-0"]);
}

#[tokio::test]
async fn a_refused_patch_is_an_error_unless_the_plugin_wants_the_object_deleted() {
    let cluster = Arc::new(Cluster { refuses_patches: true, ..Cluster::default() });
    let abort = AbortBehavior::Patch { patch: json!({}), target: None, delete_on_error: false };
    let manager = manager(&cluster, abort);
    let mut stored = StoredState::default();
    round(&manager, &mut stored).await;
    let task = kettle_task();
    assert!(manager.abort(&CoreRequest::new(&task, &stored)).await.is_err());
}

#[tokio::test]
async fn an_abort_without_an_object_or_with_one_of_another_owner_touches_nothing() {
    let cluster = Arc::new(Cluster::default());
    let manager = manager(&cluster, AbortBehavior::default());
    let task = kettle_task();
    manager.abort(&CoreRequest::new(&task, &StoredState::default())).await.unwrap();
    cluster.put(&kettle_kind(), "run-a0-0", json!({"metadata": {"name": "run-a0-0"}}));
    manager.abort(&CoreRequest::new(&task, &StoredState::default())).await.unwrap();
    assert_eq!(cluster.writes(), [""; 0]);
}
