//! Pods made for tasks, slimmed to what phases are read from.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aileron_machinery::{ResourceKind, TaskMetadata};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::api::{Api, ObjectMeta};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use super::events::EventCache;
use super::{PAGE, Sink, Synced, follow, wake_owner};
use crate::action::metadata::{ATTEMPT_LABEL, MANAGED_LABEL};
use crate::cluster::kube::objects::KubeObjects;
use crate::controller::queue::Queue;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "pods";

type Place = (String, String);

/// The pods of all tasks, by place and by action.
#[derive(Default)]
pub struct PodCache {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    pods: HashMap<Place, Arc<Pod>>,
    by_action: HashMap<ActionLabels, BTreeSet<Place>>,
}

/// Namespace, run and action, as pods are labelled with them: also those that operators make for an action.
type ActionLabels = (String, String, String);

impl PodCache {
    /// The pod at a place.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.read().pods.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The pods of an attempt, by name: those that bear its labels, whoever made them.
    pub fn of_attempt(&self, metadata: &TaskMetadata) -> Vec<Arc<Pod>> {
        let Some(key) = action_labels(&metadata.namespace, Some(&metadata.labels)) else { return Vec::new() };
        let attempt = metadata.labels.get(ATTEMPT_LABEL);
        let inner = self.read();
        let pods = inner.by_action.get(&key).into_iter().flatten().filter_map(|place| inner.pods.get(place));
        let labelled =
            |pod: &&Arc<Pod>| pod.metadata.labels.as_ref().and_then(|labels| labels.get(ATTEMPT_LABEL)) == attempt;
        pods.filter(labelled).cloned().collect()
    }

    /// All pods.
    pub fn all(&self) -> Vec<Arc<Pod>> {
        self.read().pods.values().cloned().collect()
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
        inner.forget_labels(&place);
        if let Some(key) = action_labels(&place.0, pod.metadata.labels.as_ref()) {
            inner.by_action.entry(key).or_default().insert(place.clone());
        }
        inner.pods.insert(place, Arc::new(pod));
    }

    fn remove(&self, place: &Place) {
        let mut inner = self.write();
        inner.forget_labels(place);
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
    fn forget_labels(&mut self, place: &Place) {
        let labels = self.pods.get(place).and_then(|pod| pod.metadata.labels.as_ref());
        let Some(key) = action_labels(&place.0, labels) else { return };
        if let Some(places) = self.by_action.get_mut(&key) {
            places.remove(place);
            if places.is_empty() {
                self.by_action.remove(&key);
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
        let kind = ResourceKind::of::<Pod>();
        self.feed.events.forget(&kind.kind, &place.0, &place.1);
        self.feed.objects.gone(&kind, metadata);
        wake_owner(&self.feed.queue, metadata);
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
        wake_owner(&self.feed.queue, &metadata);
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

fn action_labels(namespace: &str, labels: Option<&BTreeMap<String, String>>) -> Option<ActionLabels> {
    let labels = labels?;
    Some((namespace.to_owned(), labels.get("run")?.clone(), labels.get("action")?.clone()))
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
