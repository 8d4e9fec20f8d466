//! Simulates scheduler, kubelet and task: binds pods, updates their status up to a scripted end, writes the files that the
//! task would have written, and finishes graceful deletions.
//!
//! A [`Script`] says what happens to a pod. It comes from a closure over the pod or from the pod's annotations.

mod documents;
mod drive;
mod script;
pub mod status;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use futures::{StreamExt, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::documents::{Document, Store};
pub use self::script::{End, Script, annotations};

/// Decides what happens to a pod. It is called once per pod, when the pod is first seen.
pub type Decide = Arc<dyn Fn(&Pod) -> Script + Send + Sync>;

/// How a [`Kubelet`] behaves.
#[derive(Clone)]
pub struct Settings {
    /// The namespace to serve; `None` means all.
    pub namespace: Option<String>,
    /// The node that pods are bound to. It need not exist as an object.
    pub node: String,
    /// What happens to each pod.
    pub decide: Decide,
    /// Where the documents of tasks are written.
    pub store: Store,
    /// How long containers take to stop after the pod was deleted.
    pub termination: Duration,
    /// Whether graceful deletions are finished. An unreachable node never finishes them.
    pub finish_deletions: bool,
    /// The clock of the node.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// One pod that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod. Two pods of one name have different UIDs.
    pub uid: String,
    /// When its containers started.
    pub at: Timestamp,
}

/// What the kubelet has done so far, for tests.
#[derive(Debug, Default)]
struct Journal {
    runs: Mutex<Vec<Run>>,
    problems: Mutex<Vec<String>>,
}

/// A running kubelet; it stops when dropped. Pods then keep their state, and another kubelet can continue with them.
#[derive(Debug)]
pub struct Kubelet {
    journal: Arc<Journal>,
    _stop: DropGuard,
}

impl Default for Settings {
    /// All namespaces, scripts from annotations, nothing written, no delays.
    fn default() -> Self {
        Self {
            namespace: None,
            node: "sim-0".to_owned(),
            decide: Arc::new(Script::from_annotations),
            store: Store::Discard,
            termination: Duration::ZERO,
            finish_deletions: true,
            now: Arc::new(Timestamp::now),
        }
    }
}

impl Settings {
    /// Serves one namespace only.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Takes scripts from a closure instead of annotations.
    #[must_use]
    pub fn decide(mut self, decide: impl Fn(&Pod) -> Script + Send + Sync + 'static) -> Self {
        self.decide = Arc::new(decide);
        self
    }

    /// Sets where the documents of tasks are written.
    #[must_use]
    pub fn store(mut self, store: Store) -> Self {
        self.store = store;
        self
    }
}

impl Journal {
    fn run(&self, pod: &Pod, at: Timestamp) {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        locked(&self.runs).push(Run { namespace, name, uid: pod.uid().unwrap_or_default(), at });
    }

    fn problem(&self, text: String) {
        tracing::warn!("{text}");
        locked(&self.problems).push(text);
    }
}

impl Kubelet {
    /// Starts serving pods in the background.
    #[must_use]
    pub fn start(client: Client, settings: Settings) -> Self {
        let journal = Arc::<Journal>::default();
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(serve(client, settings, journal.clone())));
        Self { journal, _stop: stop.drop_guard() }
    }

    /// Every pod that was started, in order.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        locked(&self.journal.runs).clone()
    }

    /// Fails if the kubelet had a problem: the API server refused a status, or a document could not be written.
    ///
    /// # Errors
    /// All problems, one per line.
    pub fn check(&self) -> Result<()> {
        let problems = locked(&self.journal.problems);
        if !problems.is_empty() {
            bail!("the kubelet had problems:\n{}", problems.join("\n"));
        }
        Ok(())
    }
}

/// Runs one tokio task per pod UID and sends it the newest state of its pod. It is level-triggered, so a late start or a
/// broken watch loses nothing.
async fn serve(client: Client, settings: Settings, journal: Arc<Journal>) {
    let pods: Api<Pod> = match &settings.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let events = watcher(pods, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let settings = Arc::new(settings);
    let mut served: HashMap<String, watch::Sender<Pod>> = HashMap::new();
    // Owned here, so that the tasks of all pods end when this function ends.
    let mut tasks = JoinSet::new();
    while let Some(event) = events.next().await {
        while tasks.try_join_next().is_some() {}
        match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                let uid = pod.uid().unwrap_or_default();
                if let Some(sender) = served.get(&uid) {
                    sender.send_replace(pod);
                    continue;
                }
                let (sender, receiver) = watch::channel(pod);
                served.insert(uid, sender);
                let (client, settings, journal) = (client.clone(), settings.clone(), journal.clone());
                tasks.spawn(async move {
                    if let Err(problem) = drive::pod(&client, &settings, &journal, receiver).await {
                        journal.problem(format!("{problem:#}"));
                    }
                });
            }
            Ok(Event::Delete(pod)) => drop(served.remove(&pod.uid().unwrap_or_default())),
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => tracing::debug!(%error, "watching pods"),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
