#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use aileron_idl::flyteidl2::core::TaskLog;
use aileron_idl::flyteidl2::core::task_log::LinkType;
use aileron_machinery::config::{K8sConfig, LogTemplate};
use aileron_machinery::testing::{pod, task};
use aileron_machinery::{ErrorKind, ObservedPhase, Phase};
use k8s_openapi::api::core::v1::{Pod, Toleration};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::any_settings;

fn plugin() -> SparkPlugin {
    SparkPlugin::new(SparkConfig::default())
}

fn application(status: &Value) -> SparkApplication {
    let metadata = json!({"name": "run-a0-0", "namespace": "p-d", "creationTimestamp": "2009-11-10T22:00:00Z"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap()
}

fn running() -> Value {
    json!({"applicationState": {"state": "RUNNING"}, "driverInfo": {"podName": "driver"}})
}

fn phase_of(plugin: &SparkPlugin, task: &TaskContext, status: &Value, pods: &[Arc<Pod>]) -> PhaseInfo {
    let prior = ObservedPhase::default();
    let cx = PhaseContext::new(task, &prior).with_pods(pods);
    plugin.phase(&cx, &application(status)).unwrap()
}

#[test]
fn only_executors_may_be_taken_away() {
    let mut task = task("spark", &json!({"mainClass": "Main", "sparkConf": {"spark.executor.instances": "3"}}));
    let spot = Toleration { key: Some("spot".into()), ..Toleration::default() };
    let config = K8sConfig { interruptible_tolerations: vec![spot], ..K8sConfig::default() };
    task.platform.k8s = Arc::new(config);
    Arc::make_mut(&mut task.metadata).interruptible = true;
    let spec = plugin().build(&task).unwrap().spec;
    assert_eq!(spec.driver.tolerations.unwrap_or_default().len(), 0);
    assert_eq!(spec.executor.pod.tolerations.unwrap().len(), 1);
    assert_eq!(spec.executor.instances, Some(3));
    assert_eq!((spec.arguments, spec.main_class.as_deref()), (vec!["run".to_owned()], Some("Main")));
    assert_eq!((spec.driver.service_account.as_deref(), spec.executor.pod.service_account), (Some("spark"), None));
}

#[test]
fn a_pod_of_the_task_is_the_template_and_needs_a_crd_that_takes_it() {
    let pod = json!({"pod_spec": {"containers": [{"name": "mine"}], "priorityClassName": "high"}});
    let mut task = task("spark", &json!({"mainClass": "Main", "driverPod": pod}));
    let without = plugin().build(&task).unwrap().spec;
    assert_eq!((without.driver.template, without.spark_version.as_str()), (None, ""));

    task.definition = Some(Arc::new(json!({"podTemplates": true})));
    let spec = plugin().build(&task).unwrap().spec;
    let driver = spec.driver.template.unwrap().spec.unwrap();
    assert_eq!((driver.containers[0].name.as_str(), driver.priority_class_name.as_deref()), ("mine", Some("high")));
    let executor = spec.executor.pod.template.unwrap().spec.unwrap();
    assert_eq!(executor.containers[0].name, EXECUTOR_CONTAINER);
    assert_eq!(executor.containers[0].args, None);
    assert_eq!(spec.spark_version, "3.0.0");
    assert_eq!(spec.spark_conf["spark.kubernetes.driver.podTemplateContainerName"], DRIVER_CONTAINER);

    let off = SparkConfig { enable_pod_template: false, ..SparkConfig::default() };
    let switched_off = SparkPlugin::new(off).build(&task).unwrap().spec;
    assert_eq!(switched_off.driver.template, None);
}

#[test]
fn a_task_with_nothing_to_run_cannot_work() {
    for custom in [
        None,
        Some(json!({})),
        Some(json!({"sparkConf": 1})),
        Some(json!({"mainClass": "M", "driverPod": {"podSpec": {"containers": 1}}})),
    ] {
        let error = plugin().build(&task("spark", custom.as_ref().unwrap_or(&Value::Null))).unwrap_err();
        assert_eq!(error.non_retryable_code(), Some("BadTaskSpecification"), "{error}");
    }
}

#[test]
fn a_failed_driver_counts_before_the_operator_says_so() {
    let task = task("spark", &Value::Null);
    let failed = json!({"phase": "Failed", "reason": "Evicted", "message": "no space"});
    let driver = pod("driver", DRIVER_CONTAINER, &failed);
    let phase = phase_of(&plugin(), &task, &running(), &[pod("other", "c", &failed), driver]);
    assert_eq!(phase.phase(), Phase::RetryableFailure);
    let phase = phase_of(&plugin(), &task, &running(), &[pod("other", "c", &failed)]);
    assert_eq!(phase.phase(), Phase::Running);
}

#[test]
fn the_outcome_is_the_operators() {
    let task = task("spark", &Value::Null);
    let of = |state: &str| {
        let status = json!({"applicationState": {"state": state, "errorMessage": "why"}});
        let phase = phase_of(&plugin(), &task, &status, &[]);
        (phase.phase(), plugin().ended(&application(&status)).is_some())
    };
    assert_eq!(of(""), (Phase::Queued, false));
    assert_eq!(of("SUBMITTED"), (Phase::Initializing, false));
    assert_eq!(of("PENDING_SUBMISSION"), (Phase::Initializing, false));
    assert_eq!(of("SUCCEEDING"), (Phase::Running, false));
    assert_eq!(of("COMPLETED"), (Phase::Success, true));
    assert_eq!(of("FAILED"), (Phase::RetryableFailure, true));
    assert_eq!(of("SUBMISSION_FAILED"), (Phase::RetryableFailure, true));

    let status = json!({"applicationState": {"state": "FAILED", "errorMessage": "why"}});
    let phase = phase_of(&plugin(), &task, &status, &[]);
    let error = phase.error().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::User, "Spark Job Failed with Error: why"));
}

