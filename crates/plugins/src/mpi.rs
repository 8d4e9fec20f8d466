//! Programs that speak MPI, on Kubeflow's training operator.

mod build;
pub mod resource;

use aileron_machinery::pod::needs_inputs;
use aileron_machinery::{K8sPlugin, Needs, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};
use jiff::Timestamp;

use crate::kubeflow::config::KubeflowConfig;
use crate::kubeflow::job::Job;
use crate::kubeflow::links::{PodNames, Role};
use crate::kubeflow::phase::Observation;
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

    fn needs(&self, task: &TaskContext) -> Needs {
        Needs { inputs: needs_inputs(task), ..Needs::default() }
    }

    fn build(&self, task: &TaskContext) -> Result<MPIJob, PluginError> {
        build::build(task)
    }

    fn phase(&self, cx: &PhaseContext<'_>, resource: &MPIJob) -> Result<PhaseInfo, PluginError> {
        Observation::of(&job(resource), &self.config, cx, &ROLES).map(|observation| observation.phase(cx))
    }

    fn due(&self, cx: &PhaseContext<'_>, resource: &MPIJob) -> Option<Timestamp> {
        job(resource).due(&self.config, cx.task)
    }

    fn is_terminal(&self, resource: &MPIJob) -> bool {
        job(resource).is_terminal()
    }

    fn completed_at(&self, resource: &MPIJob) -> Option<Timestamp> {
        job(resource).completed_at()
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
