//! The smallest plugin: it runs the container of a task, with one more environment variable.
use aileron_machinery::k8s_openapi::api::core::v1::Pod;
use aileron_machinery::pod::{PodOptions, build_pod, phase::task_phase};
use aileron_machinery::serde_json::Value;
use aileron_machinery::testing::{exited, phase, task, variable};
use aileron_machinery::{K8sPlugin, Phase, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};

struct Hello;

impl K8sPlugin for Hello {
    type Resource = Pod;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("hello", &["hello"])
    }

    fn build(&self, task: &TaskContext) -> Result<Pod, PluginError> {
        let mut draft = build_pod(task, PodOptions::default())?;
        draft.set_variable("GREETING", "hello")?;
        Ok(draft.into_pod())
    }

    fn phase(&self, cx: &PhaseContext<'_>, pod: &Pod) -> Result<PhaseInfo, PluginError> {
        Ok(task_phase(cx, pod))
    }
}

#[test]
fn a_task_becomes_a_pod_and_the_end_of_the_pod_ends_the_task() -> Result<(), PluginError> {
    let task = task("hello", &Value::Null);
    let pod = Hello.build(&task)?;
    assert_eq!(variable(&pod, "GREETING"), Some("hello"));
    assert_eq!(phase(&Hello, &task, &exited(&pod, 0)).phase(), Phase::Success);
    Ok(())
}
