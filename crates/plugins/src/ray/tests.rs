#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::sync::Arc;

use aileron_idl::flyteidl2::core::task_log::LinkType;
use aileron_idl::flyteidl2::core::{ContainerError, ErrorDocument, container_error};
use aileron_machinery::config::{LogConfig, LogTemplate};
use aileron_machinery::{ErrorKind, ObservedPhase, Phase};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::config::{RayNodeConfig, RayNodeDefaults};
use super::resource::{RayClusterSpec, SubmissionMode};
use super::*;
use crate::fixture::{any_settings, pod, task};

fn built(config: RayConfig, custom: &Value) -> RayJob {
    RayPlugin::new(config).build(&task("ray", Some(custom))).unwrap()
}

fn cluster(job: RayJob) -> RayClusterSpec {
    job.spec.ray_cluster_spec.unwrap()
}

fn job(status: &Value) -> RayJob {
    let metadata = json!({"name": "run-a0-0", "namespace": "p-d", "creationTimestamp": "2009-11-10T22:00:00Z"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap()
}

fn phase_of(config: &RayConfig, status: &Value, pods: &[Arc<Pod>], document: Option<&ErrorDocument>) -> PhaseInfo {
    let (task, prior) = (task("ray", None), ObservedPhase::default());
    let cx = PhaseContext { task: &task, prior: &prior, pods, error_document: document };
    RayPlugin::new(config.clone()).phase(&cx, &job(status)).unwrap()
}

fn running() -> Value {
    json!({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "rayClusterName": "run-a0-0-c", "dashboardURL": "d",
        "jobId": "j1"})
}

fn head(name: &str, ready: bool) -> Arc<Pod> {
    let state = json!({"running": {}});
    let container = json!({"name": "ray-head", "image": "", "imageID": "", "ready": ready, "restartCount": 0,
        "state": state});
    pod(name, "ray-head", &json!({"phase": "Running", "containerStatuses": [container]}))
}

fn link(uri: &str) -> LogTemplate {
    LogTemplate { template_uris: vec![uri.into()], ..LogTemplate::default() }
}

#[test]
fn given_start_parameters_replace_the_configured_ones_even_if_there_are_none() {
    let node = RayNodeConfig { start_parameters: BTreeMap::from([("a".into(), "1".into())]), ip_address: "ip".into() };
    let config = RayConfig {
        defaults: RayNodeDefaults { head_node: node.clone(), worker_node: node },
        enable_usage_stats: true,
        ..RayConfig::default()
    };
    let workers = json!([{}, {"rayStartParams": {}}, {"rayStartParams": {"b": "2", "node-ip-address": "own"}}]);
    let cluster = cluster(built(config, &json!({"rayCluster": {"workerGroupSpec": workers}})));
    let of_worker = |index: usize| json!(cluster.worker_group_specs[index].ray_start_params);
    assert_eq!(of_worker(0), json!({"a": "1", "node-ip-address": "ip"}));
    assert_eq!(of_worker(1), json!({"node-ip-address": "ip"}));
    assert_eq!(of_worker(2), json!({"b": "2", "node-ip-address": "own"}));
    assert_eq!(
        json!(cluster.head_group_spec.ray_start_params),
        json!({"a": "1", "node-ip-address": "ip", "include-dashboard": "true", "dashboard-host": "0.0.0.0"})
    );
}

#[test]
fn nodes_run_ray_and_the_job_runs_the_task() {
    let job = built(
        RayConfig::default(),
        &json!({"rayCluster": {"workerGroupSpec": [
        {"groupName": "g", "replicas": 3, "minReplicas": 5, "maxReplicas": 1}]}}),
    );
    assert_eq!(job.spec.entrypoint, "run");
    assert_eq!(job.spec.submission_mode, Some(SubmissionMode::K8sJob));
    let submitter = job.spec.submitter_pod_template.clone().unwrap().spec.unwrap();
    assert_eq!(submitter.containers[0].image.as_deref(), Some("image:1"));
    let cluster = cluster(job);
    let worker = &cluster.worker_group_specs[0];
    assert_eq!((worker.replicas, worker.min_replicas, worker.max_replicas), (Some(3), Some(3), Some(3)));
    let of = |spec: &Option<PodSpec>| {
        let spec = spec.clone().unwrap();
        (spec.containers[0].name.clone(), spec.containers[0].args.clone(), spec.service_account_name)
    };
    assert_eq!(of(&cluster.head_group_spec.template.spec), ("ray-head".into(), None, Some("default".into())));
    assert_eq!(of(&worker.template.spec), ("ray-worker".into(), None, Some("default".into())));
}

#[test]
fn workers_see_their_memory() {
    let cluster = cluster(built(RayConfig::default(), &json!({"rayCluster": {"workerGroupSpec": [{}]}})));
    let env = cluster.worker_group_specs[0].template.spec.clone().unwrap().containers.remove(0).env.unwrap();
    let limits = env.into_iter().find(|variable| variable.name == "MEMORY_LIMITS").unwrap();
    assert_eq!(limits.value_from.unwrap().resource_field_ref.unwrap().resource, "limits.memory");
}

#[test]
fn a_pod_of_a_group_changes_the_pod_and_keeps_the_mark() {
    let own = json!({"metadata": {"labels": {"flyte.org/managed": "no", "l": "1"}},
        "podSpec": {"containers": [{"name": "ray-head", "image": "other"}], "priorityClassName": "high"}});
    let job = built(RayConfig::default(), &json!({"rayCluster": {"headGroupSpec": {"k8sPod": own}}}));
    let submitter = job.spec.submitter_pod_template.clone().unwrap().spec.unwrap();
    assert_eq!(submitter.containers[0].image.as_deref(), Some("other"), "versions of Ray must be the same");
    let template = cluster(job).head_group_spec.template;
    let labels = template.metadata.unwrap().labels.unwrap();
    assert_eq!((labels["flyte.org/managed"].as_str(), labels["l"].as_str()), ("true", "1"));
    assert_eq!(template.spec.unwrap().priority_class_name.as_deref(), Some("high"));
}

#[test]
fn a_task_without_a_cluster_cannot_work() {
    for custom in [None, Some(json!({})), Some(json!({"rayCluster": null})), Some(json!({"rayCluster": 1}))] {
        let error = RayPlugin::default().build(&task("ray", custom.as_ref())).unwrap_err();
        assert_eq!(error.non_retryable_code(), Some("BadTaskSpecification"), "{error}");
    }
}

#[test]
fn the_dashboard_is_linked_while_the_job_runs_and_ready_when_its_node_is() {
    let config =
        RayConfig { dashboard_url_template: Some(link("https://{{.rayClusterName}}")), ..RayConfig::default() };
    let seen = |pods: &[Arc<Pod>]| {
        let phase = phase_of(&config, &running(), pods, None);
        let link = phase.info().unwrap().logs.last().unwrap().clone();
        assert_eq!((link.uri.as_str(), link.link_type()), ("https://run-a0-0-c", LinkType::Dashboard));
        (link.ready, phase.reason().to_owned())
    };
    assert_eq!(seen(&[]), (false, "Ray dashboard is not ready".to_owned()));
    assert_eq!(seen(&[head("run-a0-0-c-head", true)]), (true, "Ray dashboard is ready".to_owned()));
    let two = [head("run-a0-0-c-head-x", true), head("run-a0-0-c-head-y", true)];
    assert_eq!(seen(&two), (true, String::new()), "nothing is said about two");
    let pending = json!({"jobDeploymentStatus": "Running", "jobStatus": "PENDING", "dashboardURL": "d"});
    assert!(phase_of(&config, &pending, &[], None).info().unwrap().logs.iter().all(|link| !link.uri.contains("-c")));
}

#[test]
fn a_task_gets_the_dynamic_links_it_asks_for() {
    let logs = LogConfig {
        dynamic_log_links: [("mine".to_owned(), link("https://x/{{.rayJobID}}"))].into(),
        ..LogConfig::default()
    };
    let plugin = RayPlugin::new(RayConfig { logs, ..RayConfig::default() });
    let mut task = task("ray", None);
    let links = |task: &TaskContext| -> Vec<String> {
        let prior = ObservedPhase::default();
        let cx = PhaseContext { task, prior: &prior, pods: &[], error_document: None };
        let phase = plugin.phase(&cx, &job(&running())).unwrap();
        phase.info().unwrap().logs.iter().map(|link| link.uri.clone()).filter(|uri| uri.contains("//x/")).collect()
    };
    assert_eq!(links(&task), [""; 0]);
    Arc::make_mut(&mut task.template).config.insert("link_type".into(), "mine".into());
    assert_eq!(links(&task), ["https://x/j1"]);
}

#[test]
fn the_task_says_whether_a_failure_can_be_retried_and_the_platform_only_if_it_does_not() {
    let failed = |reason: &str| json!({"jobDeploymentStatus": "Failed", "reason": reason, "message": "m"});
    let document = |kind| {
        let error = ContainerError { kind: i32::from(kind), ..ContainerError::default() };
        ErrorDocument { error: Some(error) }
    };
    let (recoverable, other) = (container_error::Kind::Recoverable, container_error::Kind::NonRecoverable);
    let grace = "JobDeploymentStatusTransitionGracePeriodExceeded";
    let of = |reason: &str, document: Option<&ErrorDocument>| {
        let phase = phase_of(&RayConfig::default(), &failed(reason), &[], document);
        (phase.phase(), phase.error().unwrap().kind, phase.cleanup_on_failure())
    };
    assert_eq!(of("AppFailed", None), (Phase::PermanentFailure, ErrorKind::User, false));
    assert_eq!(of(grace, None), (Phase::RetryableFailure, ErrorKind::System, true));
    assert_eq!(of(grace, Some(&document(other))), (Phase::PermanentFailure, ErrorKind::User, false));
    assert_eq!(of("AppFailed", Some(&document(recoverable))), (Phase::RetryableFailure, ErrorKind::User, false));
    // What an unreadable document is read as.
    for reason in ["AppFailed", grace] {
        assert_eq!(of(reason, Some(&ErrorDocument::default())), (Phase::PermanentFailure, ErrorKind::User, false));
    }
}

#[test]
fn the_tasks_own_word_is_asked_for_only_when_the_job_has_failed() {
    let reads = |status: &str| RayPlugin::default().reads_error_document(&job(&json!({"jobDeploymentStatus": status})));
    assert!(reads("Failed"));
    for status in ["", "Initializing", "Running", "Suspended", "Complete"] {
        assert!(!reads(status), "{status}");
    }
}

#[test]
fn a_head_node_that_cannot_start_fails_the_task_while_the_job_still_runs() {
    let waiting = json!({"phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2009-11-10T22:59:00Z"}],
        "containerStatuses": [{"name": "ray-head", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "InvalidImageName"}}}]});
    let stuck = pod("run-a0-0-c-head", "ray-head", &waiting);
    let phase = phase_of(&RayConfig::default(), &running(), std::slice::from_ref(&stuck), None);
    assert_eq!((phase.phase(), phase.cleanup_on_failure()), (Phase::PermanentFailure, true));

    let (task, prior) = (task("ray", None), ObservedPhase::default());
    let cx = PhaseContext { task: &task, prior: &prior, pods: &[stuck], error_document: None };
    assert!(RayPlugin::default().due(&cx, &job(&running())).is_some_and(|due| due > task.now));
}

