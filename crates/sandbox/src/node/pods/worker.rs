//! The worker of one pod: runs its containers and writes its status, until the pod is deleted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::sync::{OnceCell, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::container_record::Role;
use super::lifecycle::Lifecycle;
use super::lost;
use super::status::{self, PodFailure};
use crate::node::api::events::{EventType, Reporter};
use crate::node::api::retry;
use crate::node::containers::container::{CONTAINER_VARIABLE, ContainerTask, Report};
use crate::node::containers::state::RunState;
use crate::node::context::NodeContext;
use crate::node::processes::guardian;
use crate::node::storage::pod_dir::PodDir;

/// Default grace period of a pod in seconds, as in Kubernetes.
const DEFAULT_GRACE: i64 = 30;
/// How often writing a status is tried if other writers change the pod at the same time.
const MAX_ATTEMPTS: usize = 10;

/// Receives the newest version of a pod. It is closed when the pod is deleted.
pub(crate) type PodReceiver = watch::Receiver<Arc<Pod>>;

/// The worker of one pod.
struct Worker {
    node: Arc<NodeContext>,
    api: Api<Pod>,
    pod: Arc<Pod>,
    dir: PodDir,
    volumes: Arc<OnceCell<()>>,
    lifecycle: Lifecycle,
    failure: Option<PodFailure>,
    /// The status that was written last.
    written: PodStatus,
    /// The container tasks. They end with this value.
    tasks: JoinSet<()>,
    /// By the index of the container: sends the time at which the container is killed.
    stops: HashMap<usize, watch::Sender<Option<Instant>>>,
    reporter: mpsc::UnboundedSender<(usize, Report)>,
}

/// Why a worker continues.
enum Wake {
    /// A container task reports.
    Report(usize, Report),
    /// The pod object was changed.
    Changed(Arc<Pod>),
    /// The pod object was deleted.
    Deleted,
    /// A delay or a deadline has passed.
    Time,
}

/// Runs a pod until its object is deleted.
pub(crate) async fn run(node: Arc<NodeContext>, mut pods: PodReceiver) {
    let pod = pods.borrow_and_update().clone();
    let uid = pod.uid().unwrap_or_default();
    let dir = match PodDir::new(&node.dir, &uid) {
        Ok(dir) => dir,
        Err(error) => {
            return tracing::error!(%error, %uid, "a pod is not run, because its uid is not a valid name of a directory");
        }
    };
    let api = Api::namespaced(node.client.clone(), &pod.namespace().unwrap_or_default());
    if let Some(status) = lost::lost_status(&pod, Timestamp::now()) {
        write_status(&api, &pod, &status).await;
    } else if !is_terminal(&pod) {
        let (reporter, reports) = mpsc::unbounded_channel();
        let worker = Worker {
            lifecycle: Lifecycle::new(&pod, node.options.restart_backoff),
            written: pod.status.clone().unwrap_or_default(),
            node: node.clone(),
            api: api.clone(),
            pod,
            dir: dir.clone(),
            volumes: Arc::default(),
            failure: None,
            tasks: JoinSet::new(),
            stops: HashMap::new(),
            reporter,
        };
        worker.work(&mut pods, reports).await;
    }
    // All containers have terminated. If the pod is being deleted, now or later, the object can be removed.
    loop {
        let pod = pods.borrow_and_update().clone();
        if pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds != Some(0) {
            delete(&api, &pod).await;
        }
        if pods.changed().await.is_err() {
            break;
        }
    }
    node.logs.forget(&uid);
    // Removing many files blocks.
    let cleaned = tokio::task::spawn_blocking(move || {
        guardian::kill_by_variable(&format!("{CONTAINER_VARIABLE}={uid}/"));
        dir.remove();
    });
    let _ = cleaned.await;
}

