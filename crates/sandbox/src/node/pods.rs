//! Watches pods: the scheduler hears of all, and a worker serves each that is bound here.

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

use super::places::PodDir;
use super::schedule::Queue;
use super::{Shared, worker};

/// All pods that are known, and the tasks that serve them, which end with this value.
struct Pods {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    /// By uid; those that are bound here have a feed.
    known: HashMap<String, Option<watch::Sender<Arc<Pod>>>>,
    tasks: JoinSet<()>,
}

/// Serves until it is dropped.
pub(crate) async fn serve(shared: Arc<Shared>, queue: Arc<Queue>) {
    let api: Api<Pod> = match &shared.options.namespace {
        Some(namespace) => Api::namespaced(shared.client.clone(), namespace),
        None => Api::all(shared.client.clone()),
    };
    let events = watcher(api, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut pods = Pods { shared, queue, known: HashMap::new(), tasks: JoinSet::new() };
    let mut listed = HashSet::new();
    // Looked up before any pod of this life can have files; some went while there was no node.
    let mut earlier = with_files(&pods.shared.dir);
    while let Some(event) = events.next().await {
        while pods.tasks.try_join_next().is_some() {}
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                listed.insert(pod.uid().unwrap_or_default());
                pods.see(pod);
            }
            // What is not in the list went while nobody was watching.
            Ok(Event::InitDone) => {
                let gone: Vec<_> = pods.known.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| pods.forget(uid));
                let listed = std::mem::take(&mut listed);
                let orphans = std::mem::take(&mut earlier).into_iter().filter(|uid| !listed.contains(uid));
                let orphans: Vec<_> = orphans.filter_map(|uid| PodDir::new(&pods.shared.dir, &uid).ok()).collect();
                if !orphans.is_empty() {
                    tokio::task::spawn_blocking(move || orphans.into_iter().for_each(PodDir::remove));
                }
            }
            Ok(Event::Apply(pod)) => pods.see(pod),
            Ok(Event::Delete(pod)) => pods.forget(&pod.uid().unwrap_or_default()),
            Err(error) => tracing::debug!(%error, "watching pods"),
        }
    }
}

impl Pods {
    fn see(&mut self, pod: Pod) {
        let pod = Arc::new(pod);
        let node = &self.shared.options.name;
        self.queue.see(&pod, node);
        let is_here = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(node);
        let feed = self.known.entry(pod.uid().unwrap_or_default()).or_default();
        match feed {
            Some(feed) => drop(feed.send_replace(pod)),
            None if is_here => {
                let (sender, receiver) = watch::channel(pod);
                *feed = Some(sender);
                self.tasks.spawn(worker::serve(self.shared.clone(), receiver));
            }
            None => {}
        }
    }

    /// The feed closes, and the worker comes to its end.
    fn forget(&mut self, uid: &str) {
        self.queue.forget(uid);
        self.known.remove(uid);
    }
}

/// The pods that have files here.
fn with_files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("pods")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
