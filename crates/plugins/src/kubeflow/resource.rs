//! The parts that all jobs of the training operator (`kubeflow.org/v1`) are made of.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::resource::OtherFields;

/// The groups of replicas of a job, by role (`Worker`, `Master`, ...).
pub type ReplicaSpecs = BTreeMap<String, ReplicaSpec>;

/// Pods that are all alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSpec {
    /// How many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// What each looks like.
    pub template: PodTemplateSpec,
    /// When the operator starts one again: `Always`, `OnFailure`, `Never` or `ExitCode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// The rest.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// How long a job may run, how often it is tried, and what remains of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RunPolicy {
    /// Which pods are deleted after the end: `All`, `Running` or `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clean_pod_policy: Option<String>,
    /// After how many seconds the finished job is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// How many seconds it may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// How often it is tried again before it has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// The rest.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// What the operator says about a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    /// Everything the job went through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<JobCondition>>,
    /// When the operator first took care of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// How many replicas of each role run, succeeded and failed.
    #[serde(skip_serializing_if = "is_empty")]
    pub replica_statuses: Option<OtherFields>,
    /// The rest.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// One thing a job went through.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobCondition {
    /// `Created`, `Running`, `Restarting`, `Succeeded`, `Failed` or `Suspended`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The rest.
    #[serde(flatten)]
    pub other: OtherFields,
}

impl JobCondition {
    /// The condition holds.
    pub fn holds(&self) -> bool {
        self.status == "True"
    }

    /// The condition is the end of a job.
    pub fn is_end(&self) -> bool {
        matches!(self.type_.as_str(), "Succeeded" | "Failed")
    }
}

/// The operator writes an empty map before it has counted anything.
fn is_empty(fields: &Option<OtherFields>) -> bool {
    fields.as_ref().is_none_or(BTreeMap::is_empty)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_is_kept() {
        let status = json!({
            "conditions": [{"type": "Running", "status": "True", "lastUpdateTime": "2009-11-10T22:59:30Z"}],
            "replicaStatuses": {"Worker": {"active": 1}}, "lastReconcileTime": "2009-11-10T22:59:30Z",
        });
        let read: JobStatus = serde_json::from_value(status.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), status);
        let policy = json!({"cleanPodPolicy": "All", "suspend": true, "schedulingPolicy": {"queue": "q"}});
        let read: RunPolicy = serde_json::from_value(policy.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), policy);
    }
}
