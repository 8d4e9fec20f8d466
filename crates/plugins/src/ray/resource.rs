//! The part of KubeRay's `RayJob` that we write and read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::custom_resource;
use crate::resource::OtherFields;

custom_resource! {
    /// A Ray job together with the cluster it runs on.
    RayJob(RayJobSpec, RayJobStatus), "ray.io", "v1", "rayjobs"
}

/// What is to run, and on what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RayJobSpec {
    /// Command line of the job.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub entrypoint: String,
    /// The cluster that is made for the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ray_cluster_spec: Option<RayClusterSpec>,
    /// The runtime environment, a YAML document.
    #[serde(rename = "runtimeEnvYAML", skip_serializing_if = "String::is_empty")]
    pub runtime_env_yaml: String,
    /// Deletes the cluster when the job has ended.
    pub shutdown_after_job_finishes: bool,
    /// How long after the job the cluster is deleted.
    pub ttl_seconds_after_finished: i32,
    /// How the job reaches the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission_mode: Option<SubmissionMode>,
    /// The pod that submits the job, in `K8sJobMode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitter_pod_template: Option<PodTemplateSpec>,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// How a job reaches its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubmissionMode {
    /// A pod submits it.
    #[serde(rename = "K8sJobMode")]
    K8sJob,
    /// The operator submits it.
    #[serde(rename = "HTTPMode")]
    Http,
    /// A container in the head pod submits it.
    #[serde(rename = "SidecarMode")]
    Sidecar,
    /// A mode of another version of the operator.
    #[serde(untagged)]
    Other(String),
}

/// A Ray cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RayClusterSpec {
    /// The head node.
    pub head_group_spec: HeadGroupSpec,
    /// The groups of worker nodes.
    pub worker_group_specs: Vec<WorkerGroupSpec>,
    /// Lets Ray change the number of workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_in_tree_autoscaling: Option<bool>,
    /// How it does that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaler_options: Option<AutoscalerOptions>,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The head node of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HeadGroupSpec {
    /// Type of the head node's service.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_type: String,
    /// Makes an ingress to the dashboard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_ingress: Option<bool>,
    /// Parameters of `ray start`.
    pub ray_start_params: BTreeMap<String, String>,
    /// The pod.
    pub template: PodTemplateSpec,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Worker nodes of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkerGroupSpec {
    /// Name of the group.
    pub group_name: String,
    /// How many there are.
    pub replicas: Option<i32>,
    /// How many there are at least, with autoscaling.
    pub min_replicas: Option<i32>,
    /// How many there are at most, with autoscaling.
    pub max_replicas: Option<i32>,
    /// Parameters of `ray start`.
    pub ray_start_params: BTreeMap<String, String>,
    /// Which workers go first; the operator expects it, if only empty.
    pub scale_strategy: BTreeMap<String, Value>,
    /// The pod.
    pub template: PodTemplateSpec,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// How Ray changes the number of workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerOptions {
    /// Resources of the autoscaler's container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Image of the autoscaler's container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// After which time without work a worker goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<i32>,
    /// `Conservative`, `Default` or `Aggressive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upscaling_mode: Option<String>,
    /// Environment of the autoscaler's container.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// What the operator says about a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RayJobStatus {
    /// Ray's own id of the job.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job_id: String,
    /// Name of the cluster that was made for the job.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ray_cluster_name: String,
    /// Address of the dashboard within Kubernetes.
    #[serde(rename = "dashboardURL", skip_serializing_if = "String::is_empty")]
    pub dashboard_url: String,
    /// What Ray says about the job: `PENDING`, `RUNNING`, `SUCCEEDED` and so on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job_status: String,
    /// What the operator says about the job: `Initializing`, `Running`, `Complete` and so on. Empty until the operator
    /// has seen the job, and after it lost track of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job_deployment_status: String,
    /// Why it failed, in a word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why it failed, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the job started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn what_we_do_not_know_is_kept() {
        let object = json!({
            "apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "j"},
            "spec": {
                "suspend": false, "shutdownAfterJobFinishes": true, "ttlSecondsAfterFinished": 5,
                "submissionMode": "InteractiveMode",
                "rayClusterSpec": {"rayVersion": "2.9", "workerGroupSpecs": [],
                    "headGroupSpec": {"headService": {}, "rayStartParams": {}, "template": {}}},
            },
            "status": {"jobId": "1", "failed": 0, "rayClusterStatus": {"head": {"podIP": "10.0.0.1"}}},
        });
        let job: RayJob = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(job.spec.submission_mode, Some(SubmissionMode::Other("InteractiveMode".into())));
        assert_eq!(serde_json::to_value(&job).unwrap(), object);
    }
}
