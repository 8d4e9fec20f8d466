//! A node: it schedules pods and runs them as local processes.
//!
//! There is one node in a sandbox, so the scheduler and the kubelet are here together; both know the cluster only by
//! its API. What a pod can expect:
//!
//! - A container is a process in a process group of its own, with a clean environment, below the node's directory.
//!   There is no isolation: it can do what its user can. Volumes are links below its working directory, which is also
//!   in `AILERON_SANDBOX_ROOT` (see [`launch`]), and at their own paths too where the system has mount namespaces and
//!   the host has nothing there (see [`namespace`]). Read-only mounts can be written to.
//! - An image is a name (see [`images`]); one that nobody mapped means the host's programs.
//! - Memory limits are enforced by looking at the processes (see [`memory`]); other limits are not, but what pods
//!   request is counted, so that a pod can find no room.
//! - Probes, lifecycle hooks, ports and security contexts are ignored: what runs is ready.
//! - Config maps and secrets are read when a pod starts; later changes do not reach its volumes.
//! - Of each container's log ten megabytes are kept in memory, and twenty at most on disk.
//! - Nothing outlives the node (see [`guardian`]).

mod affinity;
mod container;
mod environment;
mod events;
mod expand;
mod fields;
mod fit;
mod guardian;
mod images;
mod launch;
mod life;
mod lost;
mod machine;
mod memory;
mod namespace;
mod output;
mod places;
mod pods;
mod process;
mod process_table;
mod register;
mod requests;
mod retry;
mod schedule;
mod sources;
mod status;
mod volumes;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aileron_kubekit::quantity::Quantity;
use jiff::Timestamp;
use kube::Client;
use tokio::task::JoinSet;

use self::events::Recorder;
use self::fit::Room;
use self::guardian::Guardian;
use self::memory::Limits;
use self::namespace::Namespaces;
use self::schedule::Queue;
use crate::logs::PodLogs;

/// Where programs are looked for if this process does not know either.
const HOST_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// A tenth of a real cluster's: in a sandbox somebody is watching.
const RESTART_BACKOFF: Duration = Duration::from_secs(1);

/// What a node is like.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The name of the node.
    pub name: String,
    /// What it has: `cpu`, `memory`, `pods`, `ephemeral-storage`, and others such as `nvidia.com/gpu`, which need not
    /// exist. Pods can have all of it.
    pub capacity: BTreeMap<String, Quantity>,
    /// Everything lives below it. An empty path means a new directory for temporary files that goes with the node.
    pub dir: PathBuf,
    /// What images stand for: a virtual environment, whose programs come first, or a directory, whose programs come
    /// first and whose files a container finds in its root.
    pub images: BTreeMap<String, PathBuf>,
    /// Where programs are looked for before the host's own places.
    pub path: Vec<PathBuf>,
    /// Variables for all containers; a pod may set them otherwise.
    pub env: BTreeMap<String, String>,
    /// The only namespace whose pods are served; all where none is given.
    pub namespace: Option<String>,
    /// How long a container that crashed twice waits for its next start; the pause doubles with each crash. Also for
    /// images and config maps that are not there.
    pub restart_backoff: Duration,
    /// Whether containers get mount namespaces of their own where the system allows, so that volumes are at the paths
    /// where pods mount them. Otherwise they are links below the working directory only.
    pub namespaces: bool,
}

/// A node at work. It stops, and everything on it, when dropped.
#[derive(Debug)]
pub struct Node {
    tasks: JoinSet<()>,
    shared: Arc<Shared>,
    /// Removed at the end.
    temporary: Option<PathBuf>,
}

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its directory cannot be made.
    #[error("the node's directory {} cannot be used; choose another one", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The process that ends all others with this one.
    #[error("the shell /bin/sh, which sees to it that no process outlives the sandbox, cannot be started")]
    Guardian(#[source] io::Error),
    /// The API server does not take the node.
    #[error("the node {name:?} cannot be registered")]
    Register {
        /// The name of the node.
        name: String,
        /// What the server said.
        #[source]
        source: Box<kube::Error>,
    },
}