impl Worker {
    /// Works until all containers have terminated for good, or the pod object is deleted.
    async fn work(mut self, pods: &mut PodReceiver, mut reports: mpsc::UnboundedReceiver<(usize, Report)>) {
        loop {
            let now = Timestamp::now();
            let deadline = self.check_end(now);
            for index in self.lifecycle.begin_due_backoffs(now) {
                self.record_pull_backoff(index);
            }
            let actions = self.lifecycle.next_actions(now);
            for index in actions.stop {
                self.stop(index);
            }
            for index in actions.start {
                self.start(index);
            }
            if actions.finished {
                self.lifecycle.end();
            }
            self.update_status(now).await;
            if actions.finished {
                return;
            }
            let wake = [actions.wake_at, deadline].into_iter().flatten().min();
            let wake = wake.map(|at| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default());
            let woken = tokio::select! {
                biased;
                Some((index, report)) = reports.recv() => Wake::Report(index, report),
                changed = pods.changed() => match changed {
                    Ok(()) => Wake::Changed(pods.borrow_and_update().clone()),
                    Err(_) => Wake::Deleted,
                },
                () = tokio::time::sleep(wake.unwrap_or_default()), if wake.is_some() => Wake::Time,
            };
            match woken {
                Wake::Report(index, report) => self.handle_report(index, report),
                Wake::Changed(pod) => self.pod = pod,
                // The pod was deleted without a grace period. The end of the tasks kills its processes.
                Wake::Deleted => return self.tasks.shutdown().await,
                Wake::Time => {}
            }
        }
    }

    /// Ends the pod if it is being deleted or its deadline has passed. Otherwise returns its deadline.
    fn check_end(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.pod.metadata.deletion_timestamp.is_some() {
            if !self.lifecycle.ending {
                self.lifecycle.end();
            }
            // A second deletion may have shortened the grace period.
            let kill_at = self.kill_at();
            for stop in self.stops.values() {
                stop.send_if_modified(|known| match known {
                    Some(at) if *at > kill_at => {
                        *at = kill_at;
                        true
                    }
                    _ => false,
                });
            }
            return None;
        }
        let seconds = self.pod.spec.as_ref()?.active_deadline_seconds?;
        let start = self.written.start_time.as_ref().map_or(now, |time| time.0);
        let deadline = start.checked_add(SignedDuration::from_secs(seconds)).ok()?;
        if deadline > now {
            return Some(deadline);
        }
        if !self.lifecycle.ending {
            let message = "Pod was active on the node longer than the specified deadline".to_owned();
            self.record(None, (EventType::Normal, "DeadlineExceeded"), message.clone());
            self.failure = Some(PodFailure { reason: "DeadlineExceeded".to_owned(), message });
            self.lifecycle.end();
        }
        None
    }

    /// When a container that stops now is killed.
    fn kill_at(&self) -> Instant {
        let metadata = &self.pod.metadata;
        let own = self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let requested = metadata.deletion_timestamp.as_ref().and(metadata.deletion_grace_period_seconds);
        let seconds = u64::try_from(requested.or(own).unwrap_or(DEFAULT_GRACE)).unwrap_or(0);
        Instant::now() + Duration::from_secs(seconds)
    }

    fn start(&mut self, index: usize) {
        let Some((container, field)) = self.container(index) else { return };
        let record = &mut self.lifecycle.containers[index];
        record.active = true;
        record.stopping = false;
        let (stop, stopped) = watch::channel(None);
        self.stops.insert(index, stop);
        let task = ContainerTask {
            node: self.node.clone(),
            pod: self.pod.clone(),
            dir: self.dir.clone(),
            volumes: self.volumes.clone(),
            container,
            field,
            restarts: record.creations,
            stop: stopped,
        };
        let reporter = self.reporter.clone();
        self.tasks.spawn(task.run(move |report| {
            // Fails only if the worker has ended, and this task ends with the worker.
            let _ = reporter.send((index, report));
        }));
    }