#[test]
fn a_status_nobody_knows_is_an_error_and_none_is_waiting() {
    let (task, prior) = (task("ray", None), ObservedPhase::default());
    let cx = PhaseContext { task: &task, prior: &prior, pods: &[], error_document: None };
    let unknown = RayPlugin::default().phase(&cx, &job(&json!({"jobDeploymentStatus": "New"}))).unwrap_err();
    assert_eq!(unknown.to_string(), "unknown job deployment status: New");
    let lost = phase_of(&RayConfig::default(), &json!({}), &[], None);
    assert_eq!((lost.phase(), lost.reason()), (Phase::Queued, "Scheduling"));
}

proptest! {
    #[test]
    fn settings_never_crash_the_builder(mut custom in any_settings(&[
        "rayCluster", "ray_cluster", "headGroupSpec", "workerGroupSpec", "rayStartParams", "k8sPod", "podSpec",
        "containers", "name", "extendedResources", "sharedMemory", "gpuAccelerator", "autoscalerOptions", "resources",
        "replicas", "minReplicas", "runtimeEnv", "runtimeEnvYaml", "ttlSecondsAfterFinished", "metadata", "labels",
    ]), as_cluster in any::<bool>()) {
        if as_cluster {
            custom = json!({"rayCluster": custom});
        }
        let _ = RayPlugin::default().build(&task("ray", Some(&custom)));
    }
}
