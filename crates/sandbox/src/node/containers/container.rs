//! One run of one container, from its image to its exit code.

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

use super::images::{Image, PullError};
use super::launch::{self, HostEnvironment};
use super::output::{self, Output};
use super::state::{Termination, Waiting};
use crate::node::api::events::{EventType, Reporter};
use crate::node::context::NodeContext;
use crate::node::environment::sources::{ConfigError, ConfigSources};
use crate::node::environment::{self, PodValues};
use crate::node::processes::guardian::{self, NODE_VARIABLE, ProcessGroup};
use crate::node::processes::process::ProcessSpec;
use crate::node::storage::pod_dir::{PathError, PodDir};
use crate::node::storage::volumes::{self, VolumeError};

/// Environment variable of all processes of one run of a container. The value starts with the uid of the pod.
pub(crate) const CONTAINER_VARIABLE: &str = "AILERON_SANDBOX_CONTAINER";
/// Maximum length of a termination message, as in a kubelet.
const MAX_MESSAGE_BYTES: u64 = 4096;
/// How long the rest of the output is read after all processes of the container were killed. It is available at once,
/// but a process that was not found may keep the pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What a container task reports to the worker of the pod.
#[derive(Debug)]
pub(crate) enum Report {
    /// The container could not be created. `then` is the waiting reason during the back-off, if it differs.
    NotCreated { waiting: Waiting, then: Option<Waiting> },
    /// The container was created.
    Created,
    /// The process runs.
    Started { since: Timestamp, id: String },
    /// The container has terminated.
    Terminated(Termination),
}

/// One run of one container.
pub(crate) struct ContainerTask {
    pub node: Arc<NodeContext>,
    pub pod: Arc<Pod>,
    pub dir: PodDir,
    /// Set once the volumes of the pod exist. The first container of the pod creates them.
    pub volumes: Arc<OnceCell<()>>,
    pub container: Container,
    /// The field path of the container in events.
    pub field: String,
    /// How often the container was created before.
    pub restarts: u32,
    /// Set when the container is to stop. It is killed at this time.
    pub stop: watch::Receiver<Option<Instant>>,
}

/// Why a container cannot be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    #[error(transparent)]
    Pull(#[from] PullError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Path(#[from] PathError),
}

impl ContainerTask {
    /// Runs the container until it terminates, or reports why it cannot be created.
    pub(crate) async fn run(mut self, report: impl Fn(Report)) {
        let mut stop = self.stop.clone();
        let prepared = tokio::select! {
            biased;
            _ = stop.wait_for(Option::is_some) => {
                report(Report::NotCreated { waiting: Waiting::new("ContainerCreating", ""), then: None });
                return;
            }
            prepared = self.prepare() => prepared,
        };
        let spec = match prepared {
            Ok(spec) => spec,
            Err(error) => return report(self.not_created(&error)),
        };
        self.record(
            EventType::Normal,
            "Pulled",
            format!("Container image {:?} already present on machine", self.image()),
        );
        report(Report::Created);
        self.record(EventType::Normal, "Created", format!("Created container: {}", self.container.name));
        let termination = self.run_process(&spec, &report).await;
        report(Report::Terminated(termination));
    }

    /// Creates everything that the process needs: image, volumes, root directory, environment.
    async fn prepare(&self) -> Result<ProcessSpec, CreateError> {
        let node = &self.node;
        let image = Image::pull(self.image(), &node.options.images)?;
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let mut names = environment::referenced_sources(&self.container);
        names.extend(volumes::referenced_sources(&self.pod));
        let sources = ConfigSources::read(&node.client, namespace, names).await?;
        let values = PodValues { pod: &self.pod, allocatable: &node.options.capacity, sources: &sources };
        self.dir.create()?;
        self.volumes.get_or_try_init(|| async { volumes::set_up(&self.pod, &self.dir, values) }).await?;
        let root = self.dir.fresh_root(&self.container.name)?;
        if let Some(files) = image.files() {
            let (files, root) = (files.to_owned(), root.clone());
            let copy = tokio::task::spawn_blocking(move || launch::copy_files(&files, &root)).await;
            copy.unwrap_or_else(|error| Err(PathError::io(Path::new(""))(std::io::Error::other(error))))?;
        }
        let message = launch::message_file(&self.container, &self.dir, &root)?;
        let own_variables = BTreeMap::from([
            (NODE_VARIABLE.to_owned(), node.guardian.mark().to_owned()),
            (CONTAINER_VARIABLE.to_owned(), self.run_id()),
            ("AILERON_SANDBOX_ROOT".to_owned(), root.display().to_string()),
            ("AILERON_SANDBOX_TERMINATION_LOG".to_owned(), message.display().to_string()),
        ]);
        let base = node.options.env.clone().into_iter().chain(own_variables.clone()).collect();
        let mut variables = environment::resolve(&self.container, base, values)?;
        variables.extend(own_variables);
        let mounts = launch::link_volumes(&self.container, &self.dir, &root, &variables)?;
        let host = HostEnvironment {
            image: &image,
            path: &node.options.path,
            host_path: &node.host_path,
            pod: self.pod.metadata.name.as_deref().unwrap_or_default(),
        };
        let mut spec = launch::process_spec(&self.container, &self.dir, &root, variables, &host)?;
        if let Some(namespaces) = node.mount_namespaces.as_ref().filter(|_| !mounts.is_empty()) {
            spec.view = namespaces.view(&self.dir.container(&self.container.name)?, &node.dir, &mounts)?;
        }
        Ok(spec)
    }

