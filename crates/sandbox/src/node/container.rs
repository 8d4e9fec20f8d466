//! One life of one container, from its image to its exit code.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use aileron_kubekit::quantity::Quantity;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use rustix::process::Signal;
use tokio::sync::{OnceCell, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::environment::{self, ConfigError, Facts};
use super::events::{Speaker, Tone};
use super::guardian::{Group, MARK};
use super::images::{Image, PullError};
use super::life::{Ended, Waiting};
use super::output::{self, Output};
use super::places::{PlaceError, PodDir};
use super::process::Launch;
use super::volumes::{self, VolumeError};
use super::{Shared, launch, sources};

/// The variable that marks all processes of one life of a container.
pub(crate) const CONTAINER_MARK: &str = "AILERON_SANDBOX_CONTAINER";
/// What is taken of a termination message, as much as a kubelet takes.
const MESSAGE_BYTES: u64 = 4096;
/// When all processes are dead, what they wrote is there to be read; only a process that hides keeps a log open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum Report {
    /// No container could be made; `then` is what it waits for until the next try.
    HeldUp { waiting: Waiting, then: Option<Waiting> },
    /// A container was made.
    Created,
    /// It runs.
    Runs { since: Timestamp, id: String },
    /// It ended.
    Ended(Ended),
}

/// What is to be run.
pub(crate) struct Assignment {
    pub shared: Arc<Shared>,
    pub pod: Arc<Pod>,
    pub dir: PodDir,
    /// Whether the volumes of the pod are there; the first container that needs them makes them.
    pub volumes: Arc<OnceCell<()>>,
    pub container: Container,
    /// The field path of the container, for events.
    pub field: String,
    /// How many lives it had before.
    pub life: u32,
    /// Once set, the container is to stop, and is killed at this time.
    pub stop: watch::Receiver<Option<Instant>>,
}

/// Why no container can be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Obstacle {
    #[error(transparent)]
    Pull(#[from] PullError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Place(#[from] PlaceError),
}

impl Assignment {
    /// Runs the container to its end, or to the obstacle that keeps it from starting.
    pub(crate) async fn run(mut self, tell: impl Fn(Report)) {
        let mut stop = self.stop.clone();
        let prepared = tokio::select! {
            biased;
            _ = stop.wait_for(Option::is_some) => {
                tell(Report::HeldUp { waiting: Waiting::new("ContainerCreating", ""), then: None });
                return;
            }
            prepared = self.prepare() => prepared,
        };
        let launch = match prepared {
            Ok(launch) => launch,
            Err(obstacle) => return tell(self.held_up(&obstacle)),
        };
        self.note(Tone::Normal, "Pulled", format!("Container image {:?} already present on machine", self.image()));
        tell(Report::Created);
        self.note(Tone::Normal, "Created", format!("Created container: {}", self.container.name));
        let ended = self.live(&launch, &tell).await;
        tell(Report::Ended(ended));
    }

    /// All that must be there before a process can start.
    async fn prepare(&self) -> Result<Launch, Obstacle> {
        let shared = &self.shared;
        let image = Image::pull(self.image(), &shared.options.images)?;
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let mut names = environment::referred(&self.container);
        names.extend(volumes::referred(&self.pod));
        let sources = sources::read(&shared.client, namespace, names).await?;
        let facts = Facts { pod: &self.pod, allocatable: &shared.options.capacity, sources: &sources };
        self.volumes.get_or_try_init(|| async { volumes::set_up(&self.pod, &self.dir, facts) }).await?;
        let root = self.dir.fresh_root(&self.container.name)?;
        if let Some(files) = image.files() {
            let (files, root) = (files.to_owned(), root.clone());
            let copy = tokio::task::spawn_blocking(move || launch::copy(&files, &root)).await;
            copy.unwrap_or_else(|error| Err(PlaceError::io(Path::new(""))(std::io::Error::other(error))))?;
        }
        let message = launch::message_file(&self.container, &self.dir, &root)?;
        let marks = BTreeMap::from([
            (MARK.to_owned(), shared.guardian.mark().to_owned()),
            (CONTAINER_MARK.to_owned(), self.mark()),
            ("AILERON_SANDBOX_ROOT".to_owned(), root.display().to_string()),
            ("AILERON_SANDBOX_TERMINATION_LOG".to_owned(), message.display().to_string()),
        ]);
        let base = shared.options.env.clone().into_iter().chain(marks.clone()).collect();
        let mut variables = environment::resolve(&self.container, base, facts)?;
        variables.extend(marks);
        let mounts = launch::mount(&self.container, &self.dir, &root, &variables)?;
        let surroundings = launch::Surroundings {
            image: &image,
            path: &shared.options.path,
            host_path: &shared.host_path,
            pod: self.pod.metadata.name.as_deref().unwrap_or_default(),
        };
        let mut launch = launch::assemble(&self.container, &self.dir, &root, variables, &surroundings)?;
        if let Some(namespaces) = shared.namespaces.as_ref().filter(|_| !mounts.is_empty()) {
            launch.view = namespaces.view(&self.dir.container(&self.container.name), &shared.dir, &mounts)?;
        }
        Ok(launch)
    }

