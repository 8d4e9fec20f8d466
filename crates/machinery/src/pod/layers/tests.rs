#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use aileron_idl::flyteidl2::core::resources::{ResourceEntry, ResourceName};
use aileron_idl::flyteidl2::core::task_template::Target;
use aileron_idl::flyteidl2::core::{
    Container, GpuAccelerator, K8sPod, KeyValuePair, Resources, SharedMemory, TaskTemplate,
};
use aileron_idl::json_to_struct;
use k8s_openapi::api::core::v1::{EnvVar, PodSpec, PodTemplate};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::pod::merge::{merge_onto_template, merge_overlay};
use crate::{Overrides, Platform, PodTemplates, TaskExecutionId, TaskMetadata, TaskPaths};

fn task(template: TaskTemplate, platform: Platform) -> TaskContext {
    TaskContext {
        template: Arc::new(template),
        metadata: Arc::new(TaskMetadata {
            id: TaskExecutionId { generated_name: "run-a0-0".into(), run: "run".into(), ..Default::default() },
            namespace: "team".into(),
            overrides: Overrides { resources: Some(ResourceRequirements::default()), ..Default::default() },
            ..Default::default()
        }),
        paths: Arc::new(TaskPaths::default()),
        inputs: None,
        platform,
        now: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn container_task(env: &[(&str, &str)]) -> TaskTemplate {
    let env = env.iter().map(|(key, value)| KeyValuePair { key: (*key).into(), value: (*value).into() }).collect();
    let container = Container { image: "image:1".into(), env, ..Default::default() };
    TaskTemplate { target: Some(Target::Container(container)), ..Default::default() }
}

fn pod_task(spec: &Value, primary: &str) -> TaskTemplate {
    let pod = K8sPod { pod_spec: Some(json_to_struct(spec).unwrap()), ..Default::default() };
    TaskTemplate {
        target: Some(Target::K8sPod(pod)),
        config: [("primary_container_name".to_owned(), primary.to_owned())].into(),
        ..Default::default()
    }
}

fn with_template(spec: &Value) -> Platform {
    let template: PodTemplate = serde_json::from_value(json!({
        "metadata": {"name": "base", "namespace": "flyte"}, "template": {"metadata": {"labels": {"l": "t"}}, "spec": spec},
    }))
    .unwrap();
    let mut templates = PodTemplates::new("flyte");
    templates.insert(template);
    let config = K8sConfig { default_pod_template_name: "base".into(), ..Default::default() };
    Platform { k8s: Arc::new(config), pod_templates: Arc::new(templates), ..Default::default() }
}

fn env_names(env: Option<&Vec<EnvVar>>) -> Vec<&str> {
    env.into_iter().flatten().map(|variable| variable.name.as_str()).collect()
}

#[test]
fn a_plain_container_becomes_a_pod() {
    let task = task(container_task(&[("A", "1")]), Platform::default());
    let draft = build_pod(&task, PodOptions::default()).unwrap();
    assert_eq!(draft.primary_container, "run-a0-0");
    assert_eq!(draft.spec.restart_policy.as_deref(), Some("Never"));
    assert_eq!(draft.spec.enable_service_links, Some(false));
    assert_eq!(draft.spec.containers.len(), 1);
    let container = &draft.spec.containers[0];
    assert_eq!(container.image.as_deref(), Some("image:1"));
    assert_eq!(env_names(container.env.as_ref())[..2], ["A", "FLYTE_INTERNAL_EXECUTION_ID"]);
    assert_eq!(container.resources.clone().unwrap().limits.unwrap()["memory"].0, "1Gi");
}

#[test]
fn one_tasks_environment_does_not_reach_the_next_pod_of_the_same_template() {
    let platform = with_template(&json!({"containers": [{"name": "run-a0-0", "env": [{"name": "T", "value": "1"}]}]}));
    let first = task(container_task(&[("FIRST", "1")]), platform.clone());
    let second = task(container_task(&[("SECOND", "1")]), platform);
    build_pod(&first, PodOptions::default()).unwrap();
    let draft = build_pod(&second, PodOptions::default()).unwrap();
    assert_eq!(env_names(draft.spec.containers[0].env.as_ref())[..2], ["T", "SECOND"]);
    assert_eq!(draft.metadata.labels.unwrap()["l"], "t");
}

#[test]
fn a_side_container_gets_the_amounts_of_the_template_that_it_does_not_set_itself() {
    let resources = json!({"limits": {"cpu": "9", "memory": "2Gi"}, "requests": {"cpu": "3"}});
    let platform = with_template(&json!({"containers": [{"name": "default", "resources": resources}]}));
    let spec = json!({"containers": [
        {"name": "main", "image": "i"},
        {"name": "side", "image": "i", "resources": {"requests": {"cpu": "1"}}},
    ]});
    let draft = build_pod(&task(pod_task(&spec, "main"), platform), PodOptions::default()).unwrap();
    let side = draft.spec.containers.iter().find(|container| container.name == "side").unwrap();
    assert_eq!(
        serde_json::to_value(&side.resources).unwrap(),
        json!({"limits": {"cpu": "9", "memory": "2Gi"}, "requests": {"cpu": "1"}})
    );
}

#[test]
fn options_differ_from_the_task_for_one_pod() {
    let config =
        K8sConfig { interruptible_node_selector: [("spot".to_owned(), "yes".to_owned())].into(), ..Default::default() };
    let task = task(container_task(&[]), Platform { k8s: Arc::new(config), ..Default::default() });
    let shared_memory = SharedMemory { mount_name: "shm".into(), mount_path: "/dev/shm".into(), ..Default::default() };
    let options = PodOptions {
        interruptible: Some(true),
        extended_resources: Some(ExtendedResources { shared_memory: Some(shared_memory), ..Default::default() }),
        ..Default::default()
    };
    let draft = build_pod(&task, options).unwrap();
    assert_eq!(draft.spec.node_selector.unwrap()["spot"], "yes");
    assert_eq!(draft.spec.volumes.unwrap()[0].name, "shm");
    let draft = build_pod(&task, PodOptions::default()).unwrap();
    assert!(draft.spec.volumes.is_none() && draft.spec.node_selector.is_none());
}

#[test]
fn a_task_without_a_target_is_refused() {
    let error = build_pod(&task(TaskTemplate::default(), Platform::default()), PodOptions::default()).unwrap_err();
    assert_eq!(error.code(), crate::code::BAD_TASK_SPECIFICATION);
}

#[test]
fn watching_the_layers_changes_nothing_and_every_layer_has_its_own_name() {
    let task = task(container_task(&[("A", "1")]), with_template(&json!({"containers": [{"name": "default"}]})));
    let cx = LayerContext::new(&task, PodOptions::default());
    let mut seen = Vec::new();
    let mut last = None;
    let observed = apply_observed(task_pod_layers(), &cx, |name, draft| {
        seen.push(name);
        last = Some(draft.clone());
    });
    let observed = observed.unwrap();
    assert_eq!(Some(&observed), last.as_ref());
    assert_eq!(observed, build_pod(&task, PodOptions::default()).unwrap());
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
}

/// Pod specs that are nearly right: the fields exist, their values may be of any kind.
fn nearly_a_spec() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        prop::sample::select(&["", "main", "side", "1Gi", "x", "{{.input}}", "{{.inputs.x}}"][..])
            .prop_map(Value::from),
    ];
    let fields = &[
        "containers",
        "initContainers",
        "name",
        "args",
        "env",
        "resources",
        "limits",
        "requests",
        "cpu",
        "gpu",
        "volumes",
        "emptyDir",
        "sizeLimit",
        "tolerations",
        "affinity",
        "nodeAffinity",
        "securityContext",
        "overhead",
    ][..];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(fields), inner, 0..5)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

