//! PyTorch training, plain or elastic, on Kubeflow's training operator.

mod build;
mod phase;
pub mod resource;

use aileron_machinery::pod::needs_inputs;
use aileron_machinery::{K8sPlugin, Needs, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};
use jiff::Timestamp;

use crate::kubeflow::config::KubeflowConfig;
use crate::kubeflow::job::Job;
use resource::PyTorchJob;

/// The id of the plugin, its task type, and the container that the operator looks for.
const PYTORCH: &str = "pytorch";

/// Runs a task as a `PyTorchJob`.
#[derive(Clone, Debug)]
pub struct PyTorchPlugin {
    config: KubeflowConfig,
}

impl PyTorchPlugin {
    /// The plugin under this configuration.
    pub fn new(config: KubeflowConfig) -> Self {
        Self { config }
    }
}

impl K8sPlugin for PyTorchPlugin {
    type Resource = PyTorchJob;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new(PYTORCH, &[PYTORCH])
    }

    fn needs(&self, task: &TaskContext) -> Needs {
        Needs { inputs: needs_inputs(task), pods: true }
    }

    fn build(&self, task: &TaskContext) -> Result<PyTorchJob, PluginError> {
        build::build(task)
    }

    fn phase(&self, cx: &PhaseContext<'_>, resource: &PyTorchJob) -> Result<PhaseInfo, PluginError> {
        phase::phase(&self.config, cx, &job(resource))
    }

    fn due(&self, cx: &PhaseContext<'_>, resource: &PyTorchJob) -> Option<Timestamp> {
        phase::due(&self.config, cx, &job(resource))
    }

    fn is_terminal(&self, resource: &PyTorchJob) -> bool {
        job(resource).is_terminal()
    }

    fn completed_at(&self, resource: &PyTorchJob) -> Option<Timestamp> {
        job(resource).completed_at()
    }
}

fn job(resource: &PyTorchJob) -> Job<'_> {
    Job {
        framework: PYTORCH,
        metadata: &resource.metadata,
        replicas: &resource.spec.replica_specs,
        status: resource.status.as_ref(),
    }
}

#[cfg(test)]
mod tests;
