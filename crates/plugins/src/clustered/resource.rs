//! The part of a `JobSet` that we write and read.

use k8s_openapi::api::batch::v1::JobTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::custom_resource;
use crate::resource::OtherFields;

custom_resource! {
    /// Jobs that start, fail and end together.
    JobSet(JobSetSpec, JobSetStatus), "jobset.x-k8s.io", "v1alpha2", "jobsets"
}

/// What is to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSetSpec {
    /// The jobs.
    pub replicated_jobs: Vec<ReplicatedJob>,
    /// How the pods find each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// When the set has succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_policy: Option<SuccessPolicy>,
    /// What happens when a job fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// How long after its end the set is deleted.
    #[serde(rename = "ttlSecondsAfterFinished", skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Equal jobs of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicatedJob {
    /// Name within the set.
    pub name: String,
    /// How many there are.
    pub replicas: i32,
    /// The job.
    pub template: JobTemplateSpec,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// How the pods of a set find each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// Pods have host names under a service.
    #[serde(rename = "enableDNSHostnames", skip_serializing_if = "Option::is_none")]
    pub enable_dns_hostnames: Option<bool>,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// When a set has succeeded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SuccessPolicy {
    /// `All` or `Any` of its jobs.
    pub operator: String,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// What happens when a job of a set fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FailurePolicy {
    /// How often the whole set is started again.
    pub max_restarts: i32,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// What the operator says about a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSetStatus {
    /// What has happened.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How often the set was started again.
    pub restarts: i32,
    /// How the jobs are doing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicated_jobs_status: Vec<ReplicatedJobStatus>,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Something that has happened to a set, or has not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// What: `Completed`, `Failed` and so on.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in a word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// When the status last changed.
    pub last_transition_time: Option<Time>,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// How the jobs of one name are doing: how many are in which state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicatedJobStatus {
    /// Name within the set.
    pub name: String,
    /// All pods are ready or have ended.
    pub ready: i32,
    /// Ended well.
    pub succeeded: i32,
    /// Ended badly.
    pub failed: i32,
    /// Have pods.
    pub active: i32,
    /// Must not start.
    pub suspended: i32,
    /// Fields that only the operator knows.
    #[serde(flatten)]
    pub other: OtherFields,
}

impl Condition {
    /// It has happened.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn what_we_do_not_know_is_kept() {
        let object = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "s"},
            "spec": {
                "suspend": true, "network": {"subdomain": "d"}, "ttlSecondsAfterFinished": 3,
                "failurePolicy": {"maxRestarts": 1, "rules": [{"action": "FailJobSet"}]},
                "replicatedJobs": [{"name": "workers", "replicas": 1, "groupName": "g", "template": {}}],
            },
            "status": {"restarts": 1, "restartsCountTowardsMax": 1, "conditions": [{
                "type": "Failed", "status": "True", "reason": "r", "message": "m", "observedGeneration": 2,
                "lastTransitionTime": "2009-11-10T23:00:00Z",
            }]},
        });
        let set: JobSet = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&set).unwrap(), object);
    }
}
