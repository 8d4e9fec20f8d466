//! The watch over the pods made for tasks.

use std::collections::HashSet;

use aileron_action::metadata::MANAGED_LABEL;
use aileron_machinery::ResourceKind;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ObjectMeta};
use kube::runtime::watcher;

use super::missed::until_missed;
use super::{PAGE, Sink, WatchContext};
use crate::caches::pods::slim;
use crate::caches::{Place, place};
use crate::cluster::listed::Malformed;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "pods";

/// Follows all pods with the label of a task.
pub async fn run(cx: WatchContext) {
    let api = Api::all(cx.client.clone());
    let (label, value) = MANAGED_LABEL;
    let selector = format!("{label}={value}");
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    loop {
        let sink = Pods { cx: cx.clone(), listed: HashSet::new() };
        tokio::select! {
            () = cx.follow(NAME, api.clone(), config.clone(), sink) => return,
            () = until_missed(NAME, &api, &selector, || cx.caches.pods.versions()) => {}
        }
    }
}

struct Pods {
    cx: WatchContext,
    listed: HashSet<Place>,
}

impl Pods {
    fn drop_pod(&self, place: &Place, metadata: &ObjectMeta) {
        let kind = ResourceKind::of::<Pod>();
        self.cx.caches.pods.remove(place);
        self.cx.caches.events.forget(&kind.kind, &place.0, &place.1);
        self.cx.objects.gone(&kind, metadata);
        self.cx.wake_owner(metadata);
    }
}

impl Sink<Pod> for Pods {
    fn seen(&mut self, pod: Pod, listed: bool) {
        let pod = slim(pod);
        if listed {
            self.listed.insert(place(&pod.metadata));
        }
        // The cache is filled before the action is woken, so that its round sees the change.
        let metadata = pod.metadata.clone();
        self.cx.caches.pods.insert(pod);
        self.cx.wake_owner(&metadata);
    }

    /// The action's round reads the pod from the API server, gets the same error and shows it in the action.
    fn malformed(&mut self, pod: Malformed, listed: bool) {
        if listed {
            self.listed.insert(place(&pod.metadata));
        }
        self.cx.caches.pods.insert_unreadable(&pod.metadata);
        self.cx.wake_owner(&pod.metadata);
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        for place in self.cx.caches.pods.places().iter().filter(|place| !listed.contains(*place)) {
            let metadata = self.cx.caches.pods.get(&place.0, &place.1).map(|pod| pod.metadata.clone());
            self.drop_pod(place, &metadata.unwrap_or_default());
        }
    }

    fn gone(&mut self, metadata: &ObjectMeta, _pod: Option<Pod>) {
        self.drop_pod(&place(metadata), metadata);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use aileron_action::pending::ObjectEvent;
    use aileron_action::{TaskAction, TaskActionSpec};
    use aileron_machinery::ActionKey;
    use serde_json::json;

    use super::*;

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
        let cx = WatchContext::for_tests();
        let mut root = TaskAction::new("r-a0", TaskActionSpec::default());
        root.metadata.namespace = Some("ns".into());
        (root.spec.run_name, root.spec.action_name) = ("r".into(), "r".into());
        cx.caches.actions.observe(root);
        let mut sink = Pods { cx: cx.clone(), listed: HashSet::new() };
        sink.seen(worker("w"), false);
        assert_eq!(cx.queue.next().await, ActionKey::new("ns", "r-a0"));
        assert_eq!(cx.queue.depth(), 0, "no other action is woken");
    }

    #[tokio::test]
    async fn a_malformed_pod_replaces_its_earlier_version_and_wakes_its_action() {
        use crate::cluster::listed::Listed;
        let odd = || {
            let mut odd = serde_json::to_value(worker("w")).unwrap();
            odd["metadata"]["resourceVersion"] = json!("8");
            odd["status"] = json!("s");
            let Listed::<Pod>::Malformed(odd) = serde_json::from_value(odd).unwrap() else { panic!("it is readable") };
            *odd
        };
        for relisted in [false, true] {
            let cx = WatchContext::for_tests();
            let mut action = TaskAction::new("r-a0", TaskActionSpec::default());
            action.metadata.namespace = Some("ns".into());
            (action.spec.run_name, action.spec.action_name) = ("r".into(), "r".into());
            cx.caches.actions.observe(action);
            let mut sink = Pods { cx: cx.clone(), listed: HashSet::new() };
            sink.seen(worker("w"), false);
            let key = cx.queue.next().await;
            assert!(!cx.queue.is_dirty(&key), "its round began after the change");
            sink.restarted();
            sink.malformed(odd(), relisted);
            if relisted {
                sink.listed();
            }
            assert!(cx.queue.is_dirty(&key), "it needs another round");
            assert!(cx.caches.pods.get("ns", "w").is_none(), "the earlier version is outdated");
            let versions = cx.caches.pods.versions();
            assert_eq!(versions.get(&("ns".into(), "w".into())), Some(&8), "the watch has not missed it");
            sink.gone(&odd().metadata, None);
            assert!(cx.caches.pods.versions().is_empty());
        }
    }

    #[tokio::test]
    async fn events_go_with_their_pod_however_its_end_is_seen() {
        let cx = WatchContext::for_tests();
        let mut sink = Pods { cx: cx.clone(), listed: HashSet::new() };
        for relisted in [false, true] {
            sink.seen(worker("w"), false);
            sink.seen(worker("other"), false);
            let at = jiff::Timestamp::UNIX_EPOCH;
            let event = ObjectEvent { message: "said".into(), created_at: at, recorded_at: at };
            cx.caches.events.insert(("Pod".into(), "ns".into(), "w".into()), "1".into(), event.clone());
            cx.caches.events.insert(("Pod".into(), "ns".into(), "other".into()), "2".into(), event);
            if relisted {
                sink.restarted();
                sink.seen(worker("other"), true);
                sink.listed();
            } else {
                sink.gone(&worker("w").metadata, None);
            }
            assert!(cx.caches.pods.get("ns", "w").is_none() && cx.caches.pods.get("ns", "other").is_some());
            assert_eq!(cx.caches.events.since("Pod", "ns", "w", None, None), []);
            assert_eq!(cx.caches.events.since("Pod", "ns", "other", None, None).len(), 1);
            assert!(cx.caches.pods.len() == 1);
        }
    }
}
