#![allow(clippy::unwrap_used, clippy::panic)]

use aileron_idl::flyteidl2::core::task_template::Target;
use aileron_idl::{message_to_json, struct_to_json};
use aileron_machinery::PendingReason;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::literals::to_json;

const HELLO: &str = "
name: hello
image: any
command: [sh, -c]
args: ['echo hello {{.inputs.name}} {{.inputs.times}}']
env: {GREETING: hello, TIMES: 3}
inputs:
  name: {type: string, default: world, description: whom}
  times: {type: int, default: 2}
  tags: list<string>
outputs: {text: string}
resources: {cpu: 500m, memory: 1Gi, gpu: 1}
retries: 2
timeout: 1m30s
interruptible: true
cache: {version: v1, serialize: true}
labels: {team: a}
service-account: robot
secrets: [{key: token, group: web, env: TOKEN}, {key: file}]
expect: {phase: failed, attempts: 3, error: boom}
copies: 12
abort-after: 1s
objects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}
";

fn errors(text: &str) -> Vec<String> {
    read(text).unwrap_err().0.iter().map(ToString::to_string).collect()
}

#[test]
fn everything_lands_in_the_template() {
    let file = read(HELLO).unwrap();
    let template = message_to_json(&file.template).unwrap();
    assert_eq!(template["id"], json!({"resource_type": "TASK", "name": "hello"}));
    assert_eq!(template["type"], "container");
    let container = &template["container"];
    assert_eq!(container["image"], "any");
    assert_eq!(container["command"], json!(["sh", "-c"]));
    assert_eq!(container["env"], json!([{"key": "GREETING", "value": "hello"}, {"key": "TIMES", "value": "3"}]));
    let requests = json!([{"name": "CPU", "value": "500m"}, {"name": "MEMORY", "value": "1Gi"},
                          {"name": "GPU", "value": "1"}]);
    assert_eq!(container["resources"], json!({"requests": requests}));
    let metadata = &template["metadata"];
    assert_eq!(metadata["retries"], json!({"retries": 2}));
    assert_eq!(metadata["timeout"], "90s");
    assert_eq!(metadata["interruptible"], true);
    assert_eq!(
        (&metadata["discoverable"], &metadata["discovery_version"], &metadata["cache_serializable"]),
        (&json!(true), &json!("v1"), &json!(true))
    );
    let inputs = &template["interface"]["inputs"]["variables"];
    assert_eq!(inputs[0]["key"], "name");
    assert_eq!(inputs[0]["value"]["description"], "whom");
    assert_eq!(inputs[2]["value"]["type"], json!({"collection_type": {"simple": "STRING"}}));
    assert_eq!(template["security_context"]["run_as"]["k8s_service_account"], "robot");
    let secrets = json!([{"group": "web", "key": "token", "mount_requirement": "ENV_VAR", "env_var": "TOKEN"},
                         {"key": "file", "mount_requirement": "FILE"}]);
    assert_eq!(template["security_context"]["secrets"], secrets);
}

#[test]
fn what_stands_around_the_task_is_kept_apart() {
    let file = read(HELLO).unwrap();
    assert_eq!(file.copies, 12);
    assert_eq!(file.abort_after, Some(Duration::from_secs(1)));
    assert_eq!(file.objects[0]["kind"], "ConfigMap");
    assert_eq!(to_json(&file.defaults["times"]), 2);
    assert_eq!(file.default_inputs(), None, "tags has no default");
    assert_eq!(file.interruptible(), Some(true));
    let expect = file.expect.unwrap();
    assert_eq!((expect.phase, expect.attempts, expect.error.as_deref()), (PhaseWord::Failed, Some(3), Some("boom")));
}

