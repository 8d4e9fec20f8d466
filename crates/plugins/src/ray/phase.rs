//! From the state of a `RayJob` to the phase of the task.

use std::sync::Arc;

use aileron_idl::flyteidl2::core::task_log::LinkType;
use aileron_idl::flyteidl2::core::{ContainerError, LogContext, TaskLog, container_error};
use aileron_machinery::config::LogTemplate;
use aileron_machinery::log_links::{LinkInput, LogLinks, TemplateVar, template_links};
use aileron_machinery::pod::log_context::{pod_log_context, primary_container_name};
use aileron_machinery::pod::phase::{failed_or_pending_phase, is_ready, pending_deadline};
use aileron_machinery::pod::vscode::is_vscode_enabled;
use aileron_machinery::{Ended, ExecutionError, Phase, PhaseContext, PhaseInfo, PluginError, TaskInfo};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::HEAD_CONTAINER;
use super::config::RayConfig;
use super::resource::{RayJob, RayJobStatus};

/// The operator's words for a job that has ended, well or badly.
const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";

/// Code of a job that failed.
const TASK_FAILED: &str = "TaskFailedWithError";

/// The operator's word for a job that Ray and the operator disagreed about for too long: the cluster, not the task.
const GRACE_PERIOD_EXCEEDED: &str = "JobDeploymentStatusTransitionGracePeriodExceeded";

/// Where the task stands.
///
/// Mirrors `GetTaskPhase` of upstream's Ray plugin.
pub(super) fn phase(config: &RayConfig, cx: &PhaseContext<'_>, job: &RayJob) -> Result<PhaseInfo, PluginError> {
    let task = cx.task;
    let unseen = RayJobStatus::default();
    let status = job.status.as_ref().unwrap_or(&unseen);
    let info = TaskInfo {
        logs: links(config, cx, job, status),
        log_context: Some(log_context(cx, job)),
        ..TaskInfo::at(task.now)
    };
    // As upstream: that the operator takes its time is not reported again while the task is queued.
    let queued = |reason: &str, info| Ok(PhaseInfo::queued(reason, info).with_quiet_reason());
    if status.job_deployment_status.is_empty() {
        return queued("Scheduling", info);
    }
    // A head node that cannot start is told by its pod long before the job tells it.
    let head = head_pod(cx, status).map(AsRef::as_ref);
    let of_head = failed_or_pending_phase(head, HEAD_CONTAINER, &task.platform.k8s, task.now, info.clone());
    if of_head.phase().is_failure() {
        return Ok(of_head);
    }
    let phase = match status.job_deployment_status.as_str() {
        "Initializing" => PhaseInfo::initializing("cluster is creating", info),
        "Running" => PhaseInfo::running(info),
        COMPLETE => PhaseInfo::success(info),
        "Suspending" => return queued("cluster is about to be suspended", info),
        "Suspended" => return queued("cluster is suspended", info),
        FAILED => failure(cx, job, status, info),
        other => return Err(PluginError::uncoded(format!("unknown job deployment status: {other}"))),
    };
    let phase = match is_head_ready(cx, job) {
        Some(ready) => with_link_readiness(phase, ready),
        None => phase,
    };
    Ok(phase)
}

/// When a pending head pod must be checked again.
pub(super) fn check_at(cx: &PhaseContext<'_>, job: &RayJob) -> Option<Timestamp> {
    let head = head_pod(cx, job.status.as_ref()?)?;
    pending_deadline(head.status.as_ref()?, &cx.task.platform.k8s, cx.task.now)
}

/// The end of the job, at its end time or the closest time that is known.
pub(super) fn ended(job: &RayJob) -> Option<Ended> {
    let status = job.status.as_ref()?;
    let failed = match status.job_deployment_status.as_str() {
        COMPLETE => false,
        FAILED => true,
        _ => return None,
    };
    let at = status.end_time.as_ref().or(status.start_time.as_ref()).or(job.metadata.creation_timestamp.as_ref());
    Some(Ended::new(at.map(|time| time.0), failed))
}

/// The task's own word on whether another attempt may help counts most. Without it, a job that only its cluster lost
/// is the platform's failure, and its cluster must go.
fn failure(cx: &PhaseContext<'_>, job: &RayJob, status: &RayJobStatus, info: TaskInfo) -> PhaseInfo {
    let RayJobStatus { reason, message, .. } = status;
    let message = format!("Failed to run Ray job {} with error: [{reason}] {message}", name(job));
    match cx.error_document {
        Some(document) => {
            let error = ExecutionError::user(TASK_FAILED, message);
            let kind = document.error.as_ref().map(ContainerError::kind);
            if kind == Some(container_error::Kind::Recoverable) {
                PhaseInfo::retryable_failure(error, info)
            } else {
                PhaseInfo::permanent_failure(error, info)
            }
        }
        None if reason == GRACE_PERIOD_EXCEEDED => {
            PhaseInfo::retryable_failure(ExecutionError::system(TASK_FAILED, message), info).with_cleanup()
        }
        None => PhaseInfo::permanent_failure(ExecutionError::user(TASK_FAILED, message), info),
    }
}

