//! From the state of a Dask job to the phase of the task.

use aileron_idl::flyteidl2::core::task_log::LinkType;
use aileron_idl::flyteidl2::core::{ContainerContext, LogContext, PodLogContext, TaskLog};
use aileron_machinery::log_links::{LinkInput, LogLinks, TemplateVar};
use aileron_machinery::pod::log_context::primary_container_name;
use aileron_machinery::pod::phase::{failed_or_pending_phase, is_ready, pending_deadline};
use aileron_machinery::pod::vscode::is_vscode_enabled;
use aileron_machinery::{Ended, ExecutionError, Phase, PhaseContext, PhaseInfo, TaskInfo, code};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::config::DaskConfig;
use super::resource::{DaskJob, DaskJobStatus, state};
use super::{JOB_RUNNER, SCHEDULER};

/// Where the task stands, with links to its logs and to the scheduler's dashboard.
///
/// Mirrors `GetTaskPhase` of upstream's Dask plugin.
pub(super) fn phase(cx: &PhaseContext<'_>, config: &DaskConfig, job: &DaskJob) -> PhaseInfo {
    let unseen = DaskJobStatus::default();
    let status = job.status.as_ref().unwrap_or(&unseen);
    let task = cx.task;
    let schedulers = scheduler_pods(cx, job);
    let info = TaskInfo {
        logs: log_links(cx, config, job, status, &schedulers),
        log_context: Some(log_context(job, status)),
        ..TaskInfo::at(task.now)
    };
    // A job runner that failed or cannot start says more than the operator does, and earlier.
    if let Some(runner) = runner_pod(cx, job) {
        let runner = failed_or_pending_phase(Some(runner), JOB_RUNNER, &task.platform.k8s, task.now, info.clone());
        if runner.phase().is_failure() {
            return runner;
        }
    }
    let phase = job_phase(status, info);
    match schedulers[..] {
        [] => with_readiness(phase, false),
        [scheduler] => with_readiness(phase, is_ready(scheduler)),
        // One is being replaced by the other; nobody knows which of them the links reach.
        _ => phase,
    }
}

/// The pod that runs the task, if there is one.
fn runner_pod<'a>(cx: &PhaseContext<'a>, job: &DaskJob) -> Option<&'a Pod> {
    let name = &job.status.as_ref()?.job_runner_pod_name;
    let pods: &'a [_] = cx.pods;
    pods.iter().map(AsRef::as_ref).find(|pod: &&Pod| pod.metadata.name.as_ref() == Some(name))
}

/// When a pending job runner must be checked again.
pub(super) fn check_at(cx: &PhaseContext<'_>, job: &DaskJob) -> Option<Timestamp> {
    let runner = runner_pod(cx, job)?;
    pending_deadline(runner.status.as_ref()?, &cx.task.platform.k8s, cx.task.now)
}

/// The end of the job, at its end time or the closest time that is known.
pub(super) fn ended(job: &DaskJob) -> Option<Ended> {
    let status = job.status.as_ref()?;
    let failed = match status.job_status.as_str() {
        state::SUCCESSFUL => false,
        state::FAILED => true,
        _ => return None,
    };
    let at = status.end_time.as_ref().or(status.start_time.as_ref()).or(job.metadata.creation_timestamp.as_ref());
    Some(Ended::new(at.map(|time| time.0), failed))
}

/// Where the task stands according to the operator.
fn job_phase(status: &DaskJobStatus, info: TaskInfo) -> PhaseInfo {
    let initializing = |reason, info| PhaseInfo::initializing(reason, info);
    match status.job_status.as_str() {
        state::NEW => initializing("unknown", info),
        state::JOB_CREATED => initializing("job created", info),
        state::CLUSTER_CREATED => initializing("cluster created", info),
        state::FAILED => {
            let error = ExecutionError::user(code::DOWNSTREAM_SYSTEM_ERROR, "Dask Job failed");
            PhaseInfo::retryable_failure(error, info)
        }
        state::SUCCESSFUL => PhaseInfo::success(info),
        _ => PhaseInfo::running(info),
    }
}

/// Says whether the dashboard and the editor, both served by the scheduler, can be used.
fn with_readiness(mut phase: PhaseInfo, ready: bool) -> PhaseInfo {
    let usable = ready && phase.phase() == Phase::Running;
    let mut reasons = Vec::new();
    for link in phase.info_mut().into_iter().flat_map(|info| &mut info.logs) {
        let reason = match (link.link_type(), usable) {
            (LinkType::Dashboard, true) => "Dask dashboard is ready",
            (LinkType::Dashboard, false) => "Dask dashboard is not ready",
            (LinkType::Ide, true) => "Vscode server is ready",
            (LinkType::Ide, false) => "Vscode server is not ready",
            _ => continue,
        };
        link.ready = ready;
        reasons.push(reason);
    }
    reasons.into_iter().fold(phase, PhaseInfo::with_reason)
}

/// The pods of the job's scheduler: there is one, or none yet, or one too many for a moment.
///
/// # Differs from upstream
///
/// The operator puts a dash after the name of the job. Upstream looks only at how names begin, so that it takes the
/// scheduler of `run-a0-10` for one of `run-a0-1`.
fn scheduler_pods<'a>(cx: &PhaseContext<'a>, job: &DaskJob) -> Vec<&'a Pod> {
    let job_name = job.metadata.name.as_deref().unwrap_or_default();
    let belongs = |pod: &&Pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        name.strip_prefix(job_name).is_some_and(|rest| rest.starts_with('-') && rest.contains(SCHEDULER))
    };
    let pods: &'a [_] = cx.pods;
    pods.iter().map(AsRef::as_ref).filter(belongs).collect()
}

/// # Differs from upstream
///
/// Links that a task asks for by name (`link_type`) appear here as they do for pods; upstream lost them.
fn log_links(
    cx: &PhaseContext<'_>,
    config: &DaskConfig,
    job: &DaskJob,
    status: &DaskJobStatus,
    schedulers: &[&Pod],
) -> Vec<TaskLog> {
    let task = cx.task;
    let scheduler = schedulers.iter().find(|pod| primary_container_name(pod) == SCHEDULER);
    let scheduler = scheduler.and_then(|pod| pod.metadata.name.as_deref()).unwrap_or_default();
    let containers = &job.spec.cluster.spec.scheduler.spec.containers;
    let env = containers.first().and_then(|container| container.env.as_deref()).unwrap_or_default();
    LogLinks::new(&config.logs, Some(&task.template)).links(&LinkInput {
        namespace: job.metadata.namespace.as_deref().unwrap_or_default(),
        pod_name: &status.job_runner_pod_name,
        id: Some(&task.metadata.id),
        extra: &[TemplateVar { name: "daskSchedulerName", value: scheduler.into() }],
        template: Some(&task.template),
        vscode: is_vscode_enabled(env),
        ..LinkInput::default()
    })
}

/// The logs that matter are the job runner's.
fn log_context(job: &DaskJob, status: &DaskJobStatus) -> LogContext {
    let runner = &status.job_runner_pod_name;
    LogContext {
        primary_pod_name: runner.clone(),
        pods: vec![PodLogContext {
            namespace: job.metadata.namespace.clone().unwrap_or_default(),
            pod_name: runner.clone(),
            primary_container_name: JOB_RUNNER.to_owned(),
            containers: vec![ContainerContext { container_name: JOB_RUNNER.to_owned(), process: None }],
            init_containers: Vec::new(),
        }],
        ..LogContext::default()
    }
}
