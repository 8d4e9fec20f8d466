//! Pods made for tasks, slimmed to what phases are read from.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::api::{Api, ObjectMeta};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use super::events::EventCache;
use super::{PAGE, Sink, Synced, follow};
use crate::action::metadata::MANAGED_LABEL;
use crate::cluster::kube::objects::KubeObjects;
use crate::controller::memory::ActionKey;
use crate::controller::queue::Queue;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "pods";

type Place = (String, String);

/// The pods of all tasks, by place and by owner.
#[derive(Default)]
pub struct PodCache {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    pods: HashMap<Place, Arc<Pod>>,
    by_owner: HashMap<String, BTreeSet<Place>>,
}

impl PodCache {
    /// The pod at a place.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.read().pods.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The pods that a given object owns, by name.
    pub fn owned_by(&self, uid: &str, namespace: &str) -> Vec<Arc<Pod>> {
        let inner = self.read();
        let places = inner.by_owner.get(uid).into_iter().flatten();
        places.filter(|place| place.0 == namespace).filter_map(|place| inner.pods.get(place).cloned()).collect()
    }

    /// How many pods there are.
    pub fn len(&self) -> usize {
        self.read().pods.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn insert(&self, pod: Pod) {
        let place = place(&pod);
        let mut inner = self.write();
        inner.forget_owner(&place);
        for uid in owners(&pod) {
            inner.by_owner.entry(uid).or_default().insert(place.clone());
        }
        inner.pods.insert(place, Arc::new(pod));
    }

    fn remove(&self, place: &Place) {
        let mut inner = self.write();
        inner.forget_owner(place);
        inner.pods.remove(place);
    }

    fn places(&self) -> Vec<Place> {
        self.read().pods.keys().cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn forget_owner(&mut self, place: &Place) {
        let Some(pod) = self.pods.get(place) else { return };
        for uid in owners(pod) {
            if let Some(places) = self.by_owner.get_mut(&uid) {
                places.remove(place);
                if places.is_empty() {
                    self.by_owner.remove(&uid);
                }
            }
        }
    }
}

/// What the pod watch feeds.
#[derive(Clone)]
pub struct PodFeed {
    /// The cache.
    pub pods: Arc<PodCache>,
    /// Events about pods, forgotten with them.
    pub events: Arc<EventCache>,
    /// Told when a pod is gone.
    pub objects: Arc<KubeObjects>,
    /// Woken when a pod changes.
    pub queue: Arc<Queue>,
}

/// Follows all pods that bear the label of a task.
pub async fn run(client: kube::Client, feed: PodFeed, synced: Synced, cancel: CancellationToken) {
    let api: Api<Pod> = Api::all(client);
    let (label, value) = MANAGED_LABEL;
    let config = watcher::Config::default().labels(&format!("{label}={value}")).page_size(PAGE);
    let sink = Pods { feed, listed: HashSet::new() };
    follow(NAME, watcher(api, config), sink, synced, cancel).await;
}

struct Pods {
    feed: PodFeed,
    listed: HashSet<Place>,
}

impl Pods {
    fn drop_pod(&self, place: &Place, metadata: &ObjectMeta) {
        self.feed.pods.remove(place);
        self.feed.events.forget(&place.0, &place.1);
        self.feed.objects.gone(&place.0, &place.1, metadata.uid.as_deref().unwrap_or_default());
        self.wake_owner(metadata);
    }

    fn wake_owner(&self, metadata: &ObjectMeta) {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.kind == "TaskAction").map(|owner| owner.name.as_str());
        // Where owner references are switched off, the name still tells: it is the action's and the attempt.
        let named_after = || metadata.name.as_deref()?.rsplit_once('-').map(|(action, _)| action);
        if let Some(action) = owner.or_else(named_after) {
            self.feed.queue.wake(&ActionKey::new(namespace, action));
        }
    }
}

impl Sink<Pod> for Pods {
    fn seen(&mut self, pod: Pod, listed: bool) {
        let pod = slim(pod);
        if listed {
            self.listed.insert(place(&pod));
        }
        // The cache first, so that whoever is woken sees the news.
        let metadata = pod.metadata.clone();
        self.feed.pods.insert(pod);
        self.wake_owner(&metadata);
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        for place in self.feed.pods.places().iter().filter(|place| !listed.contains(*place)) {
            let metadata = self.feed.pods.get(&place.0, &place.1).map(|pod| pod.metadata.clone());
            self.drop_pod(place, &metadata.unwrap_or_default());
        }
    }

    fn gone(&mut self, pod: Pod) {
        self.drop_pod(&place(&pod), &pod.metadata);
    }
}

fn place(pod: &Pod) -> Place {
    (pod.metadata.namespace.clone().unwrap_or_default(), pod.metadata.name.clone().unwrap_or_default())
}

fn owners(pod: &Pod) -> Vec<String> {
    pod.metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect()
}

/// Keeps what phases, log links and identity are read from: metadata, container names, node and status.
fn slim(mut pod: Pod) -> Pod {
    pod.metadata.managed_fields = None;
    if let Some(spec) = pod.spec.take() {
        let names = |containers: Vec<Container>| {
            containers
                .into_iter()
                .map(|container| Container { name: container.name, image: container.image, ..Container::default() })
                .collect()
        };
        pod.spec = Some(PodSpec {
            containers: names(spec.containers),
            init_containers: spec.init_containers.map(names),
            node_name: spec.node_name,
            hostname: spec.hostname,
            ..PodSpec::default()
        });
    }
    pod
}
