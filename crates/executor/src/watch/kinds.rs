//! Objects of kinds that plugins make, other than pods: one watch per kind, started when the cluster serves the kind and
//! stopped when it no longer does.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use aileron_machinery::{AnyK8sPlugin, AnyResource, ResourceKind};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{PAGE, Sink, Synced, follow, wake_owner};
use crate::action::metadata::MANAGED_LABEL;
use crate::cluster::kube::objects::KubeObjects;
use crate::controller::queue::Queue;
use crate::plugin_list::{Served, served_kinds};

/// The name of the watch that tells which kinds there are, in readiness and metrics.
pub const NAME: &str = "customresourcedefinitions";

/// The watches of the kinds themselves share one name: readiness does not wait for them, and metrics count them as one.
const KIND_WATCH: &str = "plugin-objects";

/// How long to wait when the cluster cannot say what it serves, doubled up to [`ASK_AGAIN`].
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// How often to ask which kinds are served, where definitions may not be followed. An operator is installed rarely, and
/// whoever installs one waits a minute anyway.
const ASK_AGAIN: Duration = Duration::from_secs(60);

type Place = (String, String);

/// The objects of all watched kinds.
#[derive(Default)]
pub struct ObjectCache {
    kinds: RwLock<HashMap<ResourceKind, Kind>>,
}

#[derive(Default)]
struct Kind {
    /// The first list is complete, so what is not here is not there.
    complete: bool,
    objects: HashMap<Place, Arc<dyn AnyResource>>,
}

