#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use aileron_idl::flyteidl2::core::task_template::Target;
use aileron_idl::flyteidl2::core::{Container, Identity, SecurityContext, TaskTemplate};
use aileron_idl::json_to_struct;
use aileron_machinery::{K8sPlugin, TaskContext, code};
use serde_json::{Value, json};

use super::super::PodPlugin;
use super::*;

fn container_task(task_type: &str, args: &[&str]) -> TaskTemplate {
    let args = args.iter().map(ToString::to_string).collect();
    let container = Container { image: "image:1".into(), args, ..Default::default() };
    TaskTemplate { r#type: task_type.into(), target: Some(Target::Container(container)), ..Default::default() }
}

fn sidecar_task(version: i32, custom: &Value) -> TaskTemplate {
    TaskTemplate {
        r#type: SIDECAR_TASK_TYPE.into(),
        task_type_version: version,
        custom: Some(json_to_struct(custom).unwrap()),
        config: [(PRIMARY_CONTAINER_KEY.to_owned(), "main".to_owned())].into(),
        ..Default::default()
    }
}

fn task(template: TaskTemplate, env: &[(&str, &str)]) -> TaskContext {
    let mut task = aileron_machinery::testing::task("python", &Value::Null);
    task.template = Arc::new(template);
    let metadata = Arc::make_mut(&mut task.metadata);
    metadata.env_vars = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    metadata.security_context = Some(SecurityContext {
        run_as: Some(Identity { k8s_service_account: "worker".into(), ..Default::default() }),
        ..Default::default()
    });
    task
}

fn built(template: TaskTemplate, env: &[(&str, &str)]) -> Pod {
    PodPlugin::pod().build(&task(template, env)).unwrap()
}

fn primary_annotation(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(PRIMARY_CONTAINER_KEY).map(String::as_str)
}

fn probe_port(pod: Pod, container: usize) -> Option<Value> {
    let spec = serde_json::to_value(pod.spec).unwrap();
    spec["containers"][container].pointer("/readinessProbe/httpGet/port").cloned()
}

#[test]
fn only_containers_that_store_their_own_outputs_are_marked_primary() {
    assert_eq!(primary_annotation(&built(container_task("python", &[]), &[])), Some("run-a0-0"));
    assert_eq!(primary_annotation(&built(container_task("raw-container", &[]), &[])), None);
}

#[test]
fn the_service_account_comes_from_the_security_context() {
    let pod = built(container_task("python", &[]), &[]);
    assert_eq!(pod.spec.unwrap().service_account_name.as_deref(), Some("worker"));
}

#[test]
fn an_editor_is_awaited_where_its_sdk_serves_it() {
    let probe = |env: &[(&str, &str)]| probe_port(built(container_task("python", &[]), env), 0);
    assert_eq!(probe(&[("_F_E_VS", "true")]), Some(json!(8080)));
    assert_eq!(probe(&[("_F_E_VS", "1"), ("ACTION_NAME", "a0")]), Some(json!(6060)));
    assert_eq!(probe(&[("_F_E_VS", "false")]), None);
    assert_eq!(probe(&[("_F_E_VS", "perhaps")]), None);
}

#[test]
fn older_sidecar_tasks_keep_their_pod_in_custom() {
    let spec = json!({"containers": [{"name": "side"}, {"name": "main"}]});
    let v0 = json!({"PodSpec": spec, "primaryContainerName": "main", "labels": {"l": "1"}, "annotations": null});
    for (version, custom) in [(0, v0), (1, spec)] {
        let pod = built(sidecar_task(version, &custom), &[("_F_E_VS", "true")]);
        assert_eq!(primary_annotation(&pod), Some("main"));
        assert_eq!(pod.metadata.labels.clone().unwrap_or_default().is_empty(), version == 1);
        assert_eq!((probe_port(pod.clone(), 0), probe_port(pod, 1)), (None, Some(json!(8080))));
    }
}

#[test]
fn a_sidecar_task_without_a_readable_pod_is_refused() {
    for (version, custom) in [(0, json!({})), (0, json!({"podSpec": 1})), (1, json!({"containers": "none"}))] {
        let error = PodPlugin::pod().build(&task(sidecar_task(version, &custom), &[])).unwrap_err();
        assert_eq!(error.code(), code::BAD_TASK_SPECIFICATION, "{error}");
    }
}

#[test]
fn inputs_are_fetched_only_if_an_argument_holds_one() {
    let needs = |args: &[&str]| PodPlugin::pod().needs(&task(container_task("python", args), &[])).inputs;
    assert!(needs(&["--x", "{{.inputs.x}}"]));
    assert!(!needs(&["{{.input}}", "{{.outputPrefix}}"]));
    let in_pod = json!({"containers": [{"name": "main", "args": ["{{ .inputs.x }}"]}]});
    assert!(PodPlugin::pod().needs(&task(sidecar_task(1, &in_pod), &[])).inputs);
}

#[test]
fn every_layer_has_its_own_name() {
    let names: BTreeMap<_, _> = layers().map(|layer| (layer.name, ())).collect();
    assert_eq!(names.len(), layers().count());
}
