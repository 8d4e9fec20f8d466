//! The parts of a `SparkApplication` that we write and read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, EnvVar, PodDNSConfig, PodSecurityContext, PodTemplateSpec, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::custom_resource;
use crate::resource::OtherFields;

custom_resource! {
    /// A Spark application, `sparkoperator.k8s.io/v1beta2`: a driver and its executors.
    SparkApplication(SparkApplicationSpec, SparkApplicationStatus),
    "sparkoperator.k8s.io", "v1beta2", "sparkapplications"
}

/// What a Spark application is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SparkApplicationSpec {
    /// The language of the application: `Python`, `Java`, `Scala` or `R`.
    pub r#type: String,
    /// The version of Spark. The CRD requires it; the operator takes an empty one for an old one.
    pub spark_version: String,
    /// The image of driver and executors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The class that is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main_class: Option<String>,
    /// The file that is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main_application_file: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Spark's settings.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub spark_conf: BTreeMap<String, String>,
    /// Hadoop's settings.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hadoop_conf: BTreeMap<String, String>,
    /// Which scheduler places all pods together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_scheduler: Option<String>,
    /// When the operator submits again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<RestartPolicy>,
    /// Files to fetch before the start. Never ours, but upstream writes the empty object.
    pub deps: BTreeMap<String, Value>,
    /// The driver's pod.
    pub driver: SparkPodSpec,
    /// The executors' pods.
    pub executor: ExecutorSpec,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// When the operator submits an application again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RestartPolicy {
    /// `Never`, `OnFailure` or `Always`.
    pub r#type: String,
    /// How often a submission that failed is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_submission_failure_retries: Option<i32>,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// What driver and executors have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SparkPodSpec {
    /// Cores for Spark's own scheduling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<i32>,
    /// Memory in Java's writing, `500m` or `2g`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// The image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Environment of the Spark container.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Labels of the pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Where the pod may be placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Which tainted nodes the pod may run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Labels the node must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// As whom the pod talks to the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// The pod uses the node's network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_network: Option<bool>,
    /// Who places the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// As whom the pod's processes run. Operators before 2.0 do not know this field and drop it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_security_context: Option<PodSecurityContext>,
    /// How names are resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_config: Option<PodDNSConfig>,
    /// The whole pod; the fields above lie over it. Operators up to 2.0 do not know this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplateSpec>,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The executors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExecutorSpec {
    /// How many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<i32>,
    /// The pod of each.
    #[serde(flatten)]
    pub pod: SparkPodSpec,
}

/// What the operator says about an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SparkApplicationStatus {
    /// Where it stands.
    pub application_state: ApplicationState,
    /// The driver.
    pub driver_info: DriverInfo,
    /// Where each executor stands, by the name of its pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub executor_state: BTreeMap<String, String>,
    /// When the operator last submitted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_submission_attempt_time: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_time: Option<Time>,
    /// Spark's own name for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub spark_application_id: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Where an application stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ApplicationState {
    /// One of the operator's states, see [`state`]; empty for a new application.
    pub state: String,
    /// What went wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_message: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// What the operator says about the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DriverInfo {
    /// The driver's pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_name: String,
    /// Address of the driver's user interface, with or without `http://`.
    #[serde(rename = "webUIIngressAddress", skip_serializing_if = "String::is_empty")]
    pub web_ui_ingress_address: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The states of an application that decide something; in all others it runs.
pub mod state {
    /// The operator has not looked at it yet.
    pub const NEW: &str = "";
    /// Submitted to Spark.
    pub const SUBMITTED: &str = "SUBMITTED";
    /// About to be submitted; written by operators before 2.0 only.
    pub const PENDING_SUBMISSION: &str = "PENDING_SUBMISSION";
    /// The driver runs.
    pub const RUNNING: &str = "RUNNING";
    /// Ended well.
    pub const COMPLETED: &str = "COMPLETED";
    /// Ended badly.
    pub const FAILED: &str = "FAILED";
    /// Could not be submitted, and the operator has given up trying.
    pub const SUBMISSION_FAILED: &str = "SUBMISSION_FAILED";
}

/// The states of an executor without logs.
pub mod executor_state {
    /// Not started.
    pub const PENDING: &str = "PENDING";
    /// The operator cannot tell.
    pub const UNKNOWN: &str = "UNKNOWN";
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_we_do_not_know_survives_reading_and_writing() {
        let object = json!({
            "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "metadata": {"name": "a"},
            "spec": {
                "type": "Python", "sparkVersion": "3.5.0", "deps": {"jars": ["x"]}, "mode": "cluster",
                "restartPolicy": {"type": "Never", "onFailureRetries": 3},
                "driver": {"cores": 1, "javaOptions": "-X"},
                "executor": {"instances": 2, "memory": "1g", "deleteOnTermination": true},
            },
            "status": {
                "applicationState": {"state": "RUNNING", "since": 1},
                "driverInfo": {"podName": "d", "webUIPort": 4040, "webUIIngressAddress": "ui"},
                "executionAttempts": 1,
            },
        });
        let application: SparkApplication = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(application.spec.executor.pod.memory.as_deref(), Some("1g"));
        assert_eq!(application.spec.executor.instances, Some(2));
        assert_eq!(serde_json::to_value(&application).unwrap(), object);
    }
}
