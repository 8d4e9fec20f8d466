//! Programs that speak MPI, on Kubeflow's training operator.

mod build;
pub mod resource;

use aileron_machinery::{Ended, K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};

use crate::kubeflow::config::KubeflowConfig;
use crate::kubeflow::job::Job;
use crate::kubeflow::links::{PodNames, Role};
use crate::kubeflow::phase::phase_of_job;
use build::{LAUNCHER, WORKER};
use resource::MPIJob;

/// The id of the plugin, its task type, and the container that the operator looks for.
const MPI: &str = "mpi";

/// The launcher comes first: `mpirun` gathers there what the workers print.
const ROLES: [Role; 2] = [
    Role { replica_type: LAUNCHER, log_name: "launcher", pods: PodNames::Single("launcher") },
    Role { replica_type: WORKER, log_name: "", pods: PodNames::Numbered("worker") },
];

/// Runs a task as an `MPIJob`.
#[derive(Clone, Debug)]
pub struct MpiPlugin {
    config: KubeflowConfig,
}

impl MpiPlugin {
    /// The plugin under this configuration.
    pub fn new(config: KubeflowConfig) -> Self {
        Self { config }
    }
}

impl K8sPlugin for MpiPlugin {
    type Resource = MPIJob;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new(MPI, &[MPI])
    }

    fn build(&self, task: &TaskContext) -> Result<MPIJob, PluginError> {
        build::build(task)
    }

    fn phase(&self, cx: &PhaseContext<'_>, resource: &MPIJob) -> Result<PhaseInfo, PluginError> {
        phase_of_job(&job(resource), &self.config, cx, &ROLES)
    }

    fn ended(&self, resource: &MPIJob) -> Option<Ended> {
        job(resource).ended()
    }
}

fn job(resource: &MPIJob) -> Job<'_> {
    Job {
        framework: MPI,
        metadata: &resource.metadata,
        replicas: &resource.spec.replica_specs,
        status: resource.status.as_ref(),
    }
}

#[cfg(test)]
mod tests;