    /// Runs the process from its start to its end.
    async fn run_process(&mut self, spec: &ProcessSpec, report: &impl Fn(Report)) -> Termination {
        let uid = self.pod.metadata.uid.clone().unwrap_or_default();
        let name = self.container.name.clone();
        let logs = &self.node.logs;
        let log = self.dir.log(&name, self.restarts);
        let log = log.and_then(|path| Output::create(logs, &uid, &name, path.clone()).map_err(PathError::io(&path)));
        let mut log = match log {
            Ok(log) => log,
            Err(error) => return self.not_started(&error.to_string()),
        };
        let process = match spec.start(&self.node.guardian) {
            Ok(process) => process,
            Err(error) => {
                log.finish();
                return self.not_started(&error.to_string());
            }
        };
        let started = Timestamp::now();
        let leader = process.group.leader();
        let id = format!("process://{}", leader.as_raw_nonzero());
        let limit = self.memory_limit().map(|bytes| self.node.memory_limits.add(leader, bytes));
        let (mut child, output, group) = match process.begin().await {
            Ok(begun) => begun,
            Err(error) => {
                log.finish();
                return self.not_started(&error.to_string());
            }
        };
        report(Report::Started { since: started, id: id.clone() });
        self.record(EventType::Normal, "Started", format!("Started container {name}"));

        let status = {
            let reading = log.read_all(output);
            tokio::pin!(reading);
            let mut output_ended = false;
            let mut kill_at: Option<Instant> = None;
            let status = loop {
                let never = Instant::now() + Duration::from_secs(3600);
                tokio::select! {
                    status = child.wait() => break status,
                    () = &mut reading, if !output_ended => output_ended = true,
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
            self.kill_remaining(&group).await;
            if !output_ended {
                // A timeout means that a process which was not found keeps the pipe open.
                let _ = timeout(DRAIN_TIMEOUT, reading).await;
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
        let message = self.termination_message(code);
        Termination { code, reason: reason.to_owned(), message, started, finished: Timestamp::now(), id }
    }

    /// Kills the remaining processes: in a container, all processes end with the first one.
    async fn kill_remaining(&self, group: &ProcessGroup) {
        group.signal(Signal::KILL);
        let variable = format!("{CONTAINER_VARIABLE}={}", self.run_id());
        let _ = tokio::task::spawn_blocking(move || guardian::kill_by_variable(&variable)).await;
    }

    /// The termination of a container whose process did not start.
    fn not_started(&self, why: &str) -> Termination {
        let message = format!("unable to start container process: {why}");
        self.record(EventType::Warning, "Failed", format!("Error: {message}"));
        Termination {
            code: 128,
            reason: "StartError".to_owned(),
            message,
            // A container runtime reports this time for a container that never started.
            started: Timestamp::UNIX_EPOCH,
            finished: Timestamp::now(),
            id: format!("process://{}", self.run_id()),
        }
    }

    /// Records the events of a kubelet for this error and returns the report.
    fn not_created(&self, error: &CreateError) -> Report {
        let message = error.to_string();
        match error {
            CreateError::Pull(_) => {
                let image = self.image();
                self.record(EventType::Normal, "Pulling", format!("Pulling image {image:?}"));
                self.record(EventType::Warning, "Failed", format!("Failed to pull image {image:?}: {message}"));
                self.record(EventType::Warning, "Failed", "Error: ErrImagePull".to_owned());
                let then = format!("Back-off pulling image {image:?}: ErrImagePull: {message}");
                let then = Some(Waiting::new("ImagePullBackOff", then));
                Report::NotCreated { waiting: Waiting::new("ErrImagePull", message), then }
            }
            CreateError::Volume(VolumeError::Config { .. } | VolumeError::NoKey { .. }) => {
                self.node.recorder.record(
                    &self.pod,
                    None,
                    (Reporter::Kubelet, EventType::Warning, "FailedMount"),
                    message.clone(),
                );
                Report::NotCreated { waiting: Waiting::new("ContainerCreating", ""), then: None }
            }
            CreateError::Config(_) | CreateError::Volume(_) | CreateError::Path(_) => {
                self.record(EventType::Warning, "Failed", format!("Error: {message}"));
                Report::NotCreated { waiting: Waiting::new("CreateContainerConfigError", message), then: None }
            }
        }
    }

    /// The termination message of the container.
    fn termination_message(&self, code: i32) -> String {
        let root = self.dir.root(&self.container.name);
        let file = root.and_then(|root| launch::message_file(&self.container, &self.dir, &root));
        let text = file.ok().and_then(|file| read_message(&file)).unwrap_or_default();
        let from_log = self.container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        if !text.is_empty() || code == 0 || !from_log {
            return text;
        }
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        output::tail(&self.node.logs, uid, &self.container.name)
    }

    fn image(&self) -> &str {
        self.container.image.as_deref().unwrap_or_default()
    }

    /// Identifies this run of the container.
    fn run_id(&self) -> String {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        format!("{uid}/{}/{}", self.container.name, self.restarts)
    }

    fn memory_limit(&self) -> Option<u64> {
        let limit = self.container.resources.as_ref()?.limits.as_ref()?.get("memory")?;
        u64::try_from(limit.0.parse::<Quantity>().ok()?.value()).ok().filter(|bytes| *bytes > 0)
    }

    fn record(&self, event_type: EventType, reason: &'static str, message: String) {
        let field = Some(self.field.clone());
        self.node.recorder.record(&self.pod, field, (Reporter::Kubelet, event_type, reason), message);
    }
}

/// Reads a termination message. Symbolic links are not followed: a container could point them to any file of the host.
fn read_message(path: &Path) -> Option<String> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MAX_MESSAGE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The exit code as shells report it: 128 plus the number of the signal that ended the process.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(128)
}
