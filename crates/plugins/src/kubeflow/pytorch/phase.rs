//! From the state of a `PyTorchJob` and its pods to the phase of the task.

use std::sync::Arc;

use aileron_idl::flyteidl2::core::LogContext;
use aileron_machinery::pod::log_context::pod_log_context;
use aileron_machinery::pod::phase::{failed_or_pending_phase, pending_deadline};
use aileron_machinery::{PhaseContext, PhaseInfo, PluginError};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::PYTORCH;
use super::build::{MASTER, WORKER};
use crate::kubeflow::config::KubeflowConfig;
use crate::kubeflow::job::Job;
use crate::kubeflow::links::{PodNames, Role};
use crate::kubeflow::phase::Observation;

/// Elastic jobs have no master, and so no link to its logs.
const ROLES: [Role; 2] = [
    Role { replica_type: MASTER, log_name: "master", pods: PodNames::First("master") },
    Role { replica_type: WORKER, log_name: "", pods: PodNames::Numbered("worker") },
];

/// Where the task stands. If its first worker has failed or cannot start, the job will fail sooner or later, and so the
/// task fails now.
///
/// Mirrors `GetTaskPhase` of upstream's plugin.
pub(super) fn phase(config: &KubeflowConfig, cx: &PhaseContext<'_>, job: &Job<'_>) -> Result<PhaseInfo, PluginError> {
    let mut observation = Observation::of(job, config, cx, &ROLES)?;
    let first_worker = first_worker(job, cx.pods);
    observation.info.log_context = Some(log_context(cx.pods, first_worker));
    let platform = &cx.task.platform.k8s;
    let info = observation.info.clone();
    let worker_phase = failed_or_pending_phase(first_worker, PYTORCH, platform, cx.task.now, info);
    if worker_phase.phase().is_failure() {
        return Ok(worker_phase);
    }
    Ok(observation.phase())
}

/// When to check again: the operator must have begun, or the first worker been started.
pub(super) fn check_at(config: &KubeflowConfig, cx: &PhaseContext<'_>, job: &Job<'_>) -> Option<Timestamp> {
    let worker = first_worker(job, cx.pods).and_then(|pod| pod.status.as_ref());
    let worker = worker.and_then(|status| pending_deadline(status, &cx.task.platform.k8s, cx.task.now));
    [job.check_at(config, cx.task.now), worker].into_iter().flatten().min()
}

fn first_worker<'a>(job: &Job<'_>, pods: &'a [Arc<Pod>]) -> Option<&'a Pod> {
    let name = format!("{}-worker-0", job.name());
    pods.iter().map(AsRef::as_ref).find(|pod| pod.metadata.name.as_deref() == Some(&name))
}

/// All pods that have something to read.
fn log_context(pods: &[Arc<Pod>], first_worker: Option<&Pod>) -> LogContext {
    let is_pending = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending");
    let primary = first_worker.filter(|pod| !is_pending(pod)).and_then(|pod| pod.metadata.name.clone());
    LogContext {
        primary_pod_name: primary.unwrap_or_default(),
        pods: pods.iter().filter(|pod| !is_pending(pod)).map(|pod| pod_log_context(pod)).collect(),
        ..LogContext::default()
    }
}
