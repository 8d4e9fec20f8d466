//! Watches pods: passes them to the scheduler, and starts a worker for each pod of this node.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::worker;
use crate::node::context::NodeContext;
use crate::node::scheduling::queue::Queue;
use crate::node::storage::pod_dir::PodDir;

/// All known pods and their workers. The workers end with this value.
struct Pods {
    node: Arc<NodeContext>,
    queue: Arc<Queue>,
    /// By uid: the channel to the worker of the pod; `None` if the pod is not assigned to this node.
    known: HashMap<String, Option<watch::Sender<Arc<Pod>>>>,
    workers: JoinSet<()>,
}

/// Watches pods until the future is dropped.
pub(crate) async fn run(node: Arc<NodeContext>, queue: Arc<Queue>) {
    let api: Api<Pod> = match &node.options.namespace {
        Some(namespace) => Api::namespaced(node.client.clone(), namespace),
        None => Api::all(node.client.clone()),
    };
    let events = watcher(api, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut pods = Pods { node, queue, known: HashMap::new(), workers: JoinSet::new() };
    let mut listed = HashSet::new();
    // Read before this process creates files for any pod. Some of these pods may have been deleted while no node ran.
    let mut earlier = uids_with_files(&pods.node.dir);
    while let Some(event) = events.next().await {
        while pods.workers.try_join_next().is_some() {}
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                listed.insert(pod.uid().unwrap_or_default());
                pods.update(pod);
            }
            // Pods that are not in the list were deleted while the watch was interrupted.
            Ok(Event::InitDone) => {
                let gone: Vec<_> = pods.known.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| pods.remove(uid));
                let listed = std::mem::take(&mut listed);
                let orphans = std::mem::take(&mut earlier).into_iter().filter(|uid| !listed.contains(uid));
                let orphans: Vec<_> = orphans.filter_map(|uid| PodDir::new(&pods.node.dir, &uid).ok()).collect();
                if !orphans.is_empty() {
                    tokio::task::spawn_blocking(move || orphans.into_iter().for_each(PodDir::remove));
                }
            }
            Ok(Event::Apply(pod)) => pods.update(pod),
            Ok(Event::Delete(pod)) => pods.remove(&pod.uid().unwrap_or_default()),
            Err(error) => tracing::debug!(%error, "the watch of pods failed; it is started again"),
        }
    }
}

impl Pods {
    fn update(&mut self, pod: Pod) {
        let pod = Arc::new(pod);
        let node_name = &self.node.options.name;
        self.queue.update(&pod, node_name);
        let is_assigned = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(node_name);
        let channel = self.known.entry(pod.uid().unwrap_or_default()).or_default();
        match channel {
            Some(channel) => drop(channel.send_replace(pod)),
            None if is_assigned => {
                let (sender, receiver) = watch::channel(pod);
                *channel = Some(sender);
                self.workers.spawn(worker::run(self.node.clone(), receiver));
            }
            None => {}
        }
    }

    /// Removes a deleted pod. This closes the channel, and the worker ends.
    fn remove(&mut self, uid: &str) {
        self.queue.remove(uid);
        self.known.remove(uid);
    }
}

/// The uids of the pods that have a directory on this node.
fn uids_with_files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("pods")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
