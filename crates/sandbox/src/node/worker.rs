//! One pod on this node, from its binding to its end.

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

use super::container::{Assignment, CONTAINER_MARK, Report};
use super::events::{Speaker, Tone};
use super::life::{Life, Role, State};
use super::places::PodDir;
use super::status::{self, Verdict};
use super::{Shared, guardian, lost, retry};

/// Seconds that a pod gets to stop, where it does not say.
const GRACE: i64 = 30;
/// So often a status is written again when others wrote to the pod at the same time.
const CONFLICTS: usize = 10;

/// The newest state of a pod; it closes when the object is gone.
pub(crate) type Feed = watch::Receiver<Arc<Pod>>;

struct Worker {
    shared: Arc<Shared>,
    api: Api<Pod>,
    pod: Arc<Pod>,
    dir: PodDir,
    volumes: Arc<OnceCell<()>>,
    life: Life,
    verdict: Option<Verdict>,
    /// What was written last.
    told: PodStatus,
    /// All containers that somebody is at work on. They end with this value.
    tasks: JoinSet<()>,
    stops: HashMap<usize, watch::Sender<Option<Instant>>>,
    reporter: mpsc::UnboundedSender<(usize, Report)>,
}

/// What wakes a worker.
enum Wake {
    Report(usize, Report),
    Changed(Arc<Pod>),
    Gone,
    Time,
}

/// Serves a pod until its object is gone.
pub(crate) async fn serve(shared: Arc<Shared>, mut feed: Feed) {
    let pod = feed.borrow_and_update().clone();
    let uid = pod.uid().unwrap_or_default();
    let dir = match PodDir::new(&shared.dir, &uid) {
        Ok(dir) => dir,
        Err(error) => return tracing::error!(%error, %uid, "a pod cannot have its directory"),
    };
    let api = Api::namespaced(shared.client.clone(), &pod.namespace().unwrap_or_default());
    if let Some(status) = lost::verdict(&pod, Timestamp::now()) {
        patch(&api, &pod, &status).await;
    } else if !is_terminal(&pod) {
        let (reporter, reports) = mpsc::unbounded_channel();
        let worker = Worker {
            life: Life::new(&pod, shared.options.restart_backoff),
            told: pod.status.clone().unwrap_or_default(),
            shared: shared.clone(),
            api: api.clone(),
            pod,
            dir: dir.clone(),
            volumes: Arc::default(),
            verdict: None,
            tasks: JoinSet::new(),
            stops: HashMap::new(),
            reporter,
        };
        worker.work(&mut feed, reports).await;
    }
    // It is over; a deletion may have been waiting for that, or come later.
    loop {
        let pod = feed.borrow_and_update().clone();
        if pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds != Some(0) {
            delete(&api, &pod).await;
        }
        if feed.changed().await.is_err() {
            break;
        }
    }
    shared.logs.forget(&uid);
    // A pod can have many files.
    let cleaned = tokio::task::spawn_blocking(move || {
        guardian::kill_marked(&format!("{CONTAINER_MARK}={uid}/"));
        dir.remove();
    });
    let _ = cleaned.await;
}

impl Worker {
    /// Until nothing runs and nothing will, or the object is gone.
    async fn work(mut self, feed: &mut Feed, mut reports: mpsc::UnboundedReceiver<(usize, Report)>) {
        loop {
            let now = Timestamp::now();
            let deadline = self.judge(now);
            for index in self.life.turn(now) {
                self.back_off_pulling(index);
            }
            let plan = self.life.plan(now);
            for index in plan.stop {
                self.stop(index);
            }
            for index in plan.start {
                self.start(index);
            }
            if plan.finished {
                self.life.end();
            }
            self.tell(now).await;
            if plan.finished {
                return;
            }
            let wake = [plan.wake, deadline].into_iter().flatten().min();
            let wake = wake.map(|at| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default());
            let woken = tokio::select! {
                biased;
                Some((index, report)) = reports.recv() => Wake::Report(index, report),
                changed = feed.changed() => match changed {
                    Ok(()) => Wake::Changed(feed.borrow_and_update().clone()),
                    Err(_) => Wake::Gone,
                },
                () = tokio::time::sleep(wake.unwrap_or_default()), if wake.is_some() => Wake::Time,
            };
            match woken {
                Wake::Report(index, report) => self.hear(index, report),
                Wake::Changed(pod) => self.pod = pod,
                // Deleted by force: its processes go with the tasks.
                Wake::Gone => return self.tasks.shutdown().await,
                Wake::Time => {}
            }
        }
    }

