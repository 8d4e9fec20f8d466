//! `TFJob` of `kubeflow.org/v1`.

use serde::{Deserialize, Serialize};

use crate::custom_resource;
use crate::kubeflow::resource::{JobStatus, ReplicaSpecs, RunPolicy};
use crate::resource::OtherFields;

custom_resource! {
    /// Training with TensorFlow.
    TFJob(TFJobSpec, JobStatus), "kubeflow.org", "v1", "tfjobs"
}

/// What is trained, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TFJobSpec {
    /// `Chief`, `Worker`, `PS` and `Evaluator`.
    #[serde(rename = "tfReplicaSpecs")]
    pub replica_specs: ReplicaSpecs,
    /// How long it may run, and what remains.
    pub run_policy: RunPolicy,
    /// The rest.
    #[serde(flatten)]
    pub other: OtherFields,
}
