//! From the state of a task's pod to the phase of the task.

use aileron_idl::flyteidl2::core::TaskLog;
use aileron_idl::flyteidl2::core::task_log::LinkType;
use aileron_machinery::log_links::LogLinks;
use aileron_machinery::pod::log_context::log_context;
use aileron_machinery::pod::phase::{is_ready, pod_phase};
use aileron_machinery::pod::times::{last_transition, reported_at};
use aileron_machinery::{Phase, PhaseContext, PhaseInfo, PluginError, TaskInfo};
use k8s_openapi::api::core::v1::Pod;

pub(super) use aileron_machinery::pod::phase::is_terminal;
pub(super) use aileron_machinery::pod::times::completed_at;

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
    let phase = pod_phase(pod, &task.platform.k8s, task.now, info);
    let phase = match editor {
        Some(link) if phase.phase() >= Phase::Running => with_editor_readiness(phase, link, is_ready(pod)),
        _ => phase,
    };
    Ok(phase.newer_than(cx.prior))
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

    use aileron_idl::flyteidl2::core::TaskTemplate;
    use aileron_machinery::config::{LogConfig, LogTemplate};
    use aileron_machinery::{ObservedPhase, Platform, TaskContext, TaskMetadata, TaskPaths};
    use serde_json::json;

    use super::*;

    fn phase_of(ready: bool, prior: &ObservedPhase) -> PhaseInfo {
        let editor = LogTemplate { template_uris: vec!["https://{{.podName}}".into()], ..LogTemplate::default() };
        let logs = LogConfig { dynamic_log_links: [("vscode".to_owned(), editor)].into(), ..LogConfig::default() };
        let task = TaskContext {
            template: Arc::new(TaskTemplate::default()),
            metadata: Arc::new(TaskMetadata::default()),
            paths: Arc::new(TaskPaths::default()),
            inputs: None,
            platform: Platform { logs: Arc::new(logs), ..Platform::default() },
            now: "2009-11-10T23:00:00Z".parse().unwrap(),
        };
        let running = json!({"startedAt": "2009-11-10T22:55:00Z"});
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "annotations": {"primary_container_name": "main"}},
            "spec": {"containers": [{"name": "main", "env": [{"name": "_F_E_VS", "value": "true"}]}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "main", "image": "", "imageID": "",
                "ready": ready, "restartCount": 0, "state": {"running": running}}]},
        }))
        .unwrap();
        phase(&PhaseContext { task: &task, prior, pods: &[], error_document: None }, &pod).unwrap()
    }

    #[test]
    fn an_editor_that_becomes_ready_is_news() {
        let first = phase_of(false, &ObservedPhase::default());
        assert_eq!((first.phase(), first.version()), (Phase::Running, 1));
        assert_eq!(first.reason(), "Vscode server is not ready");
        assert!(!first.info().unwrap().logs[0].ready);

        let seen = ObservedPhase { phase: Phase::Running, version: 1, reason: first.reason().to_owned() };
        assert_eq!(phase_of(false, &seen).version(), 1);
        let later = phase_of(true, &seen);
        assert_eq!((later.version(), later.reason()), (2, "Vscode server is ready"));
        let info = later.info().unwrap();
        assert!(info.logs[0].ready);
        assert_eq!(info.reported_at, Some(info.occurred_at));
        assert_eq!(info.occurred_at.to_string(), "2009-11-10T22:55:00Z");
    }
}
