//! The plugin that `docs/plugins.md` explains, compiled and tested as a plugin author would do it. The page shows what
//! stands between the two marks, and a test of `aileron-parity` keeps the two equal.
#![allow(clippy::unwrap_used, missing_docs)]

// begin: docs/plugins.md
use aileron_idl::struct_to_json;
use aileron_machinery::pod::phase::{is_terminal, pod_phase};
use aileron_machinery::pod::{PRIMARY_CONTAINER_KEY, PodOptions, build_pod};
use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext, TaskInfo};
use k8s_openapi::api::core::v1::{EnvVar, Pod};

/// Runs the task's container with the language that the task asks for.
struct Greeting;

impl K8sPlugin for Greeting {
    type Resource = Pod;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("greeting", &["greeting"])
    }

    fn build(&self, task: &TaskContext) -> Result<Pod, PluginError> {
        let language = language(task)?;
        // Everything that any pod of the platform gets: resources, environment, tolerations, templates ...
        let mut draft = build_pod(task, PodOptions::default())?;
        let variable = EnvVar { name: "GREETING_LANGUAGE".into(), value: Some(language), value_from: None };
        draft.primary()?.env.get_or_insert_default().push(variable);
        // The task ends when this container does, whatever side-cars a pod template brings along.
        draft.annotate(PRIMARY_CONTAINER_KEY, draft.primary_container.clone());
        Ok(Pod { metadata: draft.metadata, spec: Some(draft.spec), status: None })
    }

    fn phase(&self, cx: &PhaseContext<'_>, pod: &Pod) -> Result<PhaseInfo, PluginError> {
        let task = cx.task;
        let phase = pod_phase(pod, &task.platform.k8s, task.now, TaskInfo::at(task.now));
        // Others ignore a second report of the same phase and version; this raises the version if there is news.
        Ok(phase.newer_than(cx.prior))
    }

    fn is_terminal(&self, pod: &Pod) -> bool {
        is_terminal(pod)
    }
}

/// `custom.language` of the template. A task without it fails the same way each time, so it is not tried again.
fn language(task: &TaskContext) -> Result<String, PluginError> {
    let custom = task.template.custom.as_ref().map(struct_to_json).transpose();
    let custom = custom.map_err(|error| PluginError::bad_task_specification(error.to_string()))?.unwrap_or_default();
    match custom["language"].as_str() {
        Some(language) if !language.is_empty() => Ok(language.to_owned()),
        _ => {
            Err(PluginError::bad_task_specification("custom.language is missing; name a language, for example \"de\""))
        }
    }
}
// end: docs/plugins.md

// begin test: docs/plugins.md
mod tests {
    use std::sync::Arc;

    use aileron_idl::flyteidl2::core::{Container, TaskTemplate, task_template::Target};
    use aileron_idl::json_to_struct;
    use aileron_machinery::{ObservedPhase, Overrides, Phase, Platform, TaskExecutionId, TaskMetadata, TaskPaths};
    use serde_json::{Value, json};

    use super::*;

    fn task(custom: &Value) -> TaskContext {
        let container = Container { image: "hello:1".into(), ..Container::default() };
        TaskContext {
            template: Arc::new(TaskTemplate {
                r#type: "greeting".into(),
                custom: Some(json_to_struct(custom).unwrap()),
                target: Some(Target::Container(container)),
                ..TaskTemplate::default()
            }),
            metadata: Arc::new(TaskMetadata {
                id: TaskExecutionId { generated_name: "run-a0-0".into(), ..TaskExecutionId::default() },
                overrides: Overrides { resources: Some(Default::default()), ..Overrides::default() },
                ..TaskMetadata::default()
            }),
            paths: Arc::new(TaskPaths::default()),
            inputs: None,
            platform: Platform::default(),
            now: "2009-11-10T23:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn the_language_reaches_the_container() {
        let pod = Greeting.build(&task(&json!({"language": "de"}))).unwrap();
        let spec = pod.spec.unwrap();
        let variable = spec.containers[0].env.iter().flatten().find(|variable| variable.name == "GREETING_LANGUAGE");
        assert_eq!(variable.unwrap().value.as_deref(), Some("de"));
    }

    #[test]
    fn a_task_without_a_language_cannot_work() {
        let error = Greeting.build(&task(&json!({}))).unwrap_err();
        assert_eq!(error.non_retryable_code(), Some("BadTaskSpecification"));
    }

    #[test]
    fn the_phase_is_that_of_the_primary_container() {
        let task = task(&json!({"language": "de"}));
        let mut pod = Greeting.build(&task).unwrap();
        let phase = |pod: &Pod| {
            let prior = ObservedPhase::default();
            let cx = PhaseContext { task: &task, prior: &prior, pods: &[], error_document: None };
            Greeting.phase(&cx, pod).unwrap().phase()
        };
        let status = |state: Value| {
            let container = json!({"name": "run-a0-0", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": state});
            serde_json::from_value(json!({"phase": "Running", "containerStatuses": [container]})).unwrap()
        };
        pod.status = Some(status(json!({"running": {}})));
        assert_eq!(phase(&pod), Phase::Running);
        pod.status = Some(status(json!({"terminated": {"exitCode": 0}})));
        assert_eq!(phase(&pod), Phase::Success);
        pod.status = Some(status(json!({"terminated": {"exitCode": 1, "reason": "Error"}})));
        assert_eq!(phase(&pod), Phase::RetryableFailure);
    }
}
// end test: docs/plugins.md
