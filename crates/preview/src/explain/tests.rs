#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use aileron_config::{Loader, Sources};
use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, PluginSet, TaskContext};
use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;

use super::*;
use crate::read;
use crate::render::METADATA_STEP;

const TASK: &str = r#"
kind: TaskAction
metadata: {name: r1-a0, namespace: team-a, uid: u, labels: {team: vision}}
spec:
  runName: r1
  project: p
  domain: d
  actionName: a0
  inputUri: s3://data/in
  runOutputBase: s3://data/out
  taskType: python
  interruptible: true
  envVars: {LEVEL: debug}
  taskTemplate:
    id: {name: train.step}
    type: python
    metadata: {pod_template_name: base}
    container:
      image: "image:1"
      args: [--out, "{{.outputPrefix}}"]
      resources: {requests: [{name: CPU, value: "2"}]}
"#;

const CONFIG: &str = r#"
plugins:
  k8s:
    default-cpus: 500m
    scheduler-name: volcano
    inject-finalizer: true
    default-tolerations: [{key: flyte, operator: Exists}]
    interruptible-node-selector: {spot: "yes"}
    default-labels: {team: platform}
    default-env-vars-from-env: {region: REGION}
"#;

const POD_TEMPLATE: &str = r#"
kind: PodTemplate
metadata: {name: base, namespace: flyte}
template:
  spec:
    schedulerName: other
    tolerations: [{key: gpu, operator: Exists}]
    containers: [{name: default, image: unused, terminationMessagePath: /t, env: [{name: T, value: "1"}]}]
"#;

fn loaded(config: &str) -> Loaded {
    Loader::new().load(&Sources::file("config.yaml", config)).unwrap()
}

fn offline(task: &str, loaded: &Loaded, pod_template: &str) -> Offline {
    let given = read::task(task.as_bytes()).unwrap();
    Offline {
        action: given.action,
        template: given.template,
        config: loaded.config.clone(),
        plugins: Arc::new(|config| aileron_plugins::builtin(&(&config.plugins).into())),
        pod_templates: vec![read::pod_template(pod_template.as_bytes()).unwrap()],
        inputs: None,
        environment: [("REGION".to_owned(), "eu-1".to_owned())].into(),
        executor_namespace: "flyte".into(),
        now: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn of<'a>(explanation: &'a Explanation, path: &str) -> &'a Field {
    explanation.fields.iter().find(|field| field.path.to_string() == path).unwrap()
}

fn told(sources: &[Source]) -> Vec<String> {
    sources.iter().map(ToString::to_string).collect()
}

#[test]
fn every_kind_of_source_is_found() {
    let loaded = loaded(CONFIG);
    let explanation = explain(&offline(TASK, &loaded, POD_TEMPLATE), &loaded).unwrap();
    let expected = [
        ("spec.containers[0].image", "task target", "task container.image"),
        ("spec.containers[0].terminationMessagePath", "pod template", TERMINATION),
        ("spec.schedulerName", "scheduler", "config plugins.k8s.scheduler-name (config.yaml:5)"),
        (
            "spec.nodeSelector.spot",
            "node selector",
            "config plugins.k8s.interruptible-node-selector.spot (config.yaml:8)",
        ),
        ("spec.tolerations[1].key", "tolerations", "config plugins.k8s.default-tolerations (config.yaml:7)"),
        ("spec.tolerations[0].key", "pod template", "PodTemplate flyte/base template.spec.tolerations[0].key"),
        ("metadata.labels.run", METADATA_STEP, "action spec.runName"),
        ("metadata.labels.task-name", METADATA_STEP, "task id.name"),
        ("metadata.namespace", METADATA_STEP, "action metadata.namespace"),
    ];
    for (path, layer, source) in expected {
        let field = of(&explanation, path);
        assert_eq!((field.layer.as_str(), told(&field.sources)), (layer, vec![source.to_owned()]), "{path}");
    }
    let value_of = |name: &str| {
        let named = explanation.fields.iter().find(|field| field.value == name).unwrap().path.to_string();
        of(&explanation, &named.replace(".name", ".value"))
    };
    assert_eq!(told(&value_of("LEVEL").sources), ["action spec.envVars.LEVEL"]);
    assert_eq!(told(&value_of("region").sources), ["variable REGION of the executor"]);
    let built_in = of(&explanation, "spec.restartPolicy");
    assert!(built_in.sources.is_empty() && built_in.conditions.is_empty());
}

const TERMINATION: &str = "PodTemplate flyte/base template.spec.containers[0].terminationMessagePath";

