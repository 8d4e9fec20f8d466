#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
use std::sync::Arc;

use aileron_machinery::ObservedPhase;
use aileron_machinery::config::LogConfig;
use aileron_machinery::testing::task;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::any_settings;

fn plugin() -> TensorFlowPlugin {
    TensorFlowPlugin::new(KubeflowConfig::default())
}

fn build(version: i32, custom: Value) -> Result<TFJob, PluginError> {
    let mut task = task("tensorflow", &custom);
    Arc::make_mut(&mut task.template).task_type_version = version;
    plugin().build(&task)
}

#[test]
fn roles_without_replicas_are_left_out() {
    let v0 = json!({"workers": 2, "ps_replicas": 1});
    let v1 = json!({"workerReplicas": {"replicas": 2}, "ps_replicas": {"common": {"replicas": 1}},
                    "chief_replicas": {"replicas": 0}});
    for (version, custom) in [(0, v0), (1, v1)] {
        let specs = build(version, custom).unwrap().spec.replica_specs;
        let counts: Vec<_> = specs.iter().map(|(role, spec)| (role.as_str(), spec.replicas)).collect();
        assert_eq!(counts, [("PS", Some(1)), ("Worker", Some(2))]);
    }
    assert!(build(0, json!({"ps_replicas": 1})).is_err());
}

#[test]
fn links_lead_to_the_pods_of_every_role() {
    let mut task = task("tensorflow", &json!({}));
    let logs = LogConfig {
        kubernetes_enabled: true,
        kubernetes_template_uri: "{{ .podName }}/{{ .containerName }}".into(),
        ..LogConfig::default()
    };
    task.platform.logs = Arc::new(logs);
    let role = |replicas: i32| json!({"replicas": replicas});
    let job: TFJob = serde_json::from_value(json!({
        "metadata": {"name": "j"}, "status": {"startTime": "2009-11-10T22:51:00Z"},
        "spec": {"tfReplicaSpecs": {"PS": role(2), "Worker": role(1), "Chief": role(1), "Evaluator": role(1)}},
    }))
    .unwrap();
    let prior = ObservedPhase::default();
    let cx = PhaseContext::new(&task, &prior);
    let phase = plugin().phase(&cx, &job).unwrap();
    let uris: Vec<_> = phase.info().unwrap().logs.iter().map(|link| link.uri.as_str()).collect();
    let expected = ["worker-0", "ps-0", "ps-1", "chief-0", "evaluator-0"].map(|pod| format!("j-{pod}/tensorflow"));
    assert_eq!(uris, expected);
}

const KEYS: &[&str] = &[
    "workers",
    "ps_replicas",
    "chiefReplicas",
    "evaluator_replicas",
    "workerReplicas",
    "runPolicy",
    "replicas",
    "image",
    "resources",
    "limits",
    "name",
    "value",
    "restartPolicy",
    "common",
];

proptest! {
    #[test]
    fn no_settings_make_it_panic(version in -1..3, custom in any_settings(KEYS)) {
        if let Ok(job) = build(version, custom) {
            prop_assert!(job.spec.replica_specs.values().all(|spec| spec.replicas > Some(0)));
        }
    }
}
