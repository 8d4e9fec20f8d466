//! Odd TaskActions: malformed bytes, odd templates, odd locations, odd statuses, values at their limits.

use aileron_idl::flyteidl2::core::resources::{ResourceEntry, ResourceName};
use aileron_idl::flyteidl2::core::{
    Identity, K8sPod, KeyValuePair, RetryStrategy, SecurityContext, TaskTemplate, task_template::Target,
};
use aileron_parity::suite::{Space, Task};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde_json::{Value, json};

/// An odd action, and what must become of it.
pub struct OddAction {
    pub name: String,
    pub object: Value,
    /// Written to the status right after the action was created.
    pub status: Option<Value>,
    pub expected: Expected,
}

/// What must become of an odd action.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// It has a condition with a message.
    Told,
    /// It fails with a message that contains this.
    Fails(&'static str),
}

use Expected::{Fails, Told};

/// All odd actions.
pub fn odd_actions(space: &Space<'_>) -> Vec<OddAction> {
    let mut odd = Vec::new();
    odd.extend(
        odd_bytes()
            .into_iter()
            .map(|(name, bytes, expected)| of_spec(space, name, expected, |spec| spec["taskTemplate"] = json!(bytes))),
    );
    odd.extend(odd_templates().into_iter().map(|(name, expected, change)| {
        let mut task = Task::container(name);
        change(&mut task.template);
        of_task(space, &task, expected)
    }));
    odd.extend(odd_specs().into_iter().map(|(name, expected, change)| of_spec(space, name, expected, change)));
    odd.extend(task_types().into_iter().enumerate().map(|(index, task_type)| {
        let task = Task { task_type: task_type.to_owned(), ..Task::container(&format!("type-{index}")) };
        of_task(space, &task, Told)
    }));
    odd.extend(odd_statuses().into_iter().map(|(name, expected, status)| OddAction {
        status: Some(status),
        ..of_task(space, &Task::container(name), expected)
    }));
    odd.extend(odd_metadata().into_iter().map(|(name, change)| {
        let mut action = of_task(space, &Task::container(name), Told);
        json_patch::merge(&mut action.object, &json!({"metadata": change}));
        action
    }));
    odd
}

fn of_task(space: &Space<'_>, task: &Task, expected: Expected) -> OddAction {
    let mut object = serde_json::to_value(space.object(task)).unwrap();
    object["apiVersion"] = json!("flyte.org/v1");
    object["kind"] = json!("TaskAction");
    OddAction { name: task.name.clone(), object, status: None, expected }
}

fn of_spec(space: &Space<'_>, name: &str, expected: Expected, change: impl Fn(&mut Value)) -> OddAction {
    let mut action = of_task(space, &Task::container(name), expected);
    change(&mut action.object["spec"]);
    action
}

fn good_template() -> Vec<u8> {
    Task::container("good").template.encode_to_vec()
}

/// Base64 texts and bytes that are no template.
fn odd_bytes() -> Vec<(&'static str, String, Expected)> {
    let encoded = |bytes: &[u8]| STANDARD.encode(bytes);
    let good = good_template();
    let nested = (0..300).fold(Vec::new(), |inner: Vec<u8>, _| {
        // Field 1, a message of this length, which is itself nested.
        let mut outer = vec![0x0a];
        prost::encode_length_delimiter(inner.len(), &mut outer).unwrap();
        outer.extend(inner);
        outer
    });
    let broken_lines = encoded(&good).chars().enumerate().fold(String::new(), |mut text, (index, letter)| {
        if index % 76 == 75 {
            text.push_str("\r\n");
        }
        text.push(letter);
        text
    });
    vec![
        ("trailing-bits", "QR==".into(), Fails("taskTemplate")),
        ("trailing-bits-two", "QUJ=".into(), Fails("taskTemplate")),
        ("line-breaks", broken_lines, Told),
        ("no-base64", "!!!!".into(), Told),
        ("no-padding", "QQ".into(), Told),
        ("url-alphabet", "-_-_".into(), Told),
        ("unicode-base64", "ÄÖÜ=".into(), Told),
        ("empty-template", String::new(), Fails("taskTemplate")),
        ("truncated", encoded(&good[..good.len() / 2]), Fails("")),
        ("truncated-end", encoded(&good[..good.len() - 1]), Fails("")),
        ("all-ones", encoded(&[0xff; 64]), Fails("taskTemplate")),
        ("zeros", encoded(&[0; 64]), Fails("taskTemplate")),
        ("wrong-wire-type", encoded(&[0x08, 0x01]), Fails("taskTemplate")),
        ("group-wire-type", encoded(&[0x0b, 0x0c]), Fails("taskTemplate")),
        ("length-beyond-end", encoded(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]), Fails("taskTemplate")),
        ("invalid-utf8", encoded(&[0x12, 0x02, 0xff, 0xfe]), Fails("taskTemplate")),
        ("nested-deeply", encoded(&nested), Told),
        ("json-template", encoded(b"{\"type\": \"container\"}"), Fails("taskTemplate")),
        ("unknown-fields", encoded(&[good.as_slice(), &[0xfa, 0xff, 0x01, 0x01, 0x41]].concat()), Told),
        ("huge-noise", encoded(&[0xff; 600_000]), Fails("taskTemplate")),
        ("huge-unknown-field", encoded(&[good.as_slice(), &huge_field(500_000)].concat()), Told),
    ]
}