/// What all parts of a node use.
struct Shared {
    client: Client,
    logs: PodLogs,
    options: NodeOptions,
    dir: PathBuf,
    host_path: String,
    guardian: Arc<Guardian>,
    limits: Arc<Limits>,
    recorder: Recorder,
    namespaces: Option<Namespaces>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Default for NodeOptions {
    /// All that this machine has, in a directory for temporary files.
    fn default() -> Self {
        Self {
            name: "sandbox".to_owned(),
            capacity: machine::capacity(),
            dir: PathBuf::new(),
            images: BTreeMap::new(),
            path: Vec::new(),
            env: BTreeMap::new(),
            namespace: None,
            restart_backoff: RESTART_BACKOFF,
            namespaces: true,
        }
    }
}

impl Node {
    /// Registers the node and begins to serve pods. `logs` are those of the API server, which reads them for
    /// `pods/log`.
    ///
    /// # Errors
    /// If there is no directory, no shell, or no API server that takes the node.
    pub async fn start(client: Client, logs: PodLogs, options: NodeOptions) -> Result<Self, NodeError> {
        let mark = format!("{}-{}-{:x}", options.name, std::process::id(), Timestamp::now().as_nanosecond());
        let temporary =
            options.dir.as_os_str().is_empty().then(|| std::env::temp_dir().join(format!("aileron-{mark}")));
        let dir = make_directory(temporary.as_ref().unwrap_or(&options.dir))?;
        let guardian = Guardian::start(&mark).map_err(NodeError::Guardian)?;
        register::register(&client, &options.name, &options.capacity)
            .await
            .map_err(|source| NodeError::Register { name: options.name.clone(), source: Box::new(source) })?;

        let mut tasks = JoinSet::new();
        let (recorder, recording) = Recorder::new(client.clone(), options.name.clone());
        tasks.spawn(recording);
        let limits = Arc::<Limits>::default();
        tasks.spawn(limits.clone().enforce());
        let room = Room {
            labels: register::labels(&options.name),
            name: options.name.clone(),
            allocatable: options.capacity.clone(),
        };
        let queue = Arc::<Queue>::default();
        tasks.spawn(schedule::run(queue.clone(), room, client.clone(), recorder.clone()));
        let host_path = std::env::var("PATH").unwrap_or_else(|_| HOST_PATH.to_owned());
        let guardian = Arc::new(guardian);
        let namespaces = if options.namespaces { Namespaces::probe(&dir, &host_path).await } else { None };
        let shared = Shared { client, logs, options, dir, host_path, guardian, limits, recorder, namespaces };
        let shared = Arc::new(shared);
        tasks.spawn(pods::serve(shared.clone(), queue));
        Ok(Self { tasks, shared, temporary })
    }

    /// The directory that everything lives below.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Kills all processes and waits until they are gone. The pods stay as the API server knows them.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        let guardian = self.shared.guardian.clone();
        // It waits for a process.
        let _ = tokio::task::spawn_blocking(move || guardian.finish()).await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.tasks.abort_all();
        self.shared.guardian.finish();
        if let Some(dir) = self.temporary.take().filter(|dir| !namespace::is_mount_below(dir)) {
            // What is left of temporary files is the system's to remove.
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// Makes the directory with all links in its path resolved. What pods have in it, such as secrets, is for nobody else.
fn make_directory(path: &Path) -> Result<PathBuf, NodeError> {
    let make = || {
        fs::create_dir_all(path.join("pods"))?;
        fs::set_permissions(path.join("pods"), fs::Permissions::from_mode(0o700))?;
        path.canonicalize()
    };
    make().map_err(|source| NodeError::Directory { path: path.to_owned(), source })
}