#[test]
fn a_pending_driver_is_looked_at_again_when_its_time_is_over() {
    let task = task("spark", &Value::Null);
    let waiting = json!({"phase": "Pending", "conditions": [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2009-11-10T22:59:59Z"},
    ]});
    let check_at = |pods: &[Arc<Pod>]| phase_of(&plugin(), &task, &running(), pods).check_at();
    assert!(check_at(&[pod("driver", DRIVER_CONTAINER, &waiting)]).is_some_and(|at| at > task.now));
    assert_eq!(check_at(&[]), None);
}

#[test]
fn a_task_gets_the_dynamic_links_it_asks_for() {
    let template = LogTemplate { template_uris: vec!["https://x/{{.podName}}".into()], ..LogTemplate::default() };
    let mut config = SparkConfig::default();
    config.logs.mixed.dynamic_log_links.insert("profiler".into(), template);
    let plugin = SparkPlugin::new(config);
    let mut task = task("spark", &Value::Null);
    let uris = |task: &TaskContext| -> Vec<String> {
        let phase = phase_of(&plugin, task, &running(), &[]);
        phase.info().unwrap().logs.iter().map(|link| link.uri.clone()).collect()
    };
    let before = uris(&task).len();
    Arc::make_mut(&mut task.template).config.insert("link_type".into(), "profiler".into());
    let after = uris(&task);
    assert_eq!((after.len(), after.last().map(String::as_str)), (before + 1, Some("https://x/driver")));
}

#[test]
fn the_user_interface_is_the_drivers_and_later_the_history() {
    let config = SparkConfig { spark_history_server_url: "https://h".into(), ..SparkConfig::default() };
    let plugin = SparkPlugin::new(config);
    let interface = |state: &str| {
        let status = json!({"applicationState": {"state": state}, "sparkApplicationId": "app",
            "driverInfo": {"podName": "driver", "webUIIngressAddress": "ui"}});
        let phase = phase_of(&plugin, &task("spark", &Value::Null), &status, &[]);
        let is_dashboard = |link: &&TaskLog| link.link_type() == LinkType::Dashboard;
        let uri = phase.info().unwrap().logs.iter().find(is_dashboard).map(|link| link.uri.clone());
        (uri, phase.reason().to_owned())
    };
    assert_eq!(interface("RUNNING"), (Some("https://ui".into()), "Spark driver UI is ready".into()));
    assert_eq!(interface("COMPLETED"), (Some("https://h/history/app".into()), String::new()));
    assert_eq!(interface("SUBMITTED"), (None, "job submitted".into()));
}

#[test]
fn an_application_ends_when_it_says_so() {
    let at = |mut status: Value| {
        status["applicationState"] = json!({"state": "COMPLETED"});
        plugin().ended(&application(&status)).unwrap().at.unwrap().to_string()
    };
    let submitted = "2009-11-10T22:10:00Z";
    let ended = "2009-11-10T22:20:00Z";
    assert_eq!(at(json!({"terminationTime": ended, "lastSubmissionAttemptTime": submitted})), ended);
    assert_eq!(at(json!({"terminationTime": null, "lastSubmissionAttemptTime": submitted})), submitted);
    assert_eq!(at(json!({})), "2009-11-10T22:00:00Z");
}

const KEYS: &[&str] = &[
    "mainClass",
    "mainApplicationFile",
    "sparkConf",
    "hadoopConf",
    "applicationType",
    "executorPath",
    "driverPod",
    "executorPod",
    "podSpec",
    "containers",
    "name",
    "spark.driver.cores",
    "spark.executor.instances",
];

/// Settings of the right shape: Spark's settings and pods with anything in them.
fn any_job() -> impl Strategy<Value = Value> {
    let key = prop_oneof![4 => proptest::sample::select(KEYS).prop_map(str::to_owned), 1 => "\\PC{0,12}"];
    let conf = proptest::collection::btree_map(key, prop_oneof!["-?[0-9]{1,12}", "\\PC{0,6}"], 0..6);
    let pod = any_settings(&["containers", "name", "image", "env", "resources", "limits", "cpu", "tolerations"]);
    (conf, pod, "\\PC{1,8}").prop_map(
        |(conf, pod, main)| json!({"mainApplicationFile": main, "sparkConf": conf, "executorPod": {"podSpec": pod}}),
    )
}

proptest! {
    #[test]
    fn no_settings_make_the_plugin_panic(
        custom in prop_oneof![any_settings(KEYS), any_job()],
        templates in any::<bool>(),
    ) {
        let mut task = task("spark", &custom);
        task.definition = Some(Arc::new(json!({"podTemplates": templates})));
        let _ = plugin().build(&task);
    }
}