/// Links to logs, and to the dashboard while there is one.
///
/// # Differs from upstream
/// A task may ask for dynamic links; upstream does not tell its links what the task asks for.
fn links(config: &RayConfig, cx: &PhaseContext<'_>, job: &RayJob, status: &RayJobStatus) -> Vec<TaskLog> {
    let task = cx.task;
    let pod_name = head_pod_name(status);
    let extra = [
        TemplateVar { name: "rayJobID", value: status.job_id.as_str().into() },
        TemplateVar { name: "rayClusterName", value: status.ray_cluster_name.as_str().into() },
    ];
    let input = LinkInput {
        pod_name: &pod_name,
        namespace: job.metadata.namespace.as_deref().unwrap_or_default(),
        id: Some(&task.metadata.id),
        extra: &extra,
        template: Some(&task.template),
        vscode: starts_editor(job),
        ..LinkInput::default()
    };
    let mut links = LogLinks::new(&config.logs, Some(&task.template)).links(&input);
    if let Some(template) = &config.dashboard_url_template
        && !status.dashboard_url.is_empty()
        && status.job_status == "RUNNING"
    {
        let link_type = LinkType::Dashboard.as_str_name().to_owned();
        links.extend(template_links(&LogTemplate { link_type, ..template.clone() }, &input));
    }
    links
}

fn starts_editor(job: &RayJob) -> bool {
    let spec = job.spec.ray_cluster_spec.as_ref().and_then(|cluster| cluster.head_group_spec.template.spec.as_ref());
    let env = spec.and_then(|spec| spec.containers.first()).and_then(|container| container.env.as_deref());
    env.is_some_and(is_vscode_enabled)
}

/// Says whether what dashboard and editor links lead to answers already.
///
/// Mirrors `ray.UpdateLinkReadiness`.
fn with_link_readiness(mut phase: PhaseInfo, ready: bool) -> PhaseInfo {
    let seen = phase.phase();
    let mut reasons = Vec::new();
    for link in phase.info_mut().into_iter().flat_map(|info| &mut info.logs) {
        let (what, usable) = match link.link_type() {
            LinkType::Dashboard => ("Ray dashboard", seen >= Phase::Running),
            LinkType::Ide => ("Vscode server", seen == Phase::Running),
            LinkType::External => continue,
        };
        link.ready = ready;
        reasons.push(format!("{what} is {}", if ready && usable { "ready" } else { "not ready" }));
    }
    reasons.iter().fold(phase, |phase, reason| phase.with_reason(reason))
}

/// Whether the head node answers; nothing if there are two, since one of them is about to go and nobody knows which.
fn is_head_ready(cx: &PhaseContext<'_>, job: &RayJob) -> Option<bool> {
    let mut heads = cx.pods.iter().filter(|pod| !is_pending(pod) && is_head(pod, job));
    match (heads.next(), heads.next()) {
        (None, _) => Some(false),
        (Some(head), None) => Some(is_ready(head)),
        (Some(_), Some(_)) => None,
    }
}

fn log_context(cx: &PhaseContext<'_>, job: &RayJob) -> LogContext {
    let started: Vec<_> = cx.pods.iter().filter(|pod| !is_pending(pod)).collect();
    let head = started.iter().rfind(|pod| is_head(pod, job));
    LogContext {
        primary_pod_name: head.and_then(|pod| pod.metadata.name.clone()).unwrap_or_default(),
        pods: started.iter().map(|pod| pod_log_context(pod)).collect(),
        ..LogContext::default()
    }
}

fn head_pod_name(status: &RayJobStatus) -> String {
    format!("{}-head", status.ray_cluster_name)
}

fn head_pod<'a>(cx: &PhaseContext<'a>, status: &RayJobStatus) -> Option<&'a Arc<Pod>> {
    let name = head_pod_name(status);
    cx.pods.iter().find(|pod| pod.metadata.name.as_ref() == Some(&name))
}

/// A head node of the job's cluster, also one whose name has a random end, as older operators have it.
fn is_head(pod: &Pod, job: &RayJob) -> bool {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    pod_name.starts_with(name(job)) && pod_name.contains("head") && primary_container_name(pod) == HEAD_CONTAINER
}

fn is_pending(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending")
}

fn name(job: &RayJob) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}