#[test]
fn what_only_decides_is_told_apart_from_what_is_held() {
    let loaded = loaded(CONFIG);
    let explanation = explain(&offline(TASK, &loaded, POD_TEMPLATE), &loaded).unwrap();
    assert_eq!(told(&of(&explanation, "spec.nodeSelector.spot").conditions), ["action spec.interruptible"]);
    let finalizer = of(&explanation, "metadata.finalizers[0]");
    assert!(finalizer.sources.is_empty());
    assert_eq!(told(&finalizer.conditions), ["config plugins.k8s.inject-finalizer (config.yaml:6)"]);
    let argument = of(&explanation, "spec.containers[0].args[1]");
    assert!(told(&argument.sources).contains(&"task container.args[1]".to_owned()), "{argument:?}");
    assert!(told(&argument.sources).contains(&"action spec.actionName".to_owned()), "{argument:?}");
}

#[test]
fn losers_are_those_overwritten_and_those_that_would_have_stood() {
    let loaded = loaded(CONFIG);
    let explanation = explain(&offline(TASK, &loaded, POD_TEMPLATE), &loaded).unwrap();
    let lost = |path: &str| -> Vec<(String, Value, Option<String>)> {
        let lost = of(&explanation, path).lost.iter();
        lost.map(|lost| (lost.layer.clone(), lost.value.clone(), lost.source.as_ref().map(ToString::to_string)))
            .collect()
    };
    let row = |layer: &str, value: &str, source: Option<&str>| {
        vec![(layer.to_owned(), json!(value), source.map(ToOwned::to_owned))]
    };
    assert_eq!(lost("spec.containers[0].args[1]"), row("task target", "{{.outputPrefix}}", None));
    let source = "PodTemplate flyte/base template.spec.schedulerName";
    assert_eq!(lost("spec.schedulerName"), row("pod template", "other", Some(source)));
    let source = "config plugins.k8s.default-labels.team (config.yaml:9)";
    assert_eq!(lost("metadata.labels.team"), row(METADATA_STEP, "platform", Some(source)));
    let source = "config plugins.k8s.default-cpus (config.yaml:4)";
    assert_eq!(lost("spec.containers[0].resources.requests.cpu"), row("resources", "500m", Some(source)));
    assert!(lost("metadata.namespace").is_empty());
}

#[test]
fn the_choice_of_the_plugin_decides_about_no_single_field() {
    let loaded = loaded(CONFIG);
    let mut offline = offline(TASK, &loaded, POD_TEMPLATE);
    offline.plugins = Arc::new(|config| aileron_plugins::builtin(&(&config.plugins).into()).with(Plain));
    offline.action.spec.task_type = "plain".into();
    let explanation = explain(&offline, &loaded).unwrap();
    let by_type =
        explanation.fields.iter().filter(|field| told(&field.conditions).contains(&"action spec.taskType".into()));
    assert_eq!(by_type.count(), 0);
}

/// A plugin that knows nothing of layers.
struct Plain;

impl K8sPlugin for Plain {
    type Resource = ConfigMap;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("plain", &["plain"])
    }

    fn build(&self, task: &TaskContext) -> Result<ConfigMap, PluginError> {
        let scheduler = task.platform.k8s.scheduler_name.clone();
        let data = [("who".to_owned(), task.metadata.id.run.clone()), ("scheduler".to_owned(), scheduler)];
        Ok(ConfigMap { data: Some(data.into()), ..ConfigMap::default() })
    }

    fn phase(&self, _: &PhaseContext<'_>, _: &ConfigMap) -> Result<PhaseInfo, PluginError> {
        Ok(PhaseInfo::undefined())
    }

    fn is_terminal(&self, _: &ConfigMap) -> bool {
        true
    }
}

#[test]
fn a_plugin_without_layers_is_explained_too() {
    let loaded = loaded(CONFIG);
    let mut offline = offline(TASK, &loaded, POD_TEMPLATE);
    offline.plugins = Arc::new(|_| PluginSet::new().with(Plain));
    offline.action.spec.task_type = "plain".into();
    let explanation = explain(&offline, &loaded).unwrap();
    assert_eq!(explanation.plugin, "plain");
    let scheduler = of(&explanation, "data.scheduler");
    assert_eq!(scheduler.layer, "build");
    assert_eq!(told(&scheduler.sources), ["config plugins.k8s.scheduler-name (config.yaml:5)"]);
    assert_eq!(told(&of(&explanation, "data.who").sources), ["action spec.runName"]);
    assert_eq!(of(&explanation, "metadata.name").layer, METADATA_STEP);
    assert_eq!(explanation.rebuilt(), explanation.object);
}