#[test]
fn a_pod_is_put_around_the_tasks_own_container() {
    let file = read(
        "
name: sidecar
image: main:1
command: [sh, -c, work]
resources: {cpu: 1}
pod:
  containers: [{name: helper, image: side:1}, {name: primary, volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, emptyDir: {}}]
",
    )
    .unwrap();
    let Some(Target::K8sPod(pod)) = &file.template.target else { panic!("no pod: {file:?}") };
    assert_eq!(pod.primary_container_name, "primary");
    assert_eq!(file.template.config["primary_container_name"], "primary");
    let spec = struct_to_json(pod.pod_spec.as_ref().unwrap()).unwrap();
    assert_eq!(spec["containers"][0]["name"], "helper");
    let own = json!({"name": "primary", "image": "main:1", "command": ["sh", "-c", "work"],
                     "resources": {"requests": {"cpu": "1"}, "limits": {}},
                     "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    assert_eq!(spec["containers"][1], own);
}

#[test]
fn extended_resources_make_a_pod_and_are_limited() {
    let file = read("{name: t, image: i, command: [x], resources: {example.com/fpga: 2}}").unwrap();
    let Some(Target::K8sPod(pod)) = &file.template.target else { panic!("no pod: {file:?}") };
    let spec = struct_to_json(pod.pod_spec.as_ref().unwrap()).unwrap();
    let amount = json!({"example.com/fpga": "2"});
    assert_eq!(spec["containers"][0]["resources"], json!({"requests": amount, "limits": amount}));
}

#[test]
fn a_task_without_a_container_has_no_target() {
    let file = read("{name: nap, type: core-sleep, inputs: {duration: duration}}").unwrap();
    assert_eq!(file.template.target, None);
}

#[test]
fn retries_and_timeouts_have_a_long_form() {
    let text = "{name: t, retries: {count: 3, backoff: 1s, factor: 2, cap: 10s}, timeout: {run: 5m, queued: 1m}}";
    let metadata = message_to_json(&read(text).unwrap().template).unwrap()["metadata"].clone();
    assert_eq!(metadata["retries"], json!({"retries": 3, "backoff": {"base": "1s", "factor": 2, "cap": "10s"}}));
    assert_eq!((&metadata["timeout"], &metadata["timeouts"]), (&json!("300s"), &json!({"queued_timeout": "60s"})));
}

#[test]
fn all_mistakes_are_told_with_line_field_and_remedy() {
    let found = errors(
        "
nme: hello
image: any
retires: 2
inputs:
  x: {type: integer}
  y: {type: int, default: many}
  z: {typ: int}
resources: {cpu: lots, memroy: 1Gi}
timeout: soon
outputs: {text: string}
expect:
  phase: suceeded
  outputs: {txt: a, text: 1}
copies: 0
objects: [{kind: ConfigMap}]
",
    );
    let expected = [
        "line 2: name: is missing; give the task a name",
        "line 2: nme: no such field; did you mean `name`?",
        "line 4: retires: no such field; did you mean `retries`?",
        "line 6: inputs.x.type: \"integer\" is not a type; did you mean `int`?",
        "line 7: inputs.y.default: must be int, such as 41; found \"many\"",
        "line 8: inputs.z.type: is missing; write for example `type: string`",
        "line 8: inputs.z.typ: no such field; did you mean `type`?",
        "line 9: resources.cpu: must be an amount such as 500m, 2 or 1Gi, found \"lots\"",
        "line 9: resources.memroy: no such resource; did you mean `memory`?",
        "line 10: timeout: must be a duration such as 500ms, 30s or 1h30m, found the text \"soon\"",
        "line 13: expect.phase: \"suceeded\" is no phase; did you mean `succeeded`?",
        "line 14: expect.outputs.text: must be string, such as \"some text\"; found 1",
        "line 14: expect.outputs.txt: the task declares no such output",
        "line 15: copies: must be a whole number from 1 to 10000, found the number 0",
        "line 16: objects[0]: apiVersion is missing; give a whole Kubernetes object",
    ];
    let mut found = found;
    // Within a line the order says nothing.
    found.sort_by_key(|text| {
        (text.split(' ').nth(1).unwrap().trim_end_matches(':').parse::<usize>().unwrap(), text.clone())
    });
    let mut expected = expected.map(ToOwned::to_owned);
    expected.sort_by_key(|text| {
        (text.split(' ').nth(1).unwrap().trim_end_matches(':').parse::<usize>().unwrap(), text.clone())
    });
    assert_eq!(found, expected);
}

#[test]
fn pods_that_cannot_be_are_refused() {
    let refused = |text: &str| errors(text).join("\n");
    let two = "{name: t, pod: {containers: [{name: a, image: i}, {name: b, image: i}]}";
    assert!(refused(&format!("{two}}}")).contains("say with `primary-container`"));
    assert!(
        refused(&format!("{two}, primary-container: c}}"))
            .contains("no container of `pod` is called \"c\"; it has a, b")
    );
    assert!(read(&format!("{two}, primary-container: b}}")).is_ok());
    assert!(refused("{name: t, pod: {containers: 3}}").contains("containers must be a list"));
    assert!(refused("{name: t, pod: {containers: [{name: a, ports: 3}]}}").contains("not a pod spec"));
    assert!(refused("{name: t, primary-container: a}").contains("there is no `pod`"));
    assert!(refused("{name: t, command: [x]}").contains("image: is missing; say in which image it runs"));
    let twice = "{name: t, image: a, pod: {containers: [{name: primary, image: b}]}}";
    assert!(refused(twice).contains("image of container \"primary\" is given here and at the top"));
}

#[test]
fn templates_in_protobufs_form_are_no_task_files() {
    for text in ["{type: python, container: {image: i}}", "{id: {name: t}, type: x}", "{kind: TaskAction}", "{type: a}"]
    {
        assert!(!is_task_file(&serde_saphyr::from_str(text).unwrap()), "{text}");
    }
    for text in ["{name: t}", "{image: i, typ: x}", "{type: python, command: [x]}"] {
        assert!(is_task_file(&serde_saphyr::from_str(text).unwrap()), "{text}");
    }
}

#[test]
fn an_expectation_tells_what_came_out_differently() {
    let file = read(
        "{name: t, image: i, outputs: {n: int}, expect: {phase: succeeded, attempts: 2, reason: quota, outputs: {n: 4}}}",
    );
    let expect = file.unwrap().expect.unwrap();
    let mut literals = LiteralMap::default();
    let kind = crate::literals::parse_type("int").unwrap();
    literals.literals.insert("n".into(), crate::literals::from_text(&kind, "4").unwrap());
    let good = Observed {
        pending: "",
        phase: PhaseWord::Succeeded,
        attempts: 2,
        reason: "exceeded quota",
        error: "",
        outputs: Some(&literals),
    };
    assert_eq!(expect.differences(&good), Vec::<String>::new());
    let bad = Observed { phase: PhaseWord::Failed, pending: "", attempts: 1, reason: "", error: "", outputs: None };
    assert_eq!(
        expect.differences(&bad),
        [
            "expected phase succeeded, found failed",
            "expected attempts: 2, found 1",
            "expected \"quota\" in the reason, found \"\"",
            "expected output n = 4, found none",
        ]
    );
}

#[test]
fn a_waiting_task_is_one_that_has_not_begun() {
    let expect = read("{name: t, expect: {phase: waiting}}").unwrap().expect.unwrap();
    let observed = |phase| Observed { phase, pending: "", attempts: 1, reason: "", error: "", outputs: None };
    for phase in [PhaseWord::Queued, PhaseWord::Waiting, PhaseWord::Initializing] {
        assert!(expect.differences(&observed(phase)).is_empty(), "{phase}");
    }
    assert!(!expect.differences(&observed(PhaseWord::Running)).is_empty());
}

#[test]
fn what_a_task_waits_for_can_be_expected() {
    let expect = read("{name: t, expect: {pending: Quota}}").unwrap().expect.unwrap();
    assert_eq!((expect.phase, expect.pending), (PhaseWord::Waiting, Some(PendingReason::Quota)));
    let observed =
        |pending| Observed { phase: PhaseWord::Queued, pending, attempts: 1, reason: "", error: "", outputs: None };
    assert!(expect.differences(&observed("Quota")).is_empty());
    assert_eq!(expect.differences(&observed("ImagePull")), ["expected to wait for Quota, found ImagePull"]);
    assert_eq!(expect.differences(&observed("")), ["expected to wait for Quota, found nothing"]);
    let wrong = |text: &str| read(text).unwrap_err().to_string();
    let unknown = wrong("{name: t, expect: {pending: Quotas}}");
    assert!(unknown.contains("\"Quotas\" is nothing that a task waits for; did you mean `Quota`?"), "{unknown}");
    let both = wrong("{name: t, expect: {phase: succeeded, pending: Quota}}");
    assert!(both.contains("expect.pending: a task that is succeeded waits for nothing"), "{both}");
}

#[test]
fn the_examples_are_right_and_have_an_expectation() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tasks");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let file = read(&text).unwrap_or_else(|errors| panic!("{name}:\n{errors}"));
        assert_eq!(file.template.id.as_ref().unwrap().name, name, "an example is called as its file");
        assert!(file.expect.is_some(), "{name}: nothing is expected");
        let mut offline = crate::render::tests::offline(text.as_bytes());
        offline.inputs = file.default_inputs();
        assert!(offline.inputs.is_some(), "{name}: an example needs no inputs");
        let rendered = offline.render().unwrap_or_else(|error| panic!("{name}: {error}"));
        let plugin = if file.template.r#type == "spark" { "spark" } else { "pod" };
        assert_eq!(&*rendered.plugin, plugin, "{name}");
        count += 1;
    }
    assert!(count >= 8, "only {count} examples");
}

proptest! {
    #[test]
    fn random_text_never_panics(text in "(?s).{0,200}") {
        let _ = read(&text);
    }

    /// Nearly right files reach further into the reader than noise does.
    #[test]
    fn mutated_files_never_panic(place in 0..HELLO.len(), length in 0..12_usize, with in "[a-z:{}\\[\\], \n0-9-]{0,6}") {
        let end = (place + length).min(HELLO.len());
        let text = format!("{}{with}{}", &HELLO[..place], &HELLO[end..]);
        let _ = read(&text);
        let _ = crate::read::task(text.as_bytes());
    }
}
