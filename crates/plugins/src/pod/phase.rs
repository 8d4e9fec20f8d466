//! From the state of a task's pod to the phase of the task.

use aileron_idl::flyteidl2::core::TaskLog;
use aileron_idl::flyteidl2::core::task_log::LinkType;
use aileron_machinery::log_links::LogLinks;
use aileron_machinery::pod::log_context::log_context;
use aileron_machinery::pod::own_container;
use aileron_machinery::pod::phase::{is_ready, pod_phase_of_task};
use aileron_machinery::pod::times::{last_transition, reported_at};
use aileron_machinery::{Phase, PhaseContext, PhaseInfo, PluginError, TaskContext, TaskInfo};
use k8s_openapi::api::core::v1::Pod;

use super::RAW_CONTAINER;

/// Where the task stands, with links to its logs.
///
/// Mirrors `GetTaskPhase` of upstream's pod plugin.
pub(super) fn phase(cx: &PhaseContext<'_>, pod: &Pod) -> Result<PhaseInfo, PluginError> {
    let task = cx.task;
    let occurred_at = last_transition(pod, task.now);
    let mut info = TaskInfo { reported_at: Some(reported_at(pod).unwrap_or(occurred_at)), ..TaskInfo::at(occurred_at) };
    // What a node that does not answer said last may not be true any more.
    if pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Unknown") {
        info.logs = LogLinks::new(&task.platform.logs, Some(&task.template)).of_pod(task, pod);
        info.log_context = Some(log_context(pod));
    }
    let editor = info.logs.iter().position(|link| link.link_type() == LinkType::Ide);
    let own = task_container(task, pod);
    let phase = pod_phase_of_task(pod, own.as_deref(), &task.platform.k8s, task.now, info);
    let phase = match editor {
        Some(link) if phase.phase() >= Phase::Running => with_editor_readiness(phase, link, is_ready(pod)),
        _ => phase,
    };
    Ok(phase)
}

/// The container whose end ends the task, of a pod with several: that of the task, unless another one stores its outputs
/// after it has ended.
fn task_container(task: &TaskContext, pod: &Pod) -> Option<String> {
    let has_several = pod.spec.as_ref().is_some_and(|spec| spec.containers.len() > 1);
    (has_several && task.template.r#type != RAW_CONTAINER).then(|| own_container(task)).flatten()
}

/// Says whether the editor behind a link answers already.
fn with_editor_readiness(mut phase: PhaseInfo, link: usize, ready: bool) -> PhaseInfo {
    let link: Option<&mut TaskLog> = phase.info_mut().and_then(|info| info.logs.get_mut(link));
    if let Some(link) = link {
        link.ready = ready;
    }
    phase.with_reason(if ready { "Vscode server is ready" } else { "Vscode server is not ready" })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use aileron_idl::flyteidl2::core::task_template::Target;
    use aileron_idl::flyteidl2::core::{Container, DataLoadingConfig, TaskTemplate};
    use aileron_machinery::ObservedPhase;
    use aileron_machinery::config::{LogConfig, LogTemplate};
    use aileron_machinery::pod::PRIMARY_CONTAINER_KEY;
    use aileron_machinery::testing::task;
    use serde_json::json;

    use super::*;

    fn phase_of(ready: bool) -> PhaseInfo {
        let editor = LogTemplate { template_uris: vec!["https://{{.podName}}".into()], ..LogTemplate::default() };
        let logs = LogConfig { dynamic_log_links: [("vscode".to_owned(), editor)].into(), ..LogConfig::default() };
        let mut task = task("python", &json!({}));
        task.platform.logs = Arc::new(logs);
        let running = json!({"startedAt": "2009-11-10T22:55:00Z"});
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "annotations": {"primary_container_name": "main"}},
            "spec": {"containers": [{"name": "main", "env": [{"name": "_F_E_VS", "value": "true"}]}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "main", "image": "", "imageID": "",
                "ready": ready, "restartCount": 0, "state": {"running": running}}]},
        }))
        .unwrap();
        phase(&PhaseContext::new(&task, &ObservedPhase::default()), &pod).unwrap()
    }

    /// A task with a log shipper beside it that never ends.
    fn phase_beside_shipper(template: TaskTemplate, own_exit: i32) -> Phase {
        let mut task = task("python", &json!({}));
        task.template = Arc::new(template);
        let status = |name: &str, state| json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "run-a0-0"},
            "spec": {"containers": [{"name": "shipper"}, {"name": "run-a0-0"}, {"name": "main"}]},
            "status": {"phase": "Running", "containerStatuses": [
                status("shipper", json!({"running": {}})),
                status("run-a0-0", json!({"terminated": {"exitCode": own_exit}})),
                status("main", json!({"running": {}})),
            ]},
        }))
        .unwrap();
        let prior = ObservedPhase::default();
        phase(&PhaseContext::new(&task, &prior), &pod).unwrap().phase()
    }

    fn container_task(task_type: &str) -> TaskTemplate {
        let target = Some(Target::Container(Default::default()));
        TaskTemplate { r#type: task_type.to_owned(), target, ..Default::default() }
    }

    #[test]
    fn a_task_ends_with_its_own_container_also_where_a_template_added_others() {
        assert_eq!(phase_beside_shipper(container_task("python"), 0), Phase::Success);
        assert_eq!(phase_beside_shipper(container_task("python"), 1), Phase::RetryableFailure);
        let mut pod_task =
            TaskTemplate { target: Some(Target::K8sPod(Default::default())), ..container_task("python") };
        pod_task.config.insert(PRIMARY_CONTAINER_KEY.to_owned(), "main".to_owned());
        assert_eq!(phase_beside_shipper(pod_task, 0), Phase::Running);
    }

    #[test]
    fn a_task_whose_outputs_another_container_stores_ends_with_the_pod() {
        assert_eq!(phase_beside_shipper(container_task("raw-container"), 0), Phase::Running);
        let mut moved = container_task("python");
        let data = DataLoadingConfig { enabled: true, ..Default::default() };
        moved.target = Some(Target::Container(Container { data_config: Some(data), ..Default::default() }));
        assert_eq!(phase_beside_shipper(moved, 0), Phase::Running);
    }

    #[test]
    fn an_editor_that_becomes_ready_is_news() {
        let first = phase_of(false);
        assert!(first.phase() == Phase::Running && first.has_news(), "{first:?}");
        assert_eq!(first.reason(), "Vscode server is not ready");
        assert!(!first.info().unwrap().logs[0].ready);

        let later = phase_of(true);
        assert!(!later.has_quiet_reason());
        assert_eq!(later.reason(), "Vscode server is ready");
        let info = later.info().unwrap();
        assert!(info.logs[0].ready);
        assert_eq!(info.reported_at, Some(info.occurred_at));
        assert_eq!(info.occurred_at.to_string(), "2009-11-10T22:55:00Z");
    }
}
