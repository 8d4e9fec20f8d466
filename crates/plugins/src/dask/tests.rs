#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use aileron_machinery::config::{K8sConfig, LogConfig, LogTemplate};
use aileron_machinery::testing::{pod, task};
use aileron_machinery::{ObservedPhase, Phase};
use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::any_settings;

fn plugin() -> DaskPlugin {
    DaskPlugin::new(DaskConfig::default())
}

fn with_dashboard(uri: &str) -> DaskPlugin {
    let dashboard = LogTemplate {
        display_name: "Dashboard".into(),
        template_uris: vec![uri.into()],
        link_type: "dashboard".into(),
        ..LogTemplate::default()
    };
    DaskPlugin::new(DaskConfig { logs: LogConfig { templates: vec![dashboard], ..LogConfig::default() } })
}

fn job(status: &Value) -> DaskJob {
    let metadata = json!({"name": "run-a0-1", "namespace": "p-d", "creationTimestamp": "2009-11-10T22:00:00Z"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap()
}

fn scheduler(name: &str, ready: bool) -> Arc<Pod> {
    let container = json!({"name": "scheduler", "image": "", "imageID": "", "ready": ready, "restartCount": 0});
    pod(name, "scheduler", &json!({"phase": "Running", "containerStatuses": [container]}))
}

fn phase_of(plugin: &DaskPlugin, task: &TaskContext, status: &Value, pods: &[Arc<Pod>]) -> PhaseInfo {
    let prior = ObservedPhase::default();
    let cx = PhaseContext::new(task, &prior).with_pods(pods);
    plugin.phase(&cx, &job(status)).unwrap()
}

fn arguments(spec: &PodSpec) -> String {
    spec.containers[0].args.clone().unwrap_or_default().join(" ")
}

#[test]
fn the_tasks_pod_comes_in_three_roles() {
    let resources = json!({"limits": [{"name": "CPU", "value": "1500m"}, {"name": "MEMORY", "value": "1Gi"}]});
    let custom = json!({
        "workers": {"numberOfWorkers": 4, "image": "worker:1", "resources": resources}, "scheduler": {"image": "s:1"},
    });
    let mut task = task("dask", &custom);
    let spot = Toleration { key: Some("spot".into()), ..Toleration::default() };
    task.platform.k8s = Arc::new(K8sConfig { interruptible_tolerations: vec![spot], ..K8sConfig::default() });
    Arc::make_mut(&mut task.metadata).interruptible = true;
    let spec = plugin().build(&task).unwrap().spec;
    let (worker, scheduler, runner) = (spec.cluster.spec.worker, spec.cluster.spec.scheduler, spec.job.spec);

    assert_eq!(worker.replicas, 4);
    assert_eq!(arguments(&worker.spec), "dask worker --name $(DASK_WORKER_NAME) --nthreads 2 --memory-limit 1Gi");
    assert_eq!((arguments(&scheduler.spec), arguments(&runner)), ("dask scheduler".into(), "run".into()));
    let of = |spec: &PodSpec| {
        let container = &spec.containers[0];
        let tolerations = spec.tolerations.as_ref().map_or(0, Vec::len);
        (container.name.clone(), container.image.clone().unwrap(), spec.restart_policy.clone().unwrap(), tolerations)
    };
    assert_eq!(of(&worker.spec), ("dask-worker".into(), "worker:1".into(), "Always".into(), 1));
    assert_eq!(of(&scheduler.spec), ("scheduler".into(), "s:1".into(), "Always".into(), 0));
    assert_eq!(of(&runner), ("job-runner".into(), "image:1".into(), "Never".into(), 0));
    assert_eq!(scheduler.service.selector.unwrap()["dask.org/cluster-name"], "run-a0-0");
}

#[test]
fn the_dashboard_is_told_where_its_link_leads() {
    let task = task("dask", &json!({}));
    let built = |uri| with_dashboard(uri).build(&task).map(|job| arguments(&job.spec.cluster.spec.scheduler.spec));
    assert_eq!(built("https://h/d/{{.namespace}}/status").unwrap(), "dask scheduler --dashboard-prefix /d/p-d");
    assert_eq!(built("https://h/status").unwrap(), "dask scheduler");
    assert!(built("https://h/%zz/status").unwrap_err().to_string().contains("https://h/%zz/status"));
}

#[test]
fn the_outcome_is_the_operators() {
    let task = task("dask", &Value::Null);
    let of = |state: &str| {
        let status = json!({"jobStatus": state});
        (phase_of(&plugin(), &task, &status, &[]).phase(), plugin().ended(&job(&status)).is_some())
    };
    assert_eq!(of(""), (Phase::Initializing, false));
    assert_eq!(of("ClusterCreated"), (Phase::Initializing, false));
    assert_eq!(of("Running"), (Phase::Running, false));
    assert_eq!(of("Successful"), (Phase::Success, true));
    assert_eq!(of("Failed"), (Phase::RetryableFailure, true));
}

#[test]
fn a_failed_job_runner_counts_before_the_operator_says_so() {
    let failed = pod("runner", JOB_RUNNER, &json!({"phase": "Failed", "reason": "Evicted"}));
    let status = json!({"jobStatus": "Running", "jobRunnerPodName": "runner"});
    let phase = phase_of(&plugin(), &task("dask", &Value::Null), &status, &[failed]);
    assert_eq!(phase.phase(), Phase::RetryableFailure);
}

#[test]
fn links_are_as_ready_as_the_scheduler() {
    let plugin = with_dashboard("https://d/{{.daskSchedulerName}}/status");
    let of = |pods: &[Arc<Pod>]| {
        let phase = phase_of(&plugin, &task("dask", &Value::Null), &json!({"jobStatus": "Running"}), pods);
        let link = phase.info().unwrap().logs[0].clone();
        (link.uri, link.ready, phase.reason().to_owned())
    };
    let unknown = "https://d/{{.daskSchedulerName}}/status".to_owned();
    let known = "https://d/run-a0-1-scheduler-x/status".to_owned();
    let (ready, not_ready) = ("Dask dashboard is ready".to_owned(), "Dask dashboard is not ready".to_owned());
    assert_eq!(of(&[]), (unknown.clone(), false, not_ready.clone()));
    assert_eq!(of(&[scheduler("run-a0-1-scheduler-x", false)]), (known.clone(), false, not_ready.clone()));
    assert_eq!(of(&[scheduler("run-a0-1-scheduler-x", true)]), (known, true, ready));
    // The tenth attempt is another job.
    assert_eq!(of(&[scheduler("run-a0-10-scheduler-x", true)]), (unknown, false, not_ready));
}

#[test]
fn a_task_gets_the_dynamic_links_it_asks_for() {
    let template = LogTemplate { template_uris: vec!["https://x/{{.podName}}".into()], ..LogTemplate::default() };
    let logs = LogConfig { dynamic_log_links: [("profiler".to_owned(), template)].into(), ..LogConfig::default() };
    let plugin = DaskPlugin::new(DaskConfig { logs });
    let mut task = task("dask", &Value::Null);
    let status = json!({"jobStatus": "Running", "jobRunnerPodName": "runner"});
    assert_eq!(phase_of(&plugin, &task, &status, &[]).info().unwrap().logs, []);
    Arc::make_mut(&mut task.template).config.insert("link_type".into(), "profiler".into());
    assert_eq!(phase_of(&plugin, &task, &status, &[]).info().unwrap().logs[0].uri, "https://x/runner");
}

#[test]
fn a_job_ends_when_it_says_so() {
    let at = |mut status: Value| {
        status["jobStatus"] = "Failed".into();
        plugin().ended(&job(&status)).unwrap().at.unwrap().to_string()
    };
    let (started, ended) = ("2009-11-10T22:10:00Z", "2009-11-10T22:20:00Z");
    assert_eq!(at(json!({"endTime": ended, "startTime": started})), ended);
    assert_eq!(at(json!({"endTime": null, "startTime": started})), started);
    assert_eq!(at(json!({})), "2009-11-10T22:00:00Z");
}

const KEYS: &[&str] =
    &["workers", "scheduler", "image", "numberOfWorkers", "resources", "limits", "requests", "name", "value"];

/// Settings of the right shape with any amounts in them.
fn any_cluster() -> impl Strategy<Value = Value> {
    let name = proptest::sample::select(vec!["CPU", "MEMORY", "GPU", "STORAGE", "EPHEMERAL_STORAGE"]);
    let amount = prop_oneof![9 => "[0-9]{1,20}(\\.[0-9]{1,3})?(m|n|k|Ki|Gi|E|e[0-9])?", 1 => "\\PC{0,6}"];
    let entry = (name, amount).prop_map(|(name, value)| json!({"name": name, "value": value}));
    let list = proptest::collection::vec(entry, 0..3);
    let resources = (list.clone(), list).prop_map(|(requests, limits)| json!({"requests": requests, "limits": limits}));
    (resources.clone(), resources, any::<u32>(), "\\PC{0,6}").prop_map(|(scheduler, workers, number, image)| {
        json!({
            "scheduler": {"image": image, "resources": scheduler},
            "workers": {"numberOfWorkers": number, "resources": workers},
        })
    })
}

proptest! {
    #[test]
    fn no_settings_make_the_plugin_panic(custom in prop_oneof![any_settings(KEYS), any_cluster()]) {
        let _ = plugin().build(&task("dask", &custom));
    }
}
