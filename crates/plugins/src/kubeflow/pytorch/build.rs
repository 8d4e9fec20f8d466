//! The `PyTorchJob` of a task.

use aileron_idl::flyteidl2::plugins::{self as v0, kubeflow as v1};
use aileron_machinery::pod::{PodOptions, build_pod};
use aileron_machinery::{PluginError, TaskContext};

use super::PYTORCH;
use super::resource::{ElasticPolicy, PyTorchJob, PyTorchJobSpec};
use crate::kubeflow::replica::{RoleSettings, replica_spec, role_spec, unable_to_create};
use crate::kubeflow::resource::{ReplicaSpec, ReplicaSpecs, RunPolicy};
use crate::kubeflow::run_policy::run_policy;
use crate::kubeflow::settings::{Settings, require_workers};
use aileron_machinery::OtherFields;

/// The name by which the job calls the replica that the workers meet at.
pub(super) const MASTER: &str = "Master";
/// The name by which the job calls those who do the work.
pub(super) const WORKER: &str = "Worker";

/// What the two generations of settings come to.
struct Parts {
    master: ReplicaSpec,
    worker: ReplicaSpec,
    run_policy: RunPolicy,
    elastic_policy: Option<ElasticPolicy>,
}

/// The two generations say the same about elastic jobs, in messages of their own. Zeros are handed on: here they are
/// numbers, not silence.
macro_rules! elastic_policy {
    ($message:ty) => {
        impl From<&$message> for ElasticPolicy {
            fn from(config: &$message) -> Self {
                Self {
                    min_replicas: Some(config.min_replicas),
                    max_replicas: Some(config.max_replicas),
                    rdzv_backend: Some(config.rdzv_backend.clone()),
                    n_proc_per_node: Some(config.nproc_per_node),
                    max_restarts: Some(config.max_restarts),
                    other: OtherFields::new(),
                }
            }
        }
    };
}

elastic_policy!(v0::ElasticConfig);
elastic_policy!(v1::ElasticConfig);

/// The job for an attempt. An elastic job has no master: its workers find each other by themselves.
///
/// Mirrors `BuildResource` of upstream's plugin.
pub(super) fn build(task: &TaskContext) -> Result<PyTorchJob, PluginError> {
    let parts = match Settings::of(&task.template)? {
        Settings::V0(settings) => from_v0(task, &settings)?,
        Settings::V1(settings) => from_v1(task, &settings)?,
    };
    require_workers(parts.worker.replicas)?;
    let mut replica_specs = ReplicaSpecs::from([(WORKER.to_owned(), parts.worker)]);
    if parts.elastic_policy.is_none() {
        replica_specs.insert(MASTER.to_owned(), parts.master);
    }
    // The job bears what the task wants on its pods, so that both are found by the same labels.
    let pod = build_pod(task, PodOptions::default()).map_err(|error| unable_to_create("pod spec", &error))?;
    Ok(PyTorchJob {
        metadata: pod.metadata,
        spec: PyTorchJobSpec {
            elastic_policy: parts.elastic_policy,
            replica_specs,
            run_policy: parts.run_policy,
            ..PyTorchJobSpec::default()
        },
        status: None,
    })
}

fn from_v0(task: &TaskContext, settings: &v0::DistributedPyTorchTrainingTask) -> Result<Parts, PluginError> {
    let worker =
        replica_spec(task, PYTORCH, settings.workers).map_err(|error| unable_to_create("replica spec", &error))?;
    Ok(Parts {
        master: ReplicaSpec { replicas: Some(1), ..worker.clone() },
        worker,
        run_policy: RunPolicy::default(),
        elastic_policy: settings.elastic_config.as_ref().map(Into::into),
    })
}

fn from_v1(task: &TaskContext, settings: &v1::DistributedPyTorchTrainingTask) -> Result<Parts, PluginError> {
    let master = RoleSettings::from(settings.master_replicas.as_ref()).with_replicas(1);
    let worker = RoleSettings::from(settings.worker_replicas.as_ref());
    Ok(Parts {
        master: role_spec(task, PYTORCH, &master).map_err(|error| unable_to_create("master replica spec", &error))?,
        worker: role_spec(task, PYTORCH, &worker).map_err(|error| unable_to_create("worker replica spec", &error))?,
        run_policy: run_policy(settings.run_policy.as_ref()),
        elastic_policy: settings.elastic_config.as_ref().map(Into::into),
    })
}
