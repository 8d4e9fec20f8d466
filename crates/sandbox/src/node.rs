//! A node: it schedules pods and runs them as local processes.
//!
//! A sandbox has one node, so the scheduler and the kubelet are both here. They know the cluster only through its API.
//! What a pod can expect:
//!
//! - A container is a process in its own process group, with a clean environment, in the node's directory. There is no
//!   isolation: the process can do what its user can do. Volumes are symbolic links below its working directory, whose
//!   path is in `AILERON_SANDBOX_ROOT` (see [`containers::launch`]). If the system has mount namespaces and the path is
//!   free on the host, a volume is also at the path where the pod mounts it (see [`processes::mount_view`]). Read-only
//!   mounts can be written to.
//! - An image is only a name (see [`containers::images`]). A name without a mapping means the programs of the host.
//! - Memory limits are enforced by measuring the processes (see [`processes::memory`]). Other limits are not enforced.
//!   The scheduler counts what pods request, so a pod may find no capacity.
//! - Probes, lifecycle hooks, ports and security contexts are ignored. A running container is ready.
//! - Config maps and secrets are read when a pod starts. Later changes do not reach its volumes.
//! - The log of a container is kept up to 10 MB in memory and 20 MB on disk.
//! - No process runs longer than the node (see [`processes::guardian`]).
//!
//! # Modules
//!
//! | module | content |
//! | --- | --- |
//! | `options`, `context` | settings of the node, and what all pods share |
//! | `resources` | amounts of resources: capacity of the machine, requests of pods |
//! | `api` | requests to the API server: node object, events, retries |
//! | `scheduling` | assigns pods to the node |
//! | `environment` | environment variables of containers |
//! | `storage` | directories and volumes of pods |
//! | `processes` | process groups, mount namespaces, memory limits |
//! | `containers` | one run of one container |
//! | `pods` | all containers of a pod: what to start next, and the status of the pod |

mod api;
mod containers;
mod context;
mod environment;
mod options;
mod pods;
mod processes;
mod resources;
mod scheduling;
mod storage;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aileron_apiserver::{PodLogs, PrivateDirError, create_private_dir};
use jiff::Timestamp;
use kube::Client;
use tokio::task::JoinSet;

use self::api::events::Recorder;
use self::api::registration;
use self::context::NodeContext;
pub use self::options::NodeOptions;
use self::processes::guardian::Guardian;
use self::processes::memory::MemoryLimits;
use self::processes::mount_view::MountNamespaces;
use self::scheduling::fit::SchedulableNode;
use self::scheduling::queue::Queue;
use self::storage::mounts;

/// Where programs of the host are searched if this process has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A running node. Dropping it kills all its processes.
#[derive(Debug)]
pub struct Node {
    tasks: JoinSet<()>,
    context: Arc<NodeContext>,
    /// Temporary directory, which is removed with the node.
    temporary: Option<PathBuf>,
}

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The directory of the node cannot be created.
    #[error("the directory {} of the node cannot be used; choose another one", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The directory of the node cannot be protected from other users.
    #[error(transparent)]
    Private(#[from] PrivateDirError),
    /// The guardian process cannot be started.
    #[error("failed to start /bin/sh, which ends all processes of the sandbox when the sandbox ends")]
    Guardian(#[source] io::Error),
    /// The API server refused the Node object.
    #[error("failed to register the node {name:?} at the API server")]
    Register {
        /// The name of the node.
        name: String,
        /// The answer of the API server.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Node {
    /// Registers the node and starts to run pods. `logs` are those of the API server, which reads them to answer
    /// `pods/log`.
    ///
    /// # Errors
    /// The directory cannot be used, the shell cannot be started, or the API server refuses the node.
    pub async fn start(client: Client, logs: PodLogs, options: NodeOptions) -> Result<Self, NodeError> {
        let mark = format!("{}-{}-{:x}", options.name, std::process::id(), Timestamp::now().as_nanosecond());
        let temporary =
            options.dir.as_os_str().is_empty().then(|| std::env::temp_dir().join(format!("aileron-{mark}")));
        let dir = create_directory(temporary.as_ref().unwrap_or(&options.dir))?;
        let guardian = Guardian::start(&mark).map_err(NodeError::Guardian)?;
        registration::register(&client, &options.name, &options.capacity)
            .await
            .map_err(|source| NodeError::Register { name: options.name.clone(), source: Box::new(source) })?;

        let mut tasks = JoinSet::new();
        let (recorder, recording) = Recorder::new(client.clone(), options.name.clone());
        tasks.spawn(recording);
        let memory_limits = Arc::<MemoryLimits>::default();
        tasks.spawn(memory_limits.clone().enforce());
        let node = SchedulableNode {
            labels: registration::labels(&options.name),
            name: options.name.clone(),
            allocatable: options.capacity.clone(),
        };
        let queue = Arc::<Queue>::default();
        tasks.spawn(scheduling::run(queue.clone(), node, client.clone(), recorder.clone()));
        let host_path = std::env::var("PATH").unwrap_or_else(|_| DEFAULT_PATH.to_owned());
        let guardian = Arc::new(guardian);
        let mount_namespaces = if options.namespaces { MountNamespaces::probe(&dir, &host_path).await } else { None };
        let context =
            NodeContext { client, logs, options, dir, host_path, guardian, memory_limits, recorder, mount_namespaces };
        let context = Arc::new(context);
        tasks.spawn(pods::pod_watch::run(context.clone(), queue));
        Ok(Self { tasks, context, temporary })
    }

    /// The directory with all files of the node.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.context.dir
    }

    /// Kills all processes and waits until they have ended. The pod objects are not changed.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        let guardian = self.context.guardian.clone();
        // This call blocks until a process has ended.
        let _ = tokio::task::spawn_blocking(move || guardian.finish()).await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.tasks.abort_all();
        self.context.guardian.finish();
        if let Some(dir) = self.temporary.take().filter(|dir| !mounts::is_mount_below(dir)) {
            // If this fails, the operating system cleans up temporary files some day.
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// Creates the directory of the node and returns its path without symbolic links. Only the user of this process can
/// read the files of pods, which include secrets.
fn create_directory(path: &Path) -> Result<PathBuf, NodeError> {
    create_private_dir(path, &["pods"])?;
    let create = || {
        fs::create_dir_all(path.join("pods"))?;
        fs::set_permissions(path.join("pods"), fs::Permissions::from_mode(0o700))?;
        path.canonicalize()
    };
    create().map_err(|source| NodeError::Directory { path: path.to_owned(), source })
}
