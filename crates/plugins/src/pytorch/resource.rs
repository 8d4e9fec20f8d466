//! `PyTorchJob` of `kubeflow.org/v1`.

use serde::{Deserialize, Serialize};

use crate::custom_resource;
use crate::kubeflow::resource::{JobStatus, ReplicaSpecs, RunPolicy};
use crate::resource::OtherFields;

custom_resource! {
    /// Training with PyTorch.
    PyTorchJob(PyTorchJobSpec, JobStatus), "kubeflow.org", "v1", "pytorchjobs"
}

/// What is trained, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PyTorchJobSpec {
    /// How the number of workers may change while the job runs; only elastic jobs have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elastic_policy: Option<ElasticPolicy>,
    /// `Master` and `Worker`.
    #[serde(rename = "pytorchReplicaSpecs")]
    pub replica_specs: ReplicaSpecs,
    /// How long it may run, and what remains.
    pub run_policy: RunPolicy,
    /// The rest.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// How the number of workers may change while a job runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ElasticPolicy {
    /// Fewest workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Most workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    /// How workers find each other: `c10d`, `etcd`, `etcd-v2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdzv_backend: Option<String>,
    /// Processes per worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_proc_per_node: Option<i32>,
    /// How often the group of workers starts again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_restarts: Option<i32>,
    /// The rest.
    #[serde(flatten)]
    pub other: OtherFields,
}
