//! The plugin that `docs/writing-a-plugin.md` explains, compiled and tested as a plugin author would do it. The page shows what
//! stands between the two marks, and a test of `aileron-parity` keeps the two equal.
#![allow(clippy::unwrap_used, missing_docs)]

// begin: docs/writing-a-plugin.md
use aileron_machinery::k8s_openapi::api::core::v1::Pod;
use aileron_machinery::pod::{PodOptions, build_pod, phase::task_phase};
use aileron_machinery::serde::Deserialize;
use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext, custom_as};

/// What the task says in `custom`.
#[derive(Deserialize)]
#[serde(crate = "aileron_machinery::serde")]
struct Settings {
    language: String,
}

/// Runs the task's container with the language that the task asks for.
struct Greeting;

impl K8sPlugin for Greeting {
    type Resource = Pod;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("greeting", &["greeting"])
    }

    fn build(&self, task: &TaskContext) -> Result<Pod, PluginError> {
        let settings: Settings = custom_as(task)?;
        // Everything that any pod of the platform gets: resources, environment, tolerations, templates ...
        let mut draft = build_pod(task, PodOptions::default())?;
        draft.set_variable("GREETING_LANGUAGE", settings.language)?;
        // The task ends when its own container does, whatever side-cars a pod template brings along.
        draft.end_with_primary();
        Ok(draft.into_pod())
    }

    fn phase(&self, cx: &PhaseContext<'_>, pod: &Pod) -> Result<PhaseInfo, PluginError> {
        Ok(task_phase(cx, pod))
    }
}
// end: docs/writing-a-plugin.md

// begin test: docs/writing-a-plugin.md
mod tests {
    use aileron_machinery::serde_json::json;
    use aileron_machinery::testing::{exited, phase, running, task, variable};
    use aileron_machinery::{K8sPlugin, Phase};

    use super::Greeting;

    #[test]
    fn the_language_reaches_the_container() {
        let pod = Greeting.build(&task("greeting", &json!({"language": "de"}))).unwrap();
        assert_eq!(variable(&pod, "GREETING_LANGUAGE"), Some("de"));
    }

    #[test]
    fn a_task_without_a_language_cannot_work() {
        let error = Greeting.build(&task("greeting", &json!({}))).unwrap_err();
        assert_eq!(error.to_string(), "[BadTaskSpecification] custom: missing field `language`");
    }

    #[test]
    fn the_phase_is_that_of_the_primary_container() {
        let task = task("greeting", &json!({"language": "de"}));
        let pod = Greeting.build(&task).unwrap();
        let phase = |pod| phase(&Greeting, &task, &pod).phase();
        assert_eq!(phase(running(&pod)), Phase::Running);
        assert_eq!(phase(exited(&pod, 0)), Phase::Success);
        assert_eq!(phase(exited(&pod, 1)), Phase::RetryableFailure);
    }
}
// end test: docs/writing-a-plugin.md