fn containers(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name, "env": [{"name": name}]})).collect()
}

fn some_names() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(&["main", "side", "default", "primary", "default-init"][..]), 0..4)
}

/// Layers that fill in what is missing; the others add to lists or replace texts.
const FILLING: [&str; 14] = [
    "resources",
    "restart policy",
    "service account",
    "scheduler",
    "node selector",
    "default affinity",
    "pod security context",
    "host network",
    "DNS",
    "interruptible affinity",
    "container security context",
    "accelerator placement",
    "image override",
    "extended resource tolerations",
];

prop_compose! {
    /// What an operator may set and a task may meet.
    fn any_config()(
        selector in some_map(), spot_selector in some_map(), security in any::<bool>(), dns in any::<bool>(),
        host_network in prop::option::of(any::<bool>()), scheduler in prop::sample::select(&["", "volcano"][..]),
        requirement in any::<bool>(), affinity in any::<bool>(), extended in any::<bool>(),
    ) -> K8sConfig {
        let requirement = requirement.then(|| json!({"key": "spot", "operator": "Exists"}));
        let term = json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]});
        let affinity = affinity.then(|| {
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}})
        });
        K8sConfig {
            default_node_selector: selector,
            interruptible_node_selector: spot_selector,
            default_pod_security_context: security.then(|| serde_json::from_value(json!({"runAsUser": 1})).unwrap()),
            default_security_context: security.then(|| serde_json::from_value(json!({"runAsUser": 2})).unwrap()),
            default_pod_dns_config: dns.then(|| serde_json::from_value(json!({"searches": ["x"]})).unwrap()),
            enable_host_networking_pod: host_network,
            scheduler_name: scheduler.to_owned(),
            interruptible_node_selector_requirement: requirement.map(|json| serde_json::from_value(json).unwrap()),
            default_affinity: affinity.map(|json| serde_json::from_value(json).unwrap()),
            add_tolerations_for_extended_resources: extended.then(|| "nvidia.com/gpu".to_owned()).into_iter().collect(),
            ..Default::default()
        }
    }
}

