//! PyTorch training, plain or elastic, on Kubeflow's training operator.

mod build;
mod phase;
pub mod resource;

use aileron_machinery::{Ended, K8sPlugin, Needs, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};

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
        Needs::of_pod(task).with_pods()
    }

    fn build(&self, task: &TaskContext) -> Result<PyTorchJob, PluginError> {
        build::build(task)
    }

    fn phase(&self, cx: &PhaseContext<'_>, resource: &PyTorchJob) -> Result<PhaseInfo, PluginError> {
        let job = job(resource);
        let phase = phase::phase(&self.config, cx, &job)?;
        Ok(phase.with_check_at(phase::check_at(&self.config, cx, &job)))
    }

    fn ended(&self, resource: &PyTorchJob) -> Option<Ended> {
        job(resource).ended()
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
