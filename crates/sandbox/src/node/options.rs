//! Settings of a node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use aileron_kubekit::quantity::Quantity;

use crate::node::resources::capacity;

/// The address of the node and of all its pods: processes of this machine are reached on the loopback interface.
pub(crate) const NODE_ADDRESS: &str = "127.0.0.1";

/// Default of [`NodeOptions::restart_backoff`]. A kubelet waits 10 seconds; here a person is usually watching.
const RESTART_BACKOFF: Duration = Duration::from_secs(1);

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The name of the node.
    pub name: String,
    /// The capacity of the node, all of which pods can request: `cpu`, `memory`, `pods`, `ephemeral-storage`. Other
    /// resources, such as `nvidia.com/gpu`, need not exist on this machine.
    pub capacity: BTreeMap<String, Quantity>,
    /// The directory for all files of the node. An empty path means a new temporary directory, which is removed with
    /// the node.
    pub dir: PathBuf,
    /// What image names stand for. The path is a Python virtual environment, whose programs are found first, or
    /// another directory, whose programs are found first and whose files are copied into the root of the container.
    pub images: BTreeMap<String, PathBuf>,
    /// Directories in which programs are searched before those of the host.
    pub path: Vec<PathBuf>,
    /// Environment variables of all containers. A pod may set them to other values.
    pub env: BTreeMap<String, String>,
    /// The namespace whose pods the node runs; `None` for all namespaces.
    pub namespace: Option<String>,
    /// Delay before a container that crashed twice is started again. It doubles with each crash. It is also the delay
    /// before another attempt if an image, a config map or a secret is missing.
    pub restart_backoff: Duration,
    /// Whether containers get their own mount namespace if the system allows it, so that volumes are at the paths where
    /// pods mount them. Otherwise volumes are only links below the working directory.
    pub namespaces: bool,
}

impl Default for NodeOptions {
    /// A node with the whole capacity of this machine and a temporary directory.
    fn default() -> Self {
        Self {
            name: "sandbox".to_owned(),
            capacity: capacity::of_this_machine(),
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