fn some_map() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    prop::collection::btree_map(prop::sample::select(&["spot", "disk"][..]).prop_map(str::to_owned), "[ab]", 0..3)
}

fn gpu_task(gpus: u8, device: &str) -> TaskTemplate {
    let mut template = container_task(&[("A", "1")]);
    let entry = ResourceEntry { name: ResourceName::Gpu.into(), value: gpus.to_string() };
    if let Some(Target::Container(container)) = &mut template.target {
        container.resources = Some(Resources { limits: vec![entry], ..Default::default() });
    }
    let accelerator = GpuAccelerator { device: device.into(), ..Default::default() };
    template.extended_resources = Some(ExtendedResources { gpu_accelerator: Some(accelerator), ..Default::default() });
    template
}

proptest! {
    #[test]
    fn filling_in_twice_is_filling_in_once(
        config in any_config(), interruptible in any::<bool>(), gpus in 0..3_u8,
        device in prop::sample::select(&["", "a100"][..]), merged in any::<bool>(),
    ) {
        let mut platform = if merged {
            with_template(&json!({"containers": [{"name": "default", "env": [{"name": "T"}]}]}))
        } else {
            Platform::default()
        };
        let default_pod_template_name = platform.k8s.default_pod_template_name.clone();
        platform.k8s = Arc::new(K8sConfig { default_pod_template_name, ..config });
        let task = task(gpu_task(gpus, device), platform);
        let cx = LayerContext::new(&task, PodOptions { interruptible: Some(interruptible), ..Default::default() });
        let built = apply(task_pod_layers(), &cx).unwrap();
        let filling: Vec<_> = task_pod_layers().filter(|layer| FILLING.contains(&layer.name)).collect();
        prop_assert_eq!(filling.len(), FILLING.len());
        for layer in filling {
            let mut again = built.clone();
            (layer.apply)(&mut again, &cx).unwrap();
            prop_assert_eq!(&again, &built, "{}", layer.name);
        }
    }

    #[test]
    fn any_template_gives_a_pod_or_an_error_and_always_the_same(spec in nearly_a_spec(), names in some_names()) {
        let mut spec = spec;
        if let Value::Object(fields) = &mut spec {
            fields.insert("containers".into(), containers(&names));
            let task = task(pod_task(&spec, "main"), with_template(&json!({"containers": containers(&["default", "side"])})));
            let build = || build_pod(&task, PodOptions::default()).map_err(|error| error.to_string());
            prop_assert_eq!(build(), build());
        }
    }

    #[test]
    fn merging_with_a_template_loses_no_container_and_adds_none(task in some_names(), template in some_names()) {
        let spec = |names: &[&str]| -> PodSpec {
            serde_json::from_value(json!({"containers": containers(names), "initContainers": containers(names)})).unwrap()
        };
        let merged = merge_onto_template(&spec(&template), &spec(&task), "main", "").unwrap();
        let names = |containers: &[k8s_openapi::api::core::v1::Container]| -> Vec<String> {
            containers.iter().map(|container| container.name.clone()).collect()
        };
        prop_assert_eq!(names(&merged.containers), task.clone());
        prop_assert_eq!(names(merged.init_containers.as_deref().unwrap()), task);
        for container in &merged.containers {
            prop_assert!(env_names(container.env.as_ref()).contains(&container.name.as_str()));
        }
        let laid_over = merge_overlay(&merged, &spec(&template)).unwrap();
        prop_assert_eq!(names(&laid_over.containers), names(&merged.containers));
    }
}
