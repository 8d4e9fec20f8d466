//! What all pods of a node share.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use aileron_apiserver::PodLogs;
use kube::Client;

use crate::node::api::events::Recorder;
use crate::node::options::NodeOptions;
use crate::node::processes::guardian::Guardian;
use crate::node::processes::memory::MemoryLimits;
use crate::node::processes::mount_view::MountNamespaces;

/// What all pods of a node share.
pub(crate) struct NodeContext {
    pub client: Client,
    /// The logs of the API server, to which the node appends.
    pub logs: PodLogs,
    pub options: NodeOptions,
    /// The directory of the node, without symbolic links in its path.
    pub dir: PathBuf,
    /// `PATH` of this process, where programs of the host are found.
    pub host_path: String,
    pub guardian: Arc<Guardian>,
    pub memory_limits: Arc<MemoryLimits>,
    pub recorder: Recorder,
    /// How to create mount namespaces; `None` if the system does not allow them or they are switched off.
    pub mount_namespaces: Option<MountNamespaces>,
}

impl fmt::Debug for NodeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeContext").field("options", &self.options).field("dir", &self.dir).finish_non_exhaustive()
    }
}
