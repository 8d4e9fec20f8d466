//! The `TFJob` of a task.

use aileron_idl::flyteidl2::plugins::{self as v0, kubeflow as v1};
use aileron_machinery::{PluginError, TaskContext};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::TENSORFLOW;
use super::resource::{TFJob, TFJobSpec};
use crate::kubeflow::replica::{RoleSettings, replica_spec, role_spec, unable_to_create};
use crate::kubeflow::resource::{ReplicaSpec, ReplicaSpecs, RunPolicy};
use crate::kubeflow::run_policy::run_policy;
use crate::kubeflow::settings::{Settings, require_workers};

/// The name by which the job calls the worker that also saves checkpoints.
pub(super) const CHIEF: &str = "Chief";
/// The name by which the job calls those who do the work.
pub(super) const WORKER: &str = "Worker";
/// The name by which the job calls those who keep the model.
pub(super) const PARAMETER_SERVER: &str = "PS";
/// The name by which the job calls those who measure.
pub(super) const EVALUATOR: &str = "Evaluator";

/// The job for an attempt. Roles without replicas are left out.
///
/// Mirrors `BuildResource` of upstream's plugin.
pub(super) fn build(task: &TaskContext) -> Result<TFJob, PluginError> {
    let (replica_specs, run_policy) = match Settings::of(&task.template)? {
        Settings::V0(settings) => (from_v0(task, &settings)?, RunPolicy::default()),
        Settings::V1(settings) => (from_v1(task, &settings)?, run_policy(settings.run_policy.as_ref())),
    };
    require_workers(replica_specs.get(WORKER).and_then(|worker| worker.replicas))?;
    let spec = TFJobSpec { replica_specs, run_policy, ..TFJobSpec::default() };
    Ok(TFJob { metadata: ObjectMeta::default(), spec, status: None })
}

fn from_v0(task: &TaskContext, settings: &v0::DistributedTensorflowTrainingTask) -> Result<ReplicaSpecs, PluginError> {
    let replica = replica_spec(task, TENSORFLOW, 0).map_err(|error| unable_to_create("replica spec", &error))?;
    let roles = [
        (CHIEF, settings.chief_replicas),
        (WORKER, settings.workers),
        (PARAMETER_SERVER, settings.ps_replicas),
        (EVALUATOR, settings.evaluator_replicas),
    ];
    let present = roles.into_iter().filter(|(_, replicas)| *replicas > 0);
    Ok(present
        .map(|(role, replicas)| (role.to_owned(), ReplicaSpec { replicas: Some(replicas), ..replica.clone() }))
        .collect())
}

fn from_v1(task: &TaskContext, settings: &v1::DistributedTensorflowTrainingTask) -> Result<ReplicaSpecs, PluginError> {
    let roles = [
        (CHIEF, &settings.chief_replicas),
        (WORKER, &settings.worker_replicas),
        (PARAMETER_SERVER, &settings.ps_replicas),
        (EVALUATOR, &settings.evaluator_replicas),
    ];
    let roles = roles.map(|(role, spec)| (role, RoleSettings::from(spec.as_ref())));
    let present = roles.into_iter().filter(|(_, settings)| settings.replicas > 0);
    present
        .map(|(role, settings)| {
            let spec =
                role_spec(task, TENSORFLOW, &settings).map_err(|error| unable_to_create("replica spec", &error))?;
            Ok((role.to_owned(), spec))
        })
        .collect()
}
