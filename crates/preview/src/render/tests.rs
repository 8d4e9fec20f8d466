#![allow(clippy::unwrap_used)]

use aileron_idl::message_to_json;
use prost::Message;
use serde_json::json;

use super::*;
use crate::read;

const TASK: &str = r#"
id: {project: p, domain: d, name: t}
type: python
container:
  image: "image:1"
  args: [--inputs, "{{.input}}"]
"#;

/// A task of nothing but a template, as a file holds it, with the defaults of everything else.
pub(crate) fn offline(file: &[u8]) -> Offline {
    let given = read::task(file).unwrap();
    Offline {
        action: given.action,
        template: given.template,
        config: Config::default(),
        plugins: Arc::new(|config| aileron_plugins::builtin(&(&config.plugins).into())),
        pod_templates: Vec::new(),
        inputs: None,
        environment: BTreeMap::new(),
        executor_namespace: "flyte".into(),
        now: Timestamp::UNIX_EPOCH,
    }
}

fn refusal(offline: &Offline) -> String {
    let error = offline.render().unwrap_err();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[test]
fn a_template_is_read_in_every_form_and_gives_the_same_object() {
    let from_yaml = offline(TASK.as_bytes());
    let template = &from_yaml.template;
    let json = message_to_json(template).unwrap();
    let encoded = template.encode_to_vec();
    let spec = json!({"taskTemplate": json}).to_string();
    let action = {
        let mut action = serde_json::to_value(&from_yaml.action).unwrap();
        action["spec"]["taskTemplate"] = serde_json::to_value(k8s_openapi::ByteString(encoded.clone())).unwrap();
        action.to_string()
    };
    let object = from_yaml.render().unwrap().object;
    for file in [json.to_string().as_bytes(), &encoded, spec.as_bytes(), action.as_bytes()] {
        assert_eq!(offline(file).render().unwrap().object, object);
    }
}

#[test]
fn the_object_is_complete() {
    let mut offline = offline(TASK.as_bytes());
    offline.config.plugins.k8s.inject_finalizer = true;
    let Rendered { plugin, object } = offline.render().unwrap();
    assert_eq!(plugin, "pod");
    assert_eq!(object["metadata"]["name"], "run-a0-0");
    assert_eq!(object["metadata"]["namespace"], "p-d");
    assert_eq!(object["metadata"]["labels"]["run"], "run");
    assert_eq!(object["metadata"]["finalizers"], json!(["flyte/flytek8s"]));
    assert_eq!(object["metadata"]["ownerReferences"][0]["name"], "run-a0");
    assert_eq!(object["spec"]["containers"][0]["args"], json!(["--inputs", "s3://bucket/run/a0/inputs.pb"]));
}

#[test]
fn watching_changes_nothing_and_the_last_step_is_the_managers() {
    let offline = offline(TASK.as_bytes());
    let mut steps = Vec::new();
    let observed = offline.render_observed(&mut |step, object| steps.push((step.to_owned(), object))).unwrap();
    assert_eq!(observed, offline.render().unwrap());
    let (step, object) = steps.last().unwrap();
    assert_eq!((step.as_str(), object), (METADATA_STEP, &observed.object));
    assert_eq!(steps[0].0, "task target");
}

#[test]
fn templates_of_the_tasks_and_of_the_executors_namespace_count() {
    let mut offline = offline(TASK.as_bytes());
    offline.config.plugins.k8s.default_pod_template_name = "base".into();
    let template = |namespace: &str, class: &str| {
        let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
        let text = format!(
            "kind: PodTemplate\nmetadata: {{name: base{namespace}}}\ntemplate: {{spec: {{priorityClassName: {class}}}}}"
        );
        read::pod_template(text.as_bytes()).unwrap()
    };
    let class = |offline: &Offline| offline.render().unwrap().object["spec"]["priorityClassName"].clone();
    offline.pod_templates = vec![template("elsewhere", "other")];
    assert_eq!(class(&offline), Value::Null);
    offline.pod_templates.push(template("flyte", "shared"));
    assert_eq!(class(&offline), "shared");
    offline.pod_templates.push(template("", "own"));
    assert_eq!(class(&offline), "own");
}

#[test]
fn whatever_is_missing_is_named_with_its_remedy() {
    let mut incomplete = offline(TASK.as_bytes());
    incomplete.action.spec.run_name.clear();
    incomplete.action.spec.input_uri.clear();
    assert!(refusal(&incomplete).contains("fill in spec.runName, spec.inputUri"), "{}", refusal(&incomplete));

    let mut with_inputs = offline(TASK.replace("{{.input}}", "{{.inputs.x}}").as_bytes());
    assert!(refusal(&with_inputs).contains("--inputs FILE"), "{}", refusal(&with_inputs));
    with_inputs.inputs =
        Some(read::inputs(br#"{"literals": {"x": {"scalar": {"primitive": {"integer": "7"}}}}}"#).unwrap());
    assert_eq!(with_inputs.render().unwrap().object["spec"]["containers"][0]["args"][1], "7");

    let mut asleep = offline(TASK.as_bytes());
    asleep.action.spec.task_type = "core-sleep".into();
    assert!(refusal(&asleep).contains("\"core-sleep\", which makes no Kubernetes object"), "{}", refusal(&asleep));

    let mut condition = offline(TASK.as_bytes());
    condition.action.spec.action_type = ACTION_TYPE_CONDITION.into();
    assert!(refusal(&condition).contains("waits for a signal"), "{}", refusal(&condition));

    let unbuildable = offline(b"{type: python, id: {name: t}}");
    assert!(refusal(&unbuildable).contains("plugin \"pod\" refuses the task"), "{}", refusal(&unbuildable));
}

#[test]
fn files_that_are_something_else_are_refused() {
    let refused = |bytes: &[u8]| read::task(bytes).unwrap_err().to_string();
    assert!(refused(b"kind: Pod").contains("\"Pod\"; give one TaskAction or a task template"));
    assert!(refused(b"some: thing").contains("no field of a task template"));
    assert!(refused(b"a: [1").contains("not valid YAML or JSON"));
    assert!(refused(b"just text").contains("must be a map"));
    assert!(refused(b"\xff\xff\xff").contains("neither YAML, JSON nor a binary TaskTemplate"));
    assert!(refused(b"type: [1]").contains("not a TaskTemplate in protobuf's JSON form"));
    assert!(refused(b"{kind: TaskAction, metadata: {}, spec: {taskTemplate: /////w==}}").contains("spec.taskTemplate"));
    assert!(read::pod_template(b"kind: Pod").unwrap_err().to_string().contains("one PodTemplate"));
}
