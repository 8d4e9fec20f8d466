//! From the state of a Spark application to the phase of the task.

use aileron_idl::flyteidl2::core::task_log::LinkType;
use aileron_idl::flyteidl2::core::{ContainerContext, LogContext, PodLogContext};
use aileron_machinery::pod::phase::{failed_or_pending_phase, pending_deadline};
use aileron_machinery::{Ended, ExecutionError, Phase, PhaseContext, PhaseInfo, TaskInfo, code};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use prost_types::value::Kind;
use prost_types::{Struct, Value};

use super::config::SparkConfig;
use super::links::{DRIVER_UI, UserInterface, log_links};
use super::resource::{SparkApplication, SparkApplicationStatus, executor_state, state};
use super::{DRIVER_CONTAINER, EXECUTOR_CONTAINER};

/// Where the task stands, with links to its logs and to Spark's user interface.
///
/// Mirrors `GetTaskPhase` of upstream's Spark plugin.
pub(super) fn phase(cx: &PhaseContext<'_>, config: &SparkConfig, application: &SparkApplication) -> PhaseInfo {
    let unseen = SparkApplicationStatus::default();
    let status = application.status.as_ref().unwrap_or(&unseen);
    let task = cx.task;
    let interface = UserInterface::of(status, config);
    let mut logs = log_links(task, config, application, status);
    logs.extend(interface.as_ref().map(UserInterface::link));
    let info = TaskInfo {
        logs,
        log_context: Some(log_context(application, status)),
        custom_info: Some(custom_info(interface)),
        ..TaskInfo::at(task.now)
    };
    // A driver that failed or cannot start says more than the operator does, and earlier.
    if let Some(driver) = driver_pod(cx, application) {
        let driver =
            failed_or_pending_phase(Some(driver), DRIVER_CONTAINER, &task.platform.k8s, task.now, info.clone());
        if driver.phase().is_failure() {
            return driver;
        }
    }
    with_readiness(application_phase(status, info))
}

/// The driver's pod, if there is one.
fn driver_pod<'a>(cx: &PhaseContext<'a>, application: &SparkApplication) -> Option<&'a Pod> {
    let name = &application.status.as_ref()?.driver_info.pod_name;
    let pods: &'a [_] = cx.pods;
    pods.iter().map(AsRef::as_ref).find(|pod: &&Pod| pod.metadata.name.as_ref() == Some(name))
}

/// When a pending driver must be checked again.
pub(super) fn check_at(cx: &PhaseContext<'_>, application: &SparkApplication) -> Option<Timestamp> {
    let driver = driver_pod(cx, application)?;
    pending_deadline(driver.status.as_ref()?, &cx.task.platform.k8s, cx.task.now)
}

/// The end of the application, at its termination or the closest time that is known.
pub(super) fn ended(application: &SparkApplication) -> Option<Ended> {
    let status = application.status.as_ref()?;
    let failed = match status.application_state.state.as_str() {
        state::COMPLETED => false,
        state::FAILED | state::SUBMISSION_FAILED => true,
        _ => return None,
    };
    let at = status.termination_time.as_ref().or(status.last_submission_attempt_time.as_ref());
    let at = at.or(application.metadata.creation_timestamp.as_ref());
    Some(Ended::new(at.map(|time| time.0), failed))
}

/// Where the task stands according to the operator.
fn application_phase(status: &SparkApplicationStatus, info: TaskInfo) -> PhaseInfo {
    let failure = |what: &str, info| {
        let message = format!("{what} with Error: {}", status.application_state.error_message);
        PhaseInfo::retryable_failure(ExecutionError::user(code::DOWNSTREAM_SYSTEM_ERROR, message), info)
    };
    match status.application_state.state.as_str() {
        state::NEW => PhaseInfo::queued("job queued", info),
        state::SUBMITTED | state::PENDING_SUBMISSION => PhaseInfo::initializing("job submitted", info),
        // The two spaces are upstream's; stored messages are compared.
        state::SUBMISSION_FAILED => failure("Spark Job  Submission Failed", info),
        state::FAILED => failure("Spark Job Failed", info),
        state::COMPLETED => PhaseInfo::success(info),
        _ => PhaseInfo::running(info),
    }
}

/// Says whether the driver's user interface and the editor can be used: they are taken to be once the task runs.
fn with_readiness(mut phase: PhaseInfo) -> PhaseInfo {
    let running = phase.phase() == Phase::Running;
    let mut reasons = Vec::new();
    for link in phase.info_mut().into_iter().flat_map(|info| &mut info.logs) {
        match link.link_type() {
            LinkType::Dashboard if link.name.contains(DRIVER_UI) => {
                link.ready = running;
                reasons.push(if running { "Spark driver UI is ready" } else { "Spark driver UI is not ready" });
            }
            LinkType::Ide => {
                reasons.push(if running { "Vscode server is ready" } else { "Vscode server is not ready" });
            }
            _ => {}
        }
    }
    reasons.into_iter().fold(phase, PhaseInfo::with_reason)
}

/// The driver, and the executors that have started.
fn log_context(application: &SparkApplication, status: &SparkApplicationStatus) -> LogContext {
    let namespace = application.metadata.namespace.as_deref().unwrap_or_default();
    let pod = |name: &str, container: &str| PodLogContext {
        namespace: namespace.to_owned(),
        pod_name: name.to_owned(),
        primary_container_name: container.to_owned(),
        containers: vec![ContainerContext { container_name: container.to_owned(), process: None }],
        init_containers: Vec::new(),
    };
    let driver = &status.driver_info.pod_name;
    let without_logs = [executor_state::PENDING, executor_state::UNKNOWN];
    let executors = status.executor_state.iter().filter(|(_, state)| !without_logs.contains(&state.as_str()));
    let mut pods = vec![pod(driver, DRIVER_CONTAINER)];
    pods.extend(executors.map(|(name, _)| pod(name, EXECUTOR_CONTAINER)));
    LogContext { primary_pod_name: driver.clone(), pods, ..LogContext::default() }
}

/// The address of Spark's user interface, for consoles with a special view for Spark.
fn custom_info(interface: Option<UserInterface>) -> Struct {
    let field =
        |interface: UserInterface| (interface.key.to_owned(), Value { kind: Some(Kind::StringValue(interface.uri)) });
    Struct { fields: interface.map(field).into_iter().collect() }
}
