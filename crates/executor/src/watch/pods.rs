//! Pods made for tasks, slimmed to what phases are read from.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aileron_machinery::pod::vscode::ENABLE_VSCODE;
use aileron_machinery::{ResourceKind, TaskMetadata};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::api::{Api, ObjectMeta};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use super::events::EventCache;
use super::missed::{Versions, until_missed, version};
use super::{PAGE, Sink, Synced, follow, wake_owner};
use crate::action::metadata::{ATTEMPT_LABEL, MANAGED_LABEL};
use crate::cluster::kube::objects::KubeObjects;
use crate::controller::memory::Memory;
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

    fn versions(&self) -> Versions {
        self.read().pods.values().map(|pod| version(&pod.metadata)).collect()
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
    /// To know whom a pod concerns.
    pub memory: Arc<Memory>,
}

/// Follows all pods that bear the label of a task.
pub async fn run(client: kube::Client, feed: PodFeed, synced: Synced, cancel: CancellationToken) {
    let api: Api<Pod> = Api::all(client);
    let (label, value) = MANAGED_LABEL;
    let selector = format!("{label}={value}");
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    loop {
        let sink = Pods { feed: feed.clone(), listed: HashSet::new() };
        let watch = follow(NAME, watcher(api.clone(), config.clone()), sink, synced.clone(), cancel.clone());
        tokio::select! {
            () = watch => return,
            () = until_missed(NAME, &api, &selector, || feed.pods.versions()) => {}
        }
    }
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
        wake_owner(&self.feed.queue, &self.feed.memory, metadata);
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
        wake_owner(&self.feed.queue, &self.feed.memory, &metadata);
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

/// Keeps what phases, log links and identity are read from: metadata, container names, whether a container is an editor,
/// node and status.
#[must_use]
pub fn slim(mut pod: Pod) -> Pod {
    pod.metadata.managed_fields = None;
    if let Some(spec) = pod.spec.take() {
        let slim = |containers: Vec<Container>| containers.into_iter().map(slim_container).collect();
        pod.spec = Some(PodSpec {
            containers: slim(spec.containers),
            init_containers: spec.init_containers.map(slim),
            node_name: spec.node_name,
            hostname: spec.hostname,
            ..PodSpec::default()
        });
    }
    pod
}

fn slim_container(container: Container) -> Container {
    let mut env = container.env.unwrap_or_default();
    env.retain(|variable| variable.name == ENABLE_VSCODE);
    env.shrink_to_fit();
    let env = Some(env).filter(|env| !env.is_empty());
    Container { name: container.name, image: container.image, env, ..Container::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::action::{TaskAction, TaskActionSpec};
    use crate::cluster::ObjectEvent;
    use crate::cluster::kube::Writer;
    use crate::controller::memory::ActionKey;

    fn feed() -> PodFeed {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let writer = Writer::new(kube::Client::try_from(nowhere).unwrap());
        let (pods, events) = (Arc::<PodCache>::default(), Arc::<EventCache>::default());
        let objects = KubeObjects::new(writer, Arc::clone(&pods), Arc::default(), Arc::clone(&events));
        PodFeed { pods, events, objects: objects.into(), queue: Arc::default(), memory: Arc::default() }
    }

    /// As an operator makes it for the root action of the run `r`.
    fn worker(name: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "ns", "labels": {"run": "r", "action": "r", "attempt": "1"},
                "ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "r-a0-0", "uid": "u"}],
                "managedFields": [{"manager": "m"}],
            },
            "spec": {
                "containers": [{"name": "c", "image": "i", "args": ["long"], "env": [{"name": "A", "value": "b"}, {"name": ENABLE_VSCODE, "value": "1"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}], "resources": {"limits": {"cpu": "1"}}}],
                "initContainers": [{"name": "n", "image": "j", "command": ["x"]}],
                "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "t"}],
                "nodeName": "n1", "hostname": "h", "serviceAccountName": "s",
            },
            "status": {"phase": "Pending", "message": "said"},
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_is_slimmed_to_what_is_read() {
        let slim = slim(worker("w"));
        let editor = json!([{"name": ENABLE_VSCODE, "value": "1"}]);
        assert_eq!(
            serde_json::to_value(slim.spec).unwrap(),
            json!({
                "containers": [{"name": "c", "image": "i", "env": editor}],
                "initContainers": [{"name": "n", "image": "j"}], "nodeName": "n1", "hostname": "h",
            })
        );
        assert_eq!(slim.metadata.managed_fields, None);
        assert_eq!(slim.metadata.owner_references, worker("w").metadata.owner_references);
        assert_eq!(slim.status, worker("w").status);
    }

    #[tokio::test]
    async fn a_pod_that_an_operator_makes_wakes_its_action() {
        let feed = feed();
        let mut root = TaskAction::new("r-a0", TaskActionSpec::default());
        root.metadata.namespace = Some("ns".into());
        (root.spec.run_name, root.spec.action_name) = ("r".into(), "r".into());
        feed.memory.observe(root);
        let mut sink = Pods { feed: feed.clone(), listed: HashSet::new() };
        sink.seen(worker("w"), false);
        assert_eq!(feed.queue.next().await, ActionKey::new("ns", "r-a0"));
        assert_eq!(feed.queue.depth(), 0, "nobody else is woken");
    }

    #[tokio::test]
    async fn events_go_with_their_pod_however_its_end_is_seen() {
        let feed = feed();
        let mut sink = Pods { feed: feed.clone(), listed: HashSet::new() };
        for relisted in [false, true] {
            sink.seen(worker("w"), false);
            sink.seen(worker("other"), false);
            let at = jiff::Timestamp::UNIX_EPOCH;
            let event = ObjectEvent { message: "said".into(), created_at: at, recorded_at: at };
            feed.events.insert(("Pod".into(), "ns".into(), "w".into()), "1".into(), event.clone());
            feed.events.insert(("Pod".into(), "ns".into(), "other".into()), "2".into(), event);
            if relisted {
                sink.restarted();
                sink.seen(worker("other"), true);
                sink.listed();
            } else {
                sink.gone(worker("w"));
            }
            assert!(feed.pods.get("ns", "w").is_none() && feed.pods.get("ns", "other").is_some());
            assert_eq!(feed.events.since("Pod", "ns", "w", None, None), []);
            assert_eq!(feed.events.since("Pod", "ns", "other", None, None).len(), 1);
            assert!(feed.pods.read().by_action.values().all(|places| places.len() == 1));
        }
    }
}
