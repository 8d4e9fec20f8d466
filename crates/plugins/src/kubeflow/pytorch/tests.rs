#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
use std::sync::Arc;

use aileron_machinery::testing::{pod, task};
use aileron_machinery::{ObservedPhase, Phase};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kubeflow::resource::ReplicaSpec;
use crate::testing::any_settings;

fn plugin() -> PyTorchPlugin {
    PyTorchPlugin::new(KubeflowConfig::default())
}

fn task_of(version: i32, custom: Value) -> TaskContext {
    let mut task = task("pytorch", &custom);
    Arc::make_mut(&mut task.template).task_type_version = version;
    task
}

fn build(version: i32, custom: Value) -> Result<PyTorchJob, PluginError> {
    plugin().build(&task_of(version, custom))
}

fn container_name(replica: &ReplicaSpec) -> &str {
    &replica.template.spec.as_ref().unwrap().containers[0].name
}

#[test]
fn both_generations_make_a_master_and_workers() {
    for (version, custom) in [(0, json!({"workers": 3})), (1, json!({"workerReplicas": {"replicas": 3}}))] {
        let job = build(version, custom).unwrap();
        let specs = &job.spec.replica_specs;
        assert_eq!((specs["Master"].replicas, specs["Worker"].replicas), (Some(1), Some(3)));
        assert_eq!((container_name(&specs["Master"]), container_name(&specs["Worker"])), ("pytorch", "pytorch"));
    }
}

#[test]
fn an_elastic_job_has_no_master() {
    let job = build(1, json!({"workerReplicas": {"replicas": 2}, "elasticConfig": {"maxReplicas": 4}})).unwrap();
    assert_eq!(job.spec.replica_specs.keys().collect::<Vec<_>>(), ["Worker"]);
    assert_eq!(job.spec.elastic_policy.unwrap().max_replicas, Some(4));
}

#[test]
fn a_role_may_have_an_image_resources_and_a_restart_policy_of_its_own() {
    let worker = json!({"common": {
        "replicas": 2, "image": "gpu:1", "restartPolicy": "RESTART_POLICY_ON_FAILURE",
        "resources": {"requests": [{"name": "GPU", "value": "1"}]},
    }});
    let specs = build(1, json!({"workerReplicas": worker})).unwrap().spec.replica_specs;
    let container = |role: &str| specs[role].template.spec.as_ref().unwrap().containers[0].clone();
    assert_eq!(container("Worker").image.as_deref(), Some("gpu:1"));
    assert_eq!(container("Master").image.as_deref(), Some("image:1"));
    let gpus =
        |role: &str| container(role).resources.and_then(|resources| resources.limits?.get("nvidia.com/gpu").cloned());
    assert_eq!(gpus("Worker").unwrap().0, "1");
    assert_eq!(gpus("Master"), None);
    assert_eq!(specs["Worker"].restart_policy.as_deref(), Some("OnFailure"));
    assert_eq!(specs["Master"].restart_policy.as_deref(), Some("Never"));
}

#[test]
fn a_job_without_workers_or_of_an_unknown_generation_is_refused() {
    assert!(build(0, json!({})).is_err());
    assert!(build(1, json!({"masterReplicas": {"replicas": 1}})).is_err());
    let error = build(2, json!({"workers": 1})).unwrap_err();
    assert_eq!(error.non_retryable_code(), Some("BadTaskSpecification"));
}

fn running_job() -> PyTorchJob {
    serde_json::from_value(json!({
        "metadata": {"name": "j", "namespace": "p-d", "creationTimestamp": "2009-11-10T22:50:00Z"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}},
        "status": {"startTime": "2009-11-10T22:51:00Z", "conditions": [
            {"type": "Running", "status": "True", "lastTransitionTime": "2009-11-10T22:52:00Z"}]},
    }))
    .unwrap()
}

fn phase_with(pods: &[Arc<Pod>]) -> (PhaseInfo, Option<jiff::Timestamp>) {
    let (task, prior) = (task_of(1, json!({})), ObservedPhase::default());
    let cx = PhaseContext::new(&task, &prior).with_pods(pods);
    let phase = plugin().phase(&cx, &running_job()).unwrap();
    let check_at = phase.check_at();
    (phase, check_at)
}

#[test]
fn a_failed_first_worker_fails_the_task_before_the_operator_does() {
    let failed = json!({"phase": "Failed", "message": "node is gone", "reason": "Shutdown"});
    let (phase, _) = phase_with(&[pod("j-worker-0", "pytorch", &failed)]);
    assert_eq!(phase.phase(), Phase::RetryableFailure);
    assert_eq!(phase_with(&[pod("j-worker-1", "pytorch", &failed)]).0.phase(), Phase::Running);
    assert_eq!(phase_with(&[pod("other-j-worker-0", "pytorch", &failed)]).0.phase(), Phase::Running);
}

#[test]
fn logs_are_read_from_pods_that_have_started() {
    let (running, pending) = (json!({"phase": "Running"}), json!({"phase": "Pending"}));
    let pods = [pod("j-worker-0", "pytorch", &running), pod("j-worker-1", "pytorch", &pending)];
    let context = phase_with(&pods).0.info().unwrap().log_context.clone().unwrap();
    assert_eq!(context.primary_pod_name, "j-worker-0");
    assert_eq!(context.pods.iter().map(|pod| pod.pod_name.as_str()).collect::<Vec<_>>(), ["j-worker-0"]);
    let context = phase_with(&[pod("j-worker-0", "pytorch", &pending)]).0.info().unwrap().log_context.clone().unwrap();
    assert_eq!((context.primary_pod_name.as_str(), context.pods.len()), ("", 0));
}

#[test]
fn a_first_worker_that_cannot_start_is_looked_at_again() {
    let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": "2009-11-10T22:59:59Z"});
    let pending = json!({"phase": "Pending", "conditions": [condition]});
    let due = phase_with(&[pod("j-worker-0", "pytorch", &pending)]).1.unwrap();
    assert!(due > "2009-11-10T23:00:00Z".parse().unwrap());
    assert_eq!(phase_with(&[]).1, None);
}

const KEYS: &[&str] = &[
    "workers",
    "elasticConfig",
    "workerReplicas",
    "master_replicas",
    "runPolicy",
    "replicas",
    "image",
    "resources",
    "requests",
    "name",
    "value",
    "restart_policy",
    "common",
    "clean_pod_policy",
    "max_restarts",
    "rdzv_backend",
];

proptest! {
    #[test]
    fn no_settings_make_it_panic(version in -1..3, custom in any_settings(KEYS)) {
        if let Ok(job) = build(version, custom) {
            prop_assert!(job.spec.replica_specs["Worker"].replicas > Some(0));
        }
    }
}
