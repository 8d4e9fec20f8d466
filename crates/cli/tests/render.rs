//! `aileron render` and `aileron explain` as their users meet them.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const TASK: &str = "
apiVersion: flyte.org/v1
kind: TaskAction
metadata: {name: r1-a0, namespace: team-a, uid: u-1}
spec:
  runName: r1
  project: p
  domain: d
  actionName: a0
  inputUri: s3://data/in
  runOutputBase: s3://data/out
  taskType: python
  taskTemplate:
    type: python
    metadata: {pod_template_name: base}
    container: {image: 'image:1', args: ['{{.outputPrefix}}']}
";

const CONFIG: &str = "plugins:\n  k8s:\n    scheduler-name: volcano\n    default-cpus: 500m\n";

const POD_TEMPLATE: &str = "
kind: PodTemplate
metadata: {name: base, namespace: flyte}
template: {spec: {schedulerName: other, priorityClassName: batch, containers: [{name: default}]}}
";

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

fn aileron(directory: &Path, arguments: &[&str]) -> Ended {
    ended(command(directory, arguments).stdin(Stdio::null()).output().unwrap())
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aileron"));
    command.args(arguments).current_dir(directory).env_clear().env("HOME", directory);
    command
}

fn ended(output: std::process::Output) -> Ended {
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A directory with a task, a configuration and a pod template.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("task.yaml", TASK), ("c.yaml", CONFIG), ("base.yaml", POD_TEMPLATE)] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

const ALL: [&str; 5] = ["task.yaml", "--config", "c.yaml", "--pod-template", "base.yaml"];

#[test]
fn the_object_is_printed_without_a_cluster_in_either_format() {
    let directory = directory();
    let yaml = aileron(directory.path(), &[&["render"][..], &ALL].concat());
    assert_eq!((yaml.code, yaml.err.as_str()), (Some(0), ""));
    let json = aileron(directory.path(), &[&["render", "-o", "json"][..], &ALL].concat());
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml.out).unwrap(), json);
    assert_eq!(json["kind"], "Pod");
    assert_eq!(json["metadata"]["name"], "r1-a0-0");
    assert_eq!(json["metadata"]["namespace"], "team-a");
    assert_eq!(json["metadata"]["ownerReferences"][0]["uid"], "u-1");
    assert_eq!(json["spec"]["schedulerName"], "volcano");
    assert_eq!(json["spec"]["priorityClassName"], "batch");
    assert_eq!(json["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m");
}

#[test]
fn what_a_task_requests_is_bounded_by_the_limits_of_the_platform() {
    let directory = directory();
    let resources =
        "resources: {requests: [{name: CPU, value: '2'}, {name: GPU, value: '4'}], limits: [{name: CPU, value: '16'}]}";
    let task = TASK.replace("image: 'image:1',", &format!("image: 'image:1', {resources},"));
    std::fs::write(directory.path().join("task.yaml"), task).unwrap();
    let limits = "tasks: {resource-limits: {cpu: 8, gpu: 2, memory: 512Mi}}\n";
    std::fs::write(directory.path().join("limits.yaml"), limits).unwrap();
    let render = |config: &str| -> Value {
        let arguments = ["render", "task.yaml", "-o", "json", "--pod-template", "base.yaml", "--config", config];
        let ended = aileron(directory.path(), &arguments);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let object: Value = serde_json::from_str(&ended.out).unwrap();
        object["spec"]["containers"][0]["resources"].clone()
    };
    let free = render("c.yaml");
    assert_eq!((&free["limits"]["cpu"], &free["requests"]["nvidia.com/gpu"]), (&"16".into(), &"4".into()));
    let bounded = render("limits.yaml");
    assert_eq!((&bounded["requests"]["cpu"], &bounded["limits"]["cpu"]), (&"2".into(), &"8".into()));
    assert_eq!(bounded["requests"]["nvidia.com/gpu"], "2");
    assert_eq!(bounded["requests"]["memory"], "512Mi", "the default of 1Gi is above the limit");
}