    fn stop(&mut self, index: usize) {
        let kill_at = self.kill_at();
        if let Some(stop) = self.stops.get(&index) {
            stop.send_replace(Some(kill_at));
        }
        let record = &mut self.lifecycle.containers[index];
        record.stopping = true;
        let (name, is_running) = (record.name.clone(), matches!(record.state, RunState::Running { .. }));
        if is_running {
            let field = self.container(index).map(|(_, field)| field);
            self.record(field, (EventType::Normal, "Killing"), format!("Stopping container {name}"));
        }
    }

    fn handle_report(&mut self, index: usize, report: Report) {
        while self.tasks.try_join_next().is_some() {}
        match report {
            Report::NotCreated { waiting, then } => {
                self.lifecycle.not_created(index, waiting, then, Timestamp::now());
            }
            Report::Created => self.lifecycle.containers[index].created(),
            Report::Started { since, id } => self.lifecycle.containers[index].started(since, id),
            Report::Terminated(termination) => {
                self.lifecycle.terminated(index, termination);
                let record = &self.lifecycle.containers[index];
                if matches!(record.state, RunState::Waiting(_)) {
                    let (name, pod) = (&record.name, &self.lifecycle.pod);
                    let message = format!("Back-off restarting failed container {name} in pod {pod}");
                    let field = self.container(index).map(|(_, field)| field);
                    self.record(field, (EventType::Warning, "BackOff"), message);
                }
            }
        }
    }

    fn record_pull_backoff(&self, index: usize) {
        let Some((container, field)) = self.container(index) else { return };
        let image = container.image.unwrap_or_default();
        self.record(Some(field.clone()), (EventType::Normal, "BackOff"), format!("Back-off pulling image {image:?}"));
        self.record(Some(field), (EventType::Warning, "Failed"), "Error: ImagePullBackOff".to_owned());
    }

    /// The container with this index, and its field path for events.
    fn container(&self, index: usize) -> Option<(Container, String)> {
        let record = self.lifecycle.containers.get(index)?;
        let spec = self.pod.spec.as_ref()?;
        let (list, all) = match record.role {
            Role::Main => ("containers", spec.containers.as_slice()),
            Role::Init | Role::Sidecar => ("initContainers", spec.init_containers.as_deref().unwrap_or_default()),
        };
        let container = all.iter().find(|container| container.name == record.name)?;
        Some((container.clone(), format!("spec.{list}{{{}}}", record.name)))
    }

    fn record(&self, field: Option<String>, (event_type, reason): (EventType, &'static str), message: String) {
        self.node.recorder.record(&self.pod, field, (Reporter::Kubelet, event_type, reason), message);
    }

    /// Writes the status if it has changed.
    async fn update_status(&mut self, now: Timestamp) {
        let status = status::status(&self.lifecycle, self.failure.as_ref(), &self.written, now);
        if status != self.written {
            write_status(&self.api, &self.pod, &status).await;
            self.written = status;
        }
    }
}

async fn write_status(api: &Api<Pod>, pod: &Pod, status: &PodStatus) {
    // The uid keeps the patch from changing another pod that has the same name.
    let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid()}, "status": status}));
    let (name, params) = (pod.name_any(), PatchParams::default());
    for _ in 0..MAX_ATTEMPTS {
        match retry::until_answered(|| api.patch_status(&name, &params, &patch)).await {
            Ok(Some(_)) => return,
            Ok(None) => {}
            Err(error) => return tracing::warn!(%error, pod = %name, "the API server refused the status of a pod"),
        }
        // A conflict: the pod was deleted, or another writer changed it at the same time.
        match retry::until_answered(|| api.get_metadata(&name)).await {
            Ok(Some(found)) if found.metadata.uid == pod.metadata.uid => {}
            _ => return,
        }
    }
    tracing::warn!(pod = %name, "the status of a pod was not written, because of conflicts with other writers");
}

async fn delete(api: &Api<Pod>, pod: &Pod) {
    let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
    let params = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
    let name = pod.name_any();
    if let Err(error) = retry::until_answered(|| api.delete(&name, &params)).await {
        tracing::warn!(%error, pod = %name, "the API server refused to delete a pod that has ended");
    }
}

fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
