//! The watch over the pods made for tasks.

use std::collections::HashSet;
use std::sync::Arc;

use aileron_action::metadata::MANAGED_LABEL;
use aileron_machinery::ResourceKind;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ObjectMeta};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use super::missed::until_missed;
use super::{PAGE, Sink, Synced, follow, wake_owner};
use crate::caches::actions::ActionStore;
use crate::caches::events::EventCache;
use crate::caches::pods::{PodCache, slim};
use crate::caches::{Place, place};
use crate::cluster::kube::objects::KubeObjects;
use crate::queue::Queue;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "pods";

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
    pub memory: Arc<ActionStore>,
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
            self.listed.insert(place(&pod.metadata));
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
        self.drop_pod(&place(&pod.metadata), &pod.metadata);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_action::pending::ObjectEvent;
    use aileron_action::{TaskAction, TaskActionSpec};
    use aileron_machinery::ActionKey;
    use serde_json::json;

    use super::*;
    use crate::cluster::kube::Writer;

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
                "containers": [{"name": "c", "image": "i", "args": ["long"], "env": [{"name": "A", "value": "b"}, {"name": "B", "value": "1"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}], "resources": {"limits": {"cpu": "1"}}}],
                "initContainers": [{"name": "n", "image": "j", "command": ["x"]}],
                "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "t"}],
                "nodeName": "n1", "hostname": "h", "serviceAccountName": "s",
            },
            "status": {"phase": "Pending", "message": "said"},
        }))
        .unwrap()
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
            assert!(feed.pods.len() == 1);
        }
    }
}
