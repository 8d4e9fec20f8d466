//! TensorFlow training on Kubeflow's training operator.

mod build;
pub mod resource;

use aileron_machinery::{Ended, K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};

use crate::kubeflow::config::KubeflowConfig;
use crate::kubeflow::job::Job;
use crate::kubeflow::links::{PodNames, Role};
use crate::kubeflow::phase::phase_of_job;
use build::{CHIEF, EVALUATOR, PARAMETER_SERVER, WORKER};
use resource::TFJob;

/// The id of the plugin, its task type, and the container that the operator looks for.
const TENSORFLOW: &str = "tensorflow";

const ROLES: [Role; 4] = [
    Role { replica_type: WORKER, log_name: "", pods: PodNames::Numbered("worker") },
    Role { replica_type: PARAMETER_SERVER, log_name: "", pods: PodNames::Numbered("ps") },
    Role { replica_type: CHIEF, log_name: "", pods: PodNames::First("chief") },
    Role { replica_type: EVALUATOR, log_name: "", pods: PodNames::First("evaluator") },
];

/// Runs a task as a `TFJob`.
#[derive(Clone, Debug)]
pub struct TensorFlowPlugin {
    config: KubeflowConfig,
}

impl TensorFlowPlugin {
    /// The plugin under this configuration.
    pub fn new(config: KubeflowConfig) -> Self {
        Self { config }
    }
}

impl K8sPlugin for TensorFlowPlugin {
    type Resource = TFJob;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new(TENSORFLOW, &[TENSORFLOW])
    }

    fn build(&self, task: &TaskContext) -> Result<TFJob, PluginError> {
        build::build(task)
    }

    fn phase(&self, cx: &PhaseContext<'_>, resource: &TFJob) -> Result<PhaseInfo, PluginError> {
        phase_of_job(&job(resource), &self.config, cx, &ROLES)
    }

    fn ended(&self, resource: &TFJob) -> Option<Ended> {
        job(resource).ended()
    }
}

fn job(resource: &TFJob) -> Job<'_> {
    Job {
        framework: TENSORFLOW,
        metadata: &resource.metadata,
        replicas: &resource.spec.replica_specs,
        status: resource.status.as_ref(),
    }
}

#[cfg(test)]
mod tests;