#[test]
fn flags_override_a_task_from_standard_input() {
    let directory = directory();
    let arguments = ["render", "-", "--pod-template", "base.yaml", "-o", "json", "--namespace", "elsewhere"];
    let arguments = [&arguments[..], &["--plugins.k8s.default-cpus", "7"]].concat();
    let mut child = command(directory.path(), &arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(TASK.as_bytes()).unwrap();
    let ended = ended(child.wait_with_output().unwrap());
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(object["metadata"]["namespace"], "elsewhere");
    assert_eq!(object["spec"]["containers"][0]["resources"]["limits"]["cpu"], "7");
}

#[test]
fn a_bare_template_is_rendered_with_a_warning() {
    let directory = directory();
    std::fs::write(directory.path().join("template.yaml"), "{type: python, container: {image: i}}").unwrap();
    let ended = aileron(directory.path(), &["render", "template.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("warning: template.yaml: the file holds only a task template"), "{}", ended.err);
    assert!(ended.out.contains("name: run-a0-0"), "{}", ended.out);
}

#[test]
fn an_error_names_the_file_and_the_remedy() {
    let directory = directory();
    let expected = [
        (&["render", "nowhere.yaml"][..], 2, "nowhere.yaml: cannot read it"),
        (&["render", "c.yaml"], 2, "c.yaml: no field of a task template in it"),
        (&["render", "base.yaml"], 2, "base.yaml: a document of kind \"PodTemplate\"; give one TaskAction"),
        (&["render", "task.yaml"], 1, "PodTemplate 'base' does not exist"),
        (&["render", "task.yaml", "--task-type", "core-sleep"], 1, "which makes no Kubernetes object"),
        (&["render", "task.yaml", "--pod-template", "task.yaml"], 2, "task.yaml: a document of kind \"TaskAction\""),
        (&["render", "task.yaml", "--inputs", "base.yaml", "--config", "none.yaml"], 2, "none.yaml"),
        (&["explain", "task.yaml"], 1, "PodTemplate 'base' does not exist"),
    ];
    for (arguments, code, text) in expected {
        let ended = aileron(directory.path(), arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(text), "{arguments:?}: {}", ended.err);
        assert_eq!(ended.out, "", "{arguments:?}");
    }
}

#[test]
fn explain_shows_for_each_field_what_set_it_and_what_was_overridden() {
    let directory = directory();
    let text = aileron(directory.path(), &[&["explain"][..], &ALL].concat());
    assert_eq!(text.code, Some(0), "{}", text.err);
    let row = |field: &str| text.out.lines().find(|line| line.starts_with(field)).unwrap();
    let scheduler = row("spec.schedulerName ");
    for part in
        ["\"volcano\"", " scheduler ", "config plugins.k8s.scheduler-name (c.yaml:3)", "\"other\" (pod template)"]
    {
        assert!(scheduler.contains(part), "{part}: {scheduler}");
    }
    assert!(row("spec.restartPolicy ").ends_with("built in"));

    let json = aileron(directory.path(), &[&["explain", "-o", "json"][..], &ALL].concat());
    let json: Value = serde_json::from_str(&json.out).unwrap();
    let rendered = aileron(directory.path(), &[&["render", "-o", "json"][..], &ALL].concat());
    assert_eq!(json["object"], serde_json::from_str::<Value>(&rendered.out).unwrap());
    assert_eq!(json["fields"].as_array().unwrap().len(), text.out.lines().count() - 1);
}

#[test]
fn explain_shows_one_field_in_full() {
    let directory = directory();
    let ask = |field| aileron(directory.path(), &[&["explain", "--field", field][..], &ALL].concat());
    let one = ask("spec.schedulerName");
    let expected = "spec.schedulerName = \"volcano\"
  layer     scheduler
  source    config plugins.k8s.scheduler-name (c.yaml:3)
  lost      \"other\" of layer pod template from PodTemplate flyte/base template.spec.schedulerName
";
    assert_eq!(one.out, expected, "{}", one.err);
    assert_eq!(ask("spec.containers[0].resources").out.matches(" = ").count(), 4);
    let wrong = ask("spec.containers[0].imag");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("no such field; these exist: "), "{}", wrong.err);
    assert!(wrong.err.contains("spec.containers[0].image"), "{}", wrong.err);
}
