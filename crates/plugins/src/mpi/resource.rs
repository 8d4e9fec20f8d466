//! `MPIJob` of `kubeflow.org/v1`.

use serde::{Deserialize, Serialize};

use crate::custom_resource;
use crate::kubeflow::resource::{JobStatus, ReplicaSpecs, RunPolicy};
use crate::resource::OtherFields;

custom_resource! {
    /// A program that speaks MPI.
    MPIJob(MPIJobSpec, JobStatus), "kubeflow.org", "v1", "mpijobs"
}

/// What runs, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MPIJobSpec {
    /// How many processes each worker takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots_per_worker: Option<i32>,
    /// `Launcher` and `Worker`.
    #[serde(rename = "mpiReplicaSpecs")]
    pub replica_specs: ReplicaSpecs,
    /// How long it may run, and what remains.
    pub run_policy: RunPolicy,
    /// The rest.
    #[serde(flatten)]
    pub other: OtherFields,
}
