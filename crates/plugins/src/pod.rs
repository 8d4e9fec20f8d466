//! Tasks that are one pod.

pub mod build;
mod phase;

use aileron_machinery::pod::SIDECAR_TASK_TYPE;
use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};
use k8s_openapi::api::core::v1::Pod;

const CONTAINER: &str = "container";
const PYTHON: &str = "python";
const RAW_CONTAINER: &str = "raw-container";

/// Runs a task as a pod. Registered under three ids that differ in the task types they claim; the last one registered
/// serves them all.
#[derive(Clone, Debug)]
pub struct PodPlugin {
    entry: PluginEntry,
}

impl PodPlugin {
    /// Plugin `container`.
    pub fn container() -> Self {
        Self { entry: PluginEntry::new("container", &[CONTAINER, PYTHON, RAW_CONTAINER]).as_default() }
    }

    /// Plugin `sidecar`.
    pub fn sidecar() -> Self {
        Self { entry: PluginEntry::new("sidecar", &[SIDECAR_TASK_TYPE]) }
    }

    /// Plugin `pod`, which also serves every task type that no other plugin claims.
    pub fn pod() -> Self {
        let task_types = [CONTAINER, PYTHON, RAW_CONTAINER, SIDECAR_TASK_TYPE];
        Self { entry: PluginEntry::new("pod", &task_types).as_default() }
    }
}

impl K8sPlugin for PodPlugin {
    type Resource = Pod;

    fn entry(&self) -> PluginEntry {
        self.entry.clone()
    }

    fn build(&self, task: &TaskContext) -> Result<Pod, PluginError> {
        build::build(task)
    }

    fn build_observed(&self, task: &TaskContext, observe: &mut dyn FnMut(&str, &Pod)) -> Result<Pod, PluginError> {
        build::build_observed(task, observe)
    }

    fn phase(&self, cx: &PhaseContext<'_>, resource: &Pod) -> Result<PhaseInfo, PluginError> {
        phase::phase(cx, resource)
    }
}
