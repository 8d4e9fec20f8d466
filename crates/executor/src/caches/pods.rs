//! Pods made for tasks, reduced to the fields that phases are read from.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aileron_action::metadata::ATTEMPT_LABEL;
use aileron_machinery::TaskMetadata;
use aileron_machinery::pod::vscode::ENABLE_VSCODE;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Place, Versions, place, placed_version};

/// The pods of all tasks, by namespace and name, and by action.
#[derive(Default)]
pub struct PodCache {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    pods: HashMap<Place, Arc<Pod>>,
    by_action: HashMap<ActionLabels, BTreeSet<Place>>,
    /// Resource versions of pods that cannot be decoded. They do not count as missed by the watch.
    unreadable: Versions,
}

/// Namespace, and the labels for run and action. Pods that operators create for an action have them too.
type ActionLabels = (String, String, String);

impl PodCache {
    /// The pod with this namespace and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.read().pods.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The pods with the labels of an attempt, by name, including pods that operators created.
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

    /// Whether there are no pods.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn insert(&self, pod: Pod) {
        let place = place(&pod.metadata);
        let mut inner = self.write();
        inner.forget_labels(&place);
        inner.unreadable.remove(&place);
        if let Some(key) = action_labels(&place.0, pod.metadata.labels.as_ref()) {
            inner.by_action.entry(key).or_default().insert(place.clone());
        }
        inner.pods.insert(place, Arc::new(pod));
    }

    pub(crate) fn remove(&self, place: &Place) {
        let mut inner = self.write();
        inner.forget_labels(place);
        inner.pods.remove(place);
        inner.unreadable.remove(place);
    }

    /// Stores that a pod exists that cannot be decoded. Its earlier version is dropped, because it is outdated.
    pub(crate) fn insert_unreadable(&self, metadata: &ObjectMeta) {
        let (place, version) = placed_version(metadata);
        self.remove(&place);
        self.write().unreadable.insert(place, version);
    }

    pub(crate) fn versions(&self) -> Versions {
        let inner = self.read();
        let mut versions: Versions = inner.pods.values().map(|pod| placed_version(&pod.metadata)).collect();
        versions.extend(inner.unreadable.clone());
        versions
    }

    /// Where pods are, including pods that cannot be decoded.
    pub(crate) fn places(&self) -> Vec<Place> {
        let inner = self.read();
        inner.pods.keys().chain(inner.unreadable.keys()).cloned().collect()
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
}
