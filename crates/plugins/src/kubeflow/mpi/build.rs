//! The `MPIJob` of a task.

use aileron_idl::flyteidl2::plugins::{self as v0, kubeflow as v1};
use aileron_machinery::{PluginError, TaskContext};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::MPI;
use super::resource::{MPIJob, MPIJobSpec};
use crate::kubeflow::replica::{RoleSettings, replica_spec, role_spec, unable_to_create, working_containers};
use crate::kubeflow::resource::{ReplicaSpec, ReplicaSpecs, RunPolicy};
use crate::kubeflow::run_policy::run_policy;
use crate::kubeflow::settings::{Settings, require_workers};

/// The name by which the job calls the replica that runs `mpirun`.
pub(super) const LAUNCHER: &str = "Launcher";
/// The name by which the job calls those who do the work.
pub(super) const WORKER: &str = "Worker";

/// Where tasks of the first generation say what workers run, words separated by single blanks.
const WORKER_COMMAND_KEY: &str = "worker_spec_command";

/// What the two generations of settings come to.
struct Parts {
    launcher: ReplicaSpec,
    worker: ReplicaSpec,
    run_policy: RunPolicy,
    slots: i32,
}

/// The job for an attempt.
///
/// Mirrors `BuildResource` of upstream's plugin.
///
/// # Differs from upstream
/// Both generations of settings say how many slots a worker has, one if they say nothing. Upstream ignores the number
/// in the second generation and hands on a zero in the first.
pub(super) fn build(task: &TaskContext) -> Result<MPIJob, PluginError> {
    let parts = match Settings::of(&task.template)? {
        Settings::V0(settings) => from_v0(task, &settings)?,
        Settings::V1(settings) => from_v1(task, &settings)?,
    };
    require_workers(parts.worker.replicas)?;
    Ok(MPIJob {
        metadata: ObjectMeta::default(),
        spec: MPIJobSpec {
            slots_per_worker: Some(if parts.slots == 0 { 1 } else { parts.slots }),
            replica_specs: ReplicaSpecs::from([
                (LAUNCHER.to_owned(), parts.launcher),
                (WORKER.to_owned(), parts.worker),
            ]),
            run_policy: parts.run_policy,
            ..MPIJobSpec::default()
        },
        status: None,
    })
}

/// The launcher runs the task; the workers run what the task's configuration says, by default what their image does.
fn from_v0(task: &TaskContext, settings: &v0::DistributedMpiTrainingTask) -> Result<Parts, PluginError> {
    let launcher = replica_spec(task, MPI, settings.num_launcher_replicas.max(1))
        .map_err(|error| unable_to_create("replica spec", &error))?;
    let mut worker = ReplicaSpec { replicas: Some(settings.num_workers), ..launcher.clone() };
    let command = task.template.config.get(WORKER_COMMAND_KEY);
    let command: Option<Vec<_>> = command.map(|command| command.split(' ').map(str::to_owned).collect());
    for container in working_containers(&mut worker, MPI) {
        container.args.clone_from(&command);
        container.command = None;
    }
    Ok(Parts { launcher, worker, run_policy: RunPolicy::default(), slots: settings.slots })
}

fn from_v1(task: &TaskContext, settings: &v1::DistributedMpiTrainingTask) -> Result<Parts, PluginError> {
    let role = |spec: &'_ Option<v1::DistributedMpiTrainingReplicaSpec>, replicas: Option<i32>, part: &str| {
        let command = spec.as_ref().map_or(&[][..], |spec| &spec.command);
        let role = RoleSettings::from(spec.as_ref()).with_command(command);
        let role = replicas.map_or(role, |replicas| role.with_replicas(replicas));
        role_spec(task, MPI, &role).map_err(|error| unable_to_create(part, &error))
    };
    Ok(Parts {
        launcher: role(&settings.launcher_replicas, Some(1), "launcher replica spec")?,
        worker: role(&settings.worker_replicas, None, "worker replica spec")?,
        run_policy: run_policy(settings.run_policy.as_ref()),
        slots: settings.slots,
    })
}
