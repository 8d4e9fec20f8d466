//! Tasks to build objects from, and clusters to look at, for the tests of plugins.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use aileron_idl::flyteidl2::core::{Container, TaskTemplate, task_template::Target};
use aileron_idl::json_to_struct;
use aileron_machinery::{Overrides, Platform, TaskContext, TaskExecutionId, TaskMetadata, TaskPaths};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::{Strategy, any, prop};
use serde_json::{Value, json};

/// A container task of some type with some settings.
pub(crate) fn task(task_type: &str, custom: Option<&Value>) -> TaskContext {
    let container = Container { image: "image:1".into(), args: vec!["run".into()], ..Container::default() };
    TaskContext {
        template: Arc::new(TaskTemplate {
            r#type: task_type.into(),
            custom: custom.map(|custom| json_to_struct(custom).unwrap()),
            target: Some(Target::Container(container)),
            ..TaskTemplate::default()
        }),
        metadata: Arc::new(TaskMetadata {
            id: TaskExecutionId { generated_name: "run-a0-0".into(), ..TaskExecutionId::default() },
            namespace: "p-d".into(),
            max_attempts: 2,
            overrides: Overrides { resources: Some(Default::default()), ..Overrides::default() },
            ..TaskMetadata::default()
        }),
        paths: Arc::new(TaskPaths::default()),
        inputs: None,
        platform: Platform::default(),
        now: "2009-11-10T23:00:00Z".parse().unwrap(),
    }
}

/// A pod with one container.
pub(crate) fn pod(name: &str, container: &str, status: &Value) -> Arc<Pod> {
    let object = json!({
        "metadata": {"name": name, "namespace": "p-d"},
        "spec": {"containers": [{"name": container}]}, "status": status,
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

/// Settings that fit now and then: objects whose keys are often ones that a plugin knows.
pub(crate) fn any_settings(keys: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = proptest::prop_oneof![
        proptest::strategy::Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        proptest::prop_oneof!["[0-9]{1,3}(m|Gi|e9)?", "\\PC{0,8}"].prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 40, 6, move |inner| {
        let key = proptest::prop_oneof![4 => proptest::sample::select(keys).prop_map(str::to_owned), 1 => "[a-z]{1,5}"];
        proptest::prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6).prop_map(|map| json!(map)),
        ]
    });
    value.prop_map(|value| if value.is_object() { value } else { json!({"value": value}) })
}