    /// A process, from its start to its end.
    async fn live(&mut self, launch: &Launch, tell: &impl Fn(Report)) -> Ended {
        let uid = self.pod.metadata.uid.clone().unwrap_or_default();
        let name = self.container.name.clone();
        let logs = &self.shared.logs;
        let mut log = match Output::create(logs, &uid, &name, self.dir.log(&name, self.life)) {
            Ok(log) => log,
            Err(error) => return self.not_started(&error.to_string()),
        };
        let process = match launch.start(&self.shared.guardian) {
            Ok(process) => process,
            Err(error) => {
                log.finish();
                return self.not_started(&error.to_string());
            }
        };
        let started = Timestamp::now();
        let leader = process.group.leader();
        let id = format!("process://{}", leader.as_raw_nonzero());
        let limit = self.memory_limit().map(|bytes| self.shared.limits.watch(leader, bytes));
        let (mut child, output, group) = match process.begin().await {
            Ok(begun) => begun,
            Err(error) => {
                log.finish();
                return self.not_started(&error.to_string());
            }
        };
        tell(Report::Runs { since: started, id: id.clone() });
        self.note(Tone::Normal, "Started", format!("Started container {name}"));

        let status = {
            let filled = log.fill(output);
            tokio::pin!(filled);
            let mut is_filled = false;
            let mut kill_at: Option<Instant> = None;
            let status = loop {
                let never = Instant::now() + Duration::from_secs(3600);
                tokio::select! {
                    status = child.wait() => break status,
                    () = &mut filled, if !is_filled => is_filled = true,
                    () = sleep_until(kill_at.unwrap_or(never)), if kill_at.is_some() => {
                        group.signal(Signal::KILL);
                        kill_at = None;
                    }
                    Ok(()) = self.stop.changed() => {
                        let at = *self.stop.borrow_and_update();
                        if kill_at.is_none() && at.is_some() {
                            group.signal(Signal::TERM);
                        }
                        kill_at = at;
                    }
                }
            };
            self.kill_the_rest(&group).await;
            if !is_filled {
                // A log that somebody else holds open is no reason to wait.
                let _ = timeout(LAST_WORDS, filled).await;
            }
            status
        };
        log.finish();
        let exceeded = limit.is_some_and(|limit| limit.was_exceeded());
        let code = status.map_or(128, exit_code);
        let reason = match code {
            _ if exceeded => "OOMKilled",
            0 => "Completed",
            _ => "Error",
        };
        let message = self.message(code);
        Ended { code, reason: reason.to_owned(), message, started, finished: Timestamp::now(), id }
    }

    /// In a container all processes end with the first one.
    async fn kill_the_rest(&self, group: &Group) {
        group.signal(Signal::KILL);
        let mark = format!("{CONTAINER_MARK}={}", self.mark());
        let _ = tokio::task::spawn_blocking(move || super::guardian::kill_marked(&mark)).await;
    }

    fn not_started(&self, why: &str) -> Ended {
        let message = format!("unable to start container process: {why}");
        self.note(Tone::Warning, "Failed", format!("Error: {message}"));
        Ended {
            code: 128,
            reason: "StartError".to_owned(),
            message,
            // The runtime's zero time: it never started.
            started: Timestamp::UNIX_EPOCH,
            finished: Timestamp::now(),
            id: format!("process://{}", self.mark()),
        }
    }

    /// Tells of an obstacle as a kubelet does, to each kind in its own way.
    fn held_up(&self, obstacle: &Obstacle) -> Report {
        let message = obstacle.to_string();
        match obstacle {
            Obstacle::Pull(_) => {
                let image = self.image();
                self.note(Tone::Normal, "Pulling", format!("Pulling image {image:?}"));
                self.note(Tone::Warning, "Failed", format!("Failed to pull image {image:?}: {message}"));
                self.note(Tone::Warning, "Failed", "Error: ErrImagePull".to_owned());
                let then = format!("Back-off pulling image {image:?}: ErrImagePull: {message}");
                let then = Some(Waiting::new("ImagePullBackOff", then));
                Report::HeldUp { waiting: Waiting::new("ErrImagePull", message), then }
            }
            Obstacle::Volume(VolumeError::Config { .. } | VolumeError::NoKey { .. }) => {
                self.shared.recorder.note(
                    &self.pod,
                    None,
                    (Speaker::Kubelet, Tone::Warning, "FailedMount"),
                    message.clone(),
                );
                Report::HeldUp { waiting: Waiting::new("ContainerCreating", ""), then: None }
            }
            Obstacle::Config(_) | Obstacle::Volume(_) | Obstacle::Place(_) => {
                self.note(Tone::Warning, "Failed", format!("Error: {message}"));
                Report::HeldUp { waiting: Waiting::new("CreateContainerConfigError", message), then: None }
            }
        }
    }

    /// What the container left as its last words.
    fn message(&self, code: i32) -> String {
        let root = self.dir.root(&self.container.name);
        let file = launch::message_file(&self.container, &self.dir, &root);
        let text = file.ok().and_then(|file| read_message(&file)).unwrap_or_default();
        let from_log = self.container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        if !text.is_empty() || code == 0 || !from_log {
            return text;
        }
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        output::tail(&self.shared.logs, uid, &self.container.name)
    }

    fn image(&self) -> &str {
        self.container.image.as_deref().unwrap_or_default()
    }

    fn mark(&self) -> String {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        format!("{uid}/{}/{}", self.container.name, self.life)
    }

    fn memory_limit(&self) -> Option<u64> {
        let limit = self.container.resources.as_ref()?.limits.as_ref()?.get("memory")?;
        u64::try_from(limit.0.parse::<Quantity>().ok()?.value()).ok().filter(|bytes| *bytes > 0)
    }

    fn note(&self, tone: Tone, reason: &'static str, message: String) {
        let field = Some(self.field.clone());
        self.shared.recorder.note(&self.pod, field, (Speaker::Kubelet, tone, reason), message);
    }
}

/// A plain file only: a container must not make somebody read what it leads to.
fn read_message(path: &Path) -> Option<String> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MESSAGE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// As a shell tells it: a signal counts from 128.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(128)
}