    /// Whether the pod as a whole must end; tells until when it may run.
    fn judge(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.pod.metadata.deletion_timestamp.is_some() {
            if !self.life.ending {
                self.life.end();
            }
            // A deletion in progress may have been hastened.
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
        let start = self.told.start_time.as_ref().map_or(now, |time| time.0);
        let deadline = start.checked_add(SignedDuration::from_secs(seconds)).ok()?;
        if deadline > now {
            return Some(deadline);
        }
        if !self.life.ending {
            let message = "Pod was active on the node longer than the specified deadline".to_owned();
            self.note(None, (Tone::Normal, "DeadlineExceeded"), message.clone());
            self.verdict = Some(Verdict { reason: "DeadlineExceeded".to_owned(), message });
            self.life.end();
        }
        None
    }

    fn kill_at(&self) -> Instant {
        let metadata = &self.pod.metadata;
        let own = self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let asked = metadata.deletion_timestamp.as_ref().and(metadata.deletion_grace_period_seconds);
        let seconds = u64::try_from(asked.or(own).unwrap_or(GRACE)).unwrap_or(0);
        Instant::now() + Duration::from_secs(seconds)
    }

    fn start(&mut self, index: usize) {
        let Some((container, field)) = self.container(index) else { return };
        let slot = &mut self.life.slots[index];
        slot.busy = true;
        slot.stopping = false;
        let (stop, stopped) = watch::channel(None);
        self.stops.insert(index, stop);
        let assignment = Assignment {
            shared: self.shared.clone(),
            pod: self.pod.clone(),
            dir: self.dir.clone(),
            volumes: self.volumes.clone(),
            container,
            field,
            life: slot.lives,
            stop: stopped,
        };
        let reporter = self.reporter.clone();
        self.tasks.spawn(assignment.run(move |report| {
            // Nobody listens when the worker is gone, and then the task is too.
            let _ = reporter.send((index, report));
        }));
    }

    fn stop(&mut self, index: usize) {
        let kill_at = self.kill_at();
        if let Some(stop) = self.stops.get(&index) {
            stop.send_replace(Some(kill_at));
        }
        let slot = &mut self.life.slots[index];
        slot.stopping = true;
        let (name, runs) = (slot.name.clone(), matches!(slot.state, State::Running { .. }));
        if runs {
            let field = self.container(index).map(|(_, field)| field);
            self.note(field, (Tone::Normal, "Killing"), format!("Stopping container {name}"));
        }
    }

    fn hear(&mut self, index: usize, report: Report) {
        while self.tasks.try_join_next().is_some() {}
        match report {
            Report::HeldUp { waiting, then } => self.life.held_up(index, waiting, then, Timestamp::now()),
            Report::Created => self.life.slots[index].created(),
            Report::Runs { since, id } => self.life.slots[index].runs(since, id),
            Report::Ended(ended) => {
                self.life.ended(index, ended);
                let slot = &self.life.slots[index];
                if matches!(slot.state, State::Waiting(_)) {
                    let message =
                        format!("Back-off restarting failed container {} in pod {}", slot.name, self.life.pod);
                    let field = self.container(index).map(|(_, field)| field);
                    self.note(field, (Tone::Warning, "BackOff"), message);
                }
            }
        }
    }

    fn back_off_pulling(&self, index: usize) {
        let Some((container, field)) = self.container(index) else { return };
        let image = container.image.unwrap_or_default();
        self.note(Some(field.clone()), (Tone::Normal, "BackOff"), format!("Back-off pulling image {image:?}"));
        self.note(Some(field), (Tone::Warning, "Failed"), "Error: ImagePullBackOff".to_owned());
    }

    /// The container of a slot, and how events name it.
    fn container(&self, index: usize) -> Option<(Container, String)> {
        let slot = self.life.slots.get(index)?;
        let spec = self.pod.spec.as_ref()?;
        let (list, all) = match slot.role {
            Role::Main => ("containers", spec.containers.as_slice()),
            Role::Init | Role::Sidecar => ("initContainers", spec.init_containers.as_deref().unwrap_or_default()),
        };
        let container = all.iter().find(|container| container.name == slot.name)?;
        Some((container.clone(), format!("spec.{list}{{{}}}", slot.name)))
    }

    fn note(&self, field: Option<String>, (tone, reason): (Tone, &'static str), message: String) {
        self.shared.recorder.note(&self.pod, field, (Speaker::Kubelet, tone, reason), message);
    }

    /// Writes the status if it changed.
    async fn tell(&mut self, now: Timestamp) {
        let status = status::status(&self.life, self.verdict.as_ref(), &self.told, now);
        if status != self.told {
            patch(&self.api, &self.pod, &status).await;
            self.told = status;
        }
    }
}

async fn patch(api: &Api<Pod>, pod: &Pod, status: &PodStatus) {
    // With the uid in it the patch cannot hit a successor of the same name.
    let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid()}, "status": status}));
    let (name, params) = (pod.name_any(), PatchParams::default());
    for _ in 0..CONFLICTS {
        match retry::until_answered(|| api.patch_status(&name, &params, &patch)).await {
            Ok(Some(_)) => return,
            Ok(None) => {}
            Err(error) => return tracing::warn!(%error, pod = %name, "the status of a pod was refused"),
        }
        // Either it is gone, or others wrote to it all the time.
        match retry::until_answered(|| api.get_metadata(&name)).await {
            Ok(Some(found)) if found.metadata.uid == pod.metadata.uid => {}
            _ => return,
        }
    }
    tracing::warn!(pod = %name, "the status of a pod is behind: others write to it all the time");
}

async fn delete(api: &Api<Pod>, pod: &Pod) {
    let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
    let params = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
    let name = pod.name_any();
    if let Err(error) = retry::until_answered(|| api.delete(&name, &params)).await {
        tracing::warn!(%error, pod = %name, "a pod that ended cannot be deleted");
    }
}

fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