fn huge_field(length: usize) -> Vec<u8> {
    let mut bytes = vec![0xfa, 0xff, 0x01];
    prost::encode_length_delimiter(length, &mut bytes).unwrap();
    bytes.extend(vec![b'x'; length]);
    bytes
}

type TemplateChange = Box<dyn Fn(&mut TaskTemplate)>;

/// Templates that can be decoded and make little sense.
fn odd_templates() -> Vec<(&'static str, Expected, TemplateChange)> {
    let image = |image: &'static str| -> TemplateChange {
        Box::new(move |template| {
            if let Some(Target::Container(container)) = &mut template.target {
                container.image = image.into();
            }
        })
    };
    let resource = |amount: &'static str| -> TemplateChange {
        Box::new(move |template| {
            if let Some(Target::Container(container)) = &mut template.target {
                let entry = ResourceEntry { name: ResourceName::Cpu.into(), value: amount.into() };
                container.resources.get_or_insert_default().requests.push(entry);
            }
        })
    };
    let env = |key: &'static str, value: String| -> TemplateChange {
        Box::new(move |template| {
            if let Some(Target::Container(container)) = &mut template.target {
                container.env.push(KeyValuePair { key: key.into(), value: value.clone() });
            }
        })
    };
    let timeout = |seconds: i64, nanos: i32| -> TemplateChange {
        Box::new(move |template| {
            let metadata = template.metadata.get_or_insert_default();
            metadata.timeout = Some(prost_types::Duration { seconds, nanos });
        })
    };
    vec![
        ("no-target", Fails(""), Box::new(|template| template.target = None)),
        ("no-image", Told, image("")),
        ("odd-image", Told, image(":::: not an image")),
        ("unicode-image", Told, image("образ:1")),
        ("odd-cpu", Told, resource("lots")),
        ("negative-cpu", Told, resource("-1")),
        ("endless-cpu", Told, resource("1e999999")),
        ("empty-cpu", Told, resource("")),
        ("odd-env-name", Told, env("A=B C\n", "v".into())),
        ("empty-env-name", Told, env("", "v".into())),
        ("giant-env", Told, env("BIG", "x".repeat(300_000))),
        ("negative-timeout", Told, timeout(-5, -5)),
        ("endless-timeout", Told, timeout(i64::MAX, i32::MAX)),
        (
            "endless-retries",
            Told,
            Box::new(|template| {
                let retries = RetryStrategy { retries: u32::MAX, ..RetryStrategy::default() };
                template.metadata.get_or_insert_default().retries = Some(retries);
            }),
        ),
        (
            "no-such-template",
            Fails("no-such-template"),
            Box::new(|template| {
                template.metadata.get_or_insert_default().pod_template_name = "no-such-template".into();
            }),
        ),
        (
            "odd-account",
            Told,
            Box::new(|template| {
                let run_as = Identity { k8s_service_account: "NOT A NAME".into(), ..Identity::default() };
                template.security_context =
                    Some(SecurityContext { run_as: Some(run_as), ..SecurityContext::default() });
            }),
        ),
        (
            "pod-without-spec",
            Told,
            Box::new(|template| {
                template.target = Some(Target::K8sPod(K8sPod::default()));
            }),
        ),
        ("no-id", Told, Box::new(|template| template.id = None)),
        (
            "giant-args",
            Told,
            Box::new(|template| {
                if let Some(Target::Container(container)) = &mut template.target {
                    container.args = vec!["{{.inputs.".repeat(500)];
                }
            }),
        ),
        (
            "odd-name",
            Told,
            Box::new(|template| {
                template.id.get_or_insert_default().name = "имя/..\u{0}\u{202e}".repeat(100);
            }),
        ),
    ]
}

type SpecChange = Box<dyn Fn(&mut Value)>;

