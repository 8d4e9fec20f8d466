//! The parts of a `DaskJob` that we write and read.

use k8s_openapi::api::core::v1::{PodSpec, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

use crate::custom_resource;
use crate::resource::OtherFields;

custom_resource! {
    /// A Dask job, `kubernetes.dask.org/v1`: a cluster, and a pod that uses it and ends with the job.
    DaskJob(DaskJobSpec, DaskJobStatus), "kubernetes.dask.org", "v1", "daskjobs"
}

/// What a Dask job is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaskJobSpec {
    /// The pod that runs the task.
    pub job: JobSpec,
    /// The cluster it uses.
    pub cluster: ClusterTemplate,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The pod that runs the task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    /// The pod.
    pub spec: PodSpec,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The cluster of a job. The operator makes a `DaskCluster` of it that bears the name of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterTemplate {
    /// Labels and annotations.
    pub metadata: ObjectMeta,
    /// Its parts.
    pub spec: ClusterSpec,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The parts of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Those that compute.
    pub worker: WorkerSpec,
    /// The one that tells them what.
    pub scheduler: SchedulerSpec,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkerSpec {
    /// How many.
    pub replicas: i64,
    /// The pod of each.
    pub spec: PodSpec,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulerSpec {
    /// Its pod.
    pub spec: PodSpec,
    /// Under which address workers, the job and people reach it.
    pub service: ServiceSpec,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// What the operator says about a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaskJobStatus {
    /// Where it stands, see [`state`]; empty for a new job.
    pub job_status: String,
    /// The pod that runs the task, once there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job_runner_pod_name: String,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The states of a job that decide something; in all others it runs.
pub mod state {
    /// The operator has not looked at it yet.
    pub const NEW: &str = "";
    /// The operator has seen it.
    pub const JOB_CREATED: &str = "JobCreated";
    /// Its cluster is there.
    pub const CLUSTER_CREATED: &str = "ClusterCreated";
    /// Ended well.
    pub const SUCCESSFUL: &str = "Successful";
    /// Ended badly.
    pub const FAILED: &str = "Failed";
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_we_do_not_know_survives_reading_and_writing() {
        let object = json!({
            "apiVersion": "kubernetes.dask.org/v1", "kind": "DaskJob", "metadata": {"name": "a"},
            "spec": {
                "job": {"spec": {"containers": [{"name": "c"}]}, "metadata": {}},
                "cluster": {"metadata": {}, "status": {"phase": "x"}, "spec": {
                    "idleTimeout": 5,
                    "worker": {"replicas": 2, "spec": {"containers": []}, "new": 1},
                    "scheduler": {"service": {}, "spec": {"containers": []}, "metadata": {}},
                }},
            },
            "status": {"jobStatus": "Running", "clusterName": "a", "jobRunnerPodName": "a-runner"},
        });
        let job: DaskJob = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(job.spec.cluster.spec.worker.replicas, 2);
        assert_eq!(serde_json::to_value(&job).unwrap(), object);
    }
}
