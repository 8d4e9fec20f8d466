//! JSON Schema, example file, reference page, and the printed configuration in effect.

use serde_json::Value;

use super::{files, load, loaded};
use crate::{Config, Secrets, Selection, dump, example, markdown, schema, show};

#[test]
fn loading_the_example_gives_the_default_configuration() {
    let loaded = loaded(&files(&[&example()]));
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings, []);
}

#[test]
fn every_key_is_documented() {
    let schema = schema();
    let mut undocumented = Vec::new();
    let definitions = schema["$defs"].as_object().unwrap().iter().filter(|(name, _)| !name.starts_with("io.k8s."));
    for (name, definition) in definitions.chain([(&"Config".to_owned(), &schema)]) {
        for (key, property) in definition.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if property.get("description").is_none() {
                undocumented.push(format!("{name}.{key}"));
            }
        }
    }
    assert_eq!(undocumented, Vec::<String>::new());
}

#[test]
fn the_reference_page_has_every_section_and_marks_keys_that_only_aileron_has() {
    let page = markdown();
    for heading in ["## `executor.gc`\n", "## `plugins.k8s.co-pilot`\n", "## `storage.stow`\n", "## `webhook`\n"] {
        assert!(page.contains(heading), "{heading}");
    }
    let ours = page.lines().filter(|line| line.contains("**Aileron only.**"));
    assert!(ours.clone().any(|line| line.starts_with("| `enabled-plugins` ")));
    assert!(ours.into_iter().all(|line| !line.starts_with("| `default-for-task-types` ")));
}

#[test]
fn links_of_the_reference_page_lead_somewhere() {
    let page = markdown();
    let headings: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|title| title.to_lowercase().replace(['.', '`'], "").replace(' ', "-"))
        .collect();
    for link in page.split("](#").skip(1) {
        let target = link.split(')').next().unwrap();
        assert!(headings.iter().any(|heading| heading == target), "{target}");
    }
}

#[test]
fn values_are_shown_with_their_origin() {
    let mut sources = files(&[
        "executor:\n  cluster: east\nplugins:\n  k8s:\n    default-env-vars:\n      - FOO: bar\n",
        "storage:\n  stow:\n    config:\n      secret_key: hush\n",
    ]);
    sources.environment.insert("EXECUTOR.MAXSYSTEMFAILURES".into(), "4".into());
    sources.flags.push(("plugins.k8s.default-cpus".into(), "2000m".into()));
    let loaded = loaded(&sources);
    assert_eq!(
        show(&loaded, Selection::Set, Secrets::Hidden),
        "\
executor:
  cluster: east # a.yaml:2
  maxSystemFailures: 4 # environment variable EXECUTOR.MAXSYSTEMFAILURES
plugins:
  k8s:
    default-cpus: \"2\" # flag --plugins.k8s.default-cpus
    default-env-vars: # a.yaml:5
      - FOO: \"<hidden>\" # a.yaml:6
storage:
  stow:
    config: # b.yaml:3
      secret_key: \"<hidden>\" # b.yaml:4
"
    );
    assert!(show(&loaded, Selection::All, Secrets::Hidden).contains("\n  leaderElect: false # default\n"));
}

#[test]
fn what_is_shown_can_be_loaded() {
    let text = "plugins: {k8s: {default-labels: [{Upper: c}], default-tolerations: [{key: a}]}, spark: {features: [{name: f}]}}";
    let loaded = loaded(&files(&[text]));
    assert_eq!(load(&show(&loaded, Selection::All, Secrets::Shown)), loaded.config);
}

#[test]
fn the_dump_leaves_out_keys_that_only_aileron_has() {
    let config = load("tasks: {task-plugins: {enabled-plugins: [spark], default-for-task-types: {a: b}}}");
    assert_eq!(config.tasks.task_plugins.enabled_plugins, ["spark"]);
    assert_eq!(dump(&config)["tasks"], serde_json::json!({"task-plugins": {"default-for-task-types": {"a": "b"}}}));
}