/// Specifications with odd locations and conflicting fields.
fn odd_specs() -> Vec<(&'static str, Expected, SpecChange)> {
    let set = |field: &'static str, value: Value| -> SpecChange { Box::new(move |spec| spec[field] = value.clone()) };
    vec![
        ("no-inputs", Fails("inputUri"), set("inputUri", json!(""))),
        ("no-output-base", Fails("runOutputBase"), set("runOutputBase", json!(""))),
        ("no-type", Fails("taskType"), set("taskType", json!(""))),
        ("odd-output-base", Fails(""), set("runOutputBase", json!("not a place"))),
        ("bare-output-base", Told, set("runOutputBase", json!("s3://"))),
        ("unknown-scheme", Told, set("runOutputBase", json!("carrier-pigeon://loft/out"))),
        ("lines-in-output-base", Told, set("runOutputBase", json!("file:///tmp/a\nb\tc"))),
        ("odd-inputs", Told, set("inputUri", json!("%%%://\u{202e}"))),
        ("long-inputs", Told, set("inputUri", json!(format!("s3://b/{}", "x/".repeat(50_000))))),
        ("group-at-limit", Told, set("group", json!("ü".repeat(256)))),
        ("cache-key-at-limit", Told, set("cacheKey", json!("\u{0}".repeat(256)))),
        ("env-vars", Told, set("envVars", json!({"": "empty", "=": "odd", "a b": "c", "UTF": "\u{1F4A9}"}))),
        ("many-env-vars", Told, set("envVars", (0..2_000).map(|n| (format!("V{n}"), json!("x"))).collect())),
        ("own-parent", Told, set("parentActionName", json!("own-parent"))),
        (
            "condition-of-noise",
            Told,
            Box::new(|spec| {
                spec["actionType"] = json!("condition");
                spec["conditionSpec"] = json!(STANDARD.encode([0xff; 16]));
            }),
        ),
        (
            "condition-trailing-bits",
            Told,
            Box::new(|spec| {
                spec["actionType"] = json!("condition");
                spec["conditionSpec"] = json!("QR==");
            }),
        ),
        ("task-with-condition", Told, set("conditionSpec", json!("QR=="))),
        ("null-fields", Told, set("interruptible", json!(null))),
    ]
}

/// Task types that no plugin declares, and types of operators whose settings are missing.
fn task_types() -> Vec<&'static str> {
    vec!["nobody", " ", "тип", "spark", "ray", "pytorch", "tensorflow", "mpi", "dask", "sidecar", "../../etc"]
}

/// Statuses that another client wrote.
fn odd_statuses() -> Vec<(&'static str, Expected, Value)> {
    let condition = |kind: &str, time: &str| json!([{"type": kind, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": time}]);
    vec![
        ("negative-attempts", Told, json!({"attempts": -1})),
        ("large-attempts", Told, json!({"attempts": 2_147_483_647})),
        ("negative-failures", Told, json!({"systemFailures": -5})),
        ("large-state-version", Told, json!({"pluginStateVersion": 300})),
        ("odd-state", Told, json!({"pluginState": "QR==", "pluginPhase": "PhaseRunning", "attempts": 1})),
        ("unknown-phase", Told, json!({"pluginPhase": "PhaseOfTheMoon", "pluginPhaseVersion": -7})),
        ("odd-cache-status", Told, json!({"cacheStatus": -99})),
        ("old-condition", Told, json!({"conditions": condition("Progressing", "0001-01-01T00:00:00Z")})),
        ("leap-second", Told, json!({"conditions": condition("Progressing", "2016-12-31T23:59:60Z")})),
        ("odd-history", Told, json!({"phaseHistory": [{"phase": "", "occurredAt": "9999-12-31T23:59:59Z"}]})),
        ("odd-signal", Told, json!({"signalValue": "QR==", "signalledBy": "x".repeat(10_000)})),
        ("giant-summary", Told, json!({"stateJson": "{".repeat(200_000)})),
    ]
}

/// Metadata at its limits.
fn odd_metadata() -> Vec<(&'static str, Value)> {
    let nested = (0..200).fold(json!({}), |inner, _| json!({"f:a": inner}));
    let owner = json!([{"apiVersion": "v1", "kind": "TaskAction", "name": "gone", "uid": "no-such-uid"}]);
    vec![
        ("long-labels", json!({"labels": {"a".repeat(63): "b".repeat(63)}})),
        ("many-labels", json!({"labels": (0..300).map(|n| (format!("l{n}"), json!("v"))).collect::<Value>()})),
        ("giant-annotation", json!({"annotations": {"big": "ß".repeat(50_000)}})),
        ("odd-owner", json!({"ownerReferences": owner})),
        ("our-labels", json!({"labels": {"flyte.org/managed": "true", "attempt": "many", "run": "x", "action": "y"}})),
        (
            "nested-managed-fields",
            json!({"managedFields": [{"manager": "m", "operation": "Update",
            "apiVersion": "flyte.org/v1", "fieldsType": "FieldsV1", "fieldsV1": nested}]}),
        ),
    ]
}