/// Values for fields of configuration, task and pod template that meet in the same fields of the object.
fn some(values: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> {
    prop::option::of(prop::sample::select(values))
}

prop_compose! {
    fn any_config()(
        scheduler in some(&["volcano", "other"]),
        cpus in some(&["1", "500m", "3"]),
        labels in some(&["{team: platform}", "{run: mine, l: x}"]),
        tolerations in some(&["[{key: a}]", "[{key: a}, {key: gpu, operator: Exists}]"]),
        selector in some(&["{spot: \"no\"}", "{disk: ssd}"]),
        security in some(&["{runAsUser: 1}", "{fsGroup: 2, runAsNonRoot: true}"]),
        finalizer in any::<bool>(),
        env in some(&["[{A: config}]", "[{A: config}, {T: config}]"]),
    ) -> String {
        let keys = [
            ("scheduler-name", scheduler), ("default-cpus", cpus), ("default-labels", labels),
            ("default-tolerations", tolerations), ("default-node-selector", selector),
            ("default-pod-security-context", security), ("default-env-vars", env),
        ];
        let set = keys.iter().filter_map(|(key, value)| Some(format!("    {key}: {}\n", (*value)?)));
        format!("plugins:\n  k8s:\n    inject-finalizer: {finalizer}\n{}", set.collect::<String>())
    }
}

prop_compose! {
    fn any_task()(
        as_pod in any::<bool>(),
        env in some(&["A", "T", "OWN"]),
        scheduler in some(&["volcano", "own"]),
        tolerations in some(&["[]", "[{key: gpu, operator: Exists}, {key: z}]"]),
        interruptible in any::<bool>(),
        cpu in some(&["1", "8", "250m"]),
        template in any::<bool>(),
    ) -> String {
        let head = TASK.split("  taskTemplate:").next().unwrap_or_default();
        let head = head.replace("interruptible: true", &format!("interruptible: {interruptible}"));
        let named = if template { "metadata: {pod_template_name: base}, " } else { "" };
        let target = if as_pod {
            let env = env.map_or_else(String::new, |name| format!("env: [{{name: {name}, value: task}}], "));
            let scheduler = scheduler.map_or_else(String::new, |name| format!("schedulerName: {name}, "));
            let tolerations = tolerations.map_or_else(String::new, |list| format!("tolerations: {list}, "));
            format!(
                "config: {{primary_container_name: main}}, k8s_pod: {{pod_spec: {{{scheduler}{tolerations}\
                 containers: [{{{env}name: main, image: i}}, {{name: side, image: s}}]}}}}"
            )
        } else {
            let env = env.map_or_else(String::new, |name| format!("env: [{{key: {name}, value: task}}], "));
            let cpu = cpu.map_or_else(String::new, |cpu| format!("resources: {{requests: [{{name: CPU, value: \"{cpu}\"}}]}}, "));
            format!("container: {{{env}{cpu}image: i}}")
        };
        format!("{head}  taskTemplate: {{type: python, {named}{target}}}\n")
    }
}

/// Every field has one layer and its own place, and together they are the object.
fn adds_up(fields: &[Traced], object: &Value) -> Result<(), TestCaseError> {
    let paths: BTreeSet<_> = fields.iter().map(|field| &field.path).collect();
    prop_assert_eq!(paths.len(), fields.len());
    let mut rebuilt = Value::Object(Map::new());
    for field in fields {
        prop_assert!(!field.won.layer.is_empty());
        prop_assert!(field.lost.last().is_none_or(|lost| lost.value != field.won.value));
        field.path.set(&mut rebuilt, field.won.value.clone());
    }
    prop_assert_eq!(&rebuilt, object);
    Ok(())
}

proptest! {
    #[test]
    fn the_winning_layers_add_up_to_the_object(task in any_task(), config in any_config()) {
        let loaded = loaded(&config);
        let offline = offline(&task, &loaded, POD_TEMPLATE);
        let object = offline.render().unwrap().object;
        let (rendered, fields) = traced(&offline).unwrap();
        prop_assert_eq!(&rendered.object, &object);
        adds_up(&fields, &object)?;
    }
}

proptest! {
    // Hundreds of objects are built for each explanation.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_sources_add_up_to_the_object(task in any_task(), config in any_config()) {
        let loaded = loaded(&config);
        let offline = offline(&task, &loaded, POD_TEMPLATE);
        let explanation = explain(&offline, &loaded).unwrap();
        prop_assert_eq!(explanation.rebuilt(), offline.render().unwrap().object);
        prop_assert_eq!(&explanation.object, &offline.render().unwrap().object);
        for field in &explanation.fields {
            prop_assert!(field.conditions.iter().all(|source| !field.sources.contains(source)));
            prop_assert!(field.lost.iter().all(|lost| lost.value != field.value), "{:?}", field);
        }
    }
}