impl ObjectCache {
    /// What is at a place.
    pub fn get(&self, kind: &ResourceKind, namespace: &str, name: &str) -> Option<Arc<dyn AnyResource>> {
        let kinds = self.read();
        let kind = kinds.get(kind).filter(|kind| kind.complete)?;
        kind.objects.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<ResourceKind, Kind>> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<ResourceKind, Kind>> {
        self.kinds.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the watches feed.
#[derive(Clone)]
pub struct KindFeed {
    /// The cache.
    pub cache: Arc<ObjectCache>,
    /// Told when an object is gone.
    pub objects: Arc<KubeObjects>,
    /// Woken when an object changes.
    pub queue: Arc<Queue>,
    /// Told what a definition looks like, by its name.
    pub observers: BTreeMap<&'static str, Observer>,
}

/// Told what a definition looks like; nothing if it is gone.
pub type Observer = Arc<dyn Fn(Option<&CustomResourceDefinition>) + Send + Sync>;

/// Follows the definitions in the cluster, and with them the kinds of these plugins.
pub async fn run(
    client: kube::Client,
    plugins: Vec<Arc<dyn AnyK8sPlugin>>,
    feed: KindFeed,
    synced: Synced,
    cancel: CancellationToken,
) {
    let wanted = plugins.into_iter().map(|plugin| (plugin.kind(), plugin));
    let wanted = wanted.filter(|(kind, _)| !kind.group.is_empty());
    let wanted: BTreeMap<String, _> =
        wanted.map(|(kind, plugin)| (format!("{}.{}", kind.plural, kind.group), (kind, plugin))).collect();
    let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client.clone());
    let watches = TaskTracker::new();
    let mut sink = Definitions {
        client: client.clone(),
        wanted,
        feed,
        synced: synced.clone(),
        cancel: cancel.clone(),
        watches: watches.clone(),
        running: HashMap::new(),
        listed: HashSet::new(),
    };
    // Asking which kinds are served is allowed to everybody; following definitions needs a permission that an existing
    // installation may not have given.
    sink.compare(&client).await;
    let mut pause = FIRST_PAUSE;
    loop {
        match definitions.list(&ListParams::default().limit(1)).await {
            Ok(_) => {
                let config = watcher::Config::default().page_size(PAGE);
                follow(NAME, watcher(definitions, config), sink, synced, cancel).await;
                break;
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => pause = ASK_AGAIN,
            Err(error) => tracing::debug!(%error, "definitions cannot be listed now"),
        }
        tokio::select! {
            () = cancel.cancelled() => break,
            () = tokio::time::sleep(pause) => sink.compare(&client).await,
        }
        pause = (pause * 2).min(ASK_AGAIN);
    }
    watches.close();
    watches.wait().await;
}

struct Definitions {
    client: kube::Client,
    wanted: BTreeMap<String, (ResourceKind, Arc<dyn AnyK8sPlugin>)>,
    feed: KindFeed,
    synced: Synced,
    cancel: CancellationToken,
    watches: TaskTracker,
    running: HashMap<String, CancellationToken>,
    listed: HashSet<String>,
}

impl Definitions {
    /// Starts and stops watches by what the cluster says it serves.
    async fn compare(&mut self, client: &kube::Client) {
        let kinds: Vec<_> = self.wanted.values().map(|(kind, _)| kind.clone()).collect();
        let served = served_kinds(client, &kinds).await;
        let names: Vec<_> = self.wanted.iter().map(|(name, (kind, _))| (name.clone(), kind.clone())).collect();
        for (name, kind) in names {
            match served.get(&kind) {
                Some(Served::Yes) => self.appeared(&name),
                Some(Served::No) => self.stop(&name),
                // Nothing is known, so nothing changes.
                Some(Served::Unknown(_)) | None => {}
            }
        }
    }

    fn appeared(&mut self, name: &str) {
        self.start(name);
        if let Some((name, observe)) = self.feed.observers.get_key_value(name) {
            self.watches.spawn(look(self.client.clone(), name, Arc::clone(observe)));
        }
    }

    fn start(&mut self, name: &str) {
        let Some((kind, plugin)) = self.wanted.get(name).filter(|_| !self.running.contains_key(name)) else { return };
        let stop = self.cancel.child_token();
        self.running.insert(name.to_owned(), stop.clone());
        let resource = ApiResource {
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            api_version: kind.api_version(),
            kind: kind.kind.to_string(),
            plural: kind.plural.to_string(),
        };
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let (label, value) = MANAGED_LABEL;
        let config = watcher::Config::default().labels(&format!("{label}={value}")).page_size(PAGE);
        let objects = KindObjects {
            kind: kind.clone(),
            plugin: Arc::clone(plugin),
            feed: self.feed.clone(),
            listed: HashSet::new(),
        };
        tracing::info!(kind = %kind.kind, group = %kind.group, "the cluster serves this kind; it is watched");
        self.watches.spawn(follow(KIND_WATCH, watcher(api, config), objects, self.synced.clone(), stop));
    }

    fn stop(&mut self, name: &str) {
        let (Some(stop), Some((kind, _))) = (self.running.remove(name), self.wanted.get(name)) else { return };
        stop.cancel();
        if let Some(observe) = self.feed.observers.get(name) {
            observe(None);
        }
        self.feed.cache.write().remove(kind);
        tracing::warn!(kind = %kind.kind, group = %kind.group, "the cluster no longer serves this kind");
    }
}

impl Sink<PartialObjectMeta<CustomResourceDefinition>> for Definitions {
    fn seen(&mut self, definition: PartialObjectMeta<CustomResourceDefinition>, listed: bool) {
        let name = definition.metadata.name.unwrap_or_default();
        self.appeared(&name);
        if listed {
            self.listed.insert(name);
        }
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        let gone: Vec<_> = self.running.keys().filter(|name| !self.listed.contains(*name)).cloned().collect();
        for name in gone {
            self.stop(&name);
        }
    }

    fn gone(&mut self, definition: PartialObjectMeta<CustomResourceDefinition>) {
        self.stop(&definition.metadata.name.unwrap_or_default());
    }
}

/// Fetches a whole definition, of which the watch keeps only the name: some are large, and hardly any is looked at.
async fn look(client: kube::Client, name: &'static str, observe: Observer) {
    let api: Api<CustomResourceDefinition> = Api::all(client);
    match api.get_opt(name).await {
        Ok(definition) => observe(definition.as_ref()),
        Err(error) => tracing::warn!(name, %error, "a definition cannot be read; its optional features stay off"),
    }
}

struct KindObjects {
    kind: ResourceKind,
    plugin: Arc<dyn AnyK8sPlugin>,
    feed: KindFeed,
    listed: HashSet<Place>,
}

impl KindObjects {
    fn drop_object(&self, metadata: &ObjectMeta) {
        let place = place(metadata);
        if let Some(kind) = self.feed.cache.write().get_mut(&self.kind) {
            kind.objects.remove(&place);
        }
        self.feed.objects.gone(&self.kind, metadata);
        wake_owner(&self.feed.queue, metadata);
    }
}

impl Sink<DynamicObject> for KindObjects {
    fn seen(&mut self, mut object: DynamicObject, listed: bool) {
        object.metadata.managed_fields = None;
        let metadata = object.metadata.clone();
        let place = place(&metadata);
        let decoded = serde_json::to_value(&object).map_err(|error| error.to_string());
        match decoded.and_then(|value| self.plugin.decode(value).map_err(|error| error.to_string())) {
            Ok(decoded) => {
                self.feed.cache.write().entry(self.kind.clone()).or_default().objects.insert(place.clone(), decoded);
            }
            // A live look will say the same to the action's round, which then says so in the action.
            Err(error) => {
                tracing::warn!(kind = %self.kind.kind, namespace = place.0, name = place.1, error, "an object cannot be read");
            }
        }
        if listed {
            self.listed.insert(place);
        }
        wake_owner(&self.feed.queue, &metadata);
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        let gone: Vec<_> = {
            let mut kinds = self.feed.cache.write();
            let kind = kinds.entry(self.kind.clone()).or_default();
            kind.complete = true;
            let gone = kind.objects.iter().filter(|(place, _)| !listed.contains(*place));
            gone.map(|(_, object)| object.metadata().clone()).collect()
        };
        for metadata in &gone {
            self.drop_object(metadata);
        }
    }

    fn gone(&mut self, object: DynamicObject) {
        self.drop_object(&object.metadata);
    }
}

fn place(metadata: &ObjectMeta) -> Place {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}
