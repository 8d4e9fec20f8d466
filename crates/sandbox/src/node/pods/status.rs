//! Computes the status of a pod, as a kubelet writes it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
    PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container_record::{ContainerRecord, RestartPolicy, Role};
use super::lifecycle::Lifecycle;
use crate::node::containers::state::{RunState, Termination};
use crate::node::options::NODE_ADDRESS;

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// Why the node ended a pod, for example because of its deadline. The phase is `Failed` then, whatever its containers
/// did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodFailure {
    pub reason: String,
    pub message: String,
}

/// Conditions that the node writes. Conditions of other writers are kept.
const OWN_CONDITIONS: [&str; 4] = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];

impl PodPhase {
    /// The name in the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The phase of a pod. It is not terminal while a container runs.
///
/// Mirrors `kubelet.getPhase`, and the status manager of the kubelet, which delays a terminal phase.
pub(crate) fn phase(lifecycle: &Lifecycle, failure: Option<&PodFailure>) -> PodPhase {
    let computed = if failure.is_some() { PodPhase::Failed } else { phase_of_containers(lifecycle) };
    match computed {
        PodPhase::Succeeded | PodPhase::Failed if lifecycle.is_active() => {
            if lifecycle.is_initialized() {
                PodPhase::Running
            } else {
                PodPhase::Pending
            }
        }
        phase => phase,
    }
}

fn phase_of_containers(lifecycle: &Lifecycle) -> PodPhase {
    if lifecycle.failed_to_initialize() {
        return PodPhase::Failed;
    }
    let (mut running, mut waiting, mut terminated, mut succeeded) = (0, 0, 0, 0);
    for container in lifecycle.with_role(Role::Main) {
        match (&container.state, container.termination()) {
            (RunState::Running { .. }, _) => running += 1,
            (_, Some(termination)) => {
                terminated += 1;
                succeeded += usize::from(termination.code == 0);
            }
            (_, None) => waiting += 1,
        }
    }
    if lifecycle.ending && running == 0 {
        return if waiting == 0 && terminated == succeeded { PodPhase::Succeeded } else { PodPhase::Failed };
    }
    if waiting > 0 || !lifecycle.is_initialized() {
        return PodPhase::Pending;
    }
    if running > 0 || lifecycle.policy == RestartPolicy::Always {
        return PodPhase::Running;
    }
    match (terminated == succeeded, lifecycle.policy) {
        (true, _) => PodPhase::Succeeded,
        (false, RestartPolicy::Never) => PodPhase::Failed,
        (false, _) => PodPhase::Running,
    }
}

/// The status of a pod. Conditions that have not changed keep their time from the status `before`.
pub(crate) fn status(
    lifecycle: &Lifecycle,
    failure: Option<&PodFailure>,
    before: &PodStatus,
    now: Timestamp,
) -> PodStatus {
    let phase = phase(lifecycle, failure);
    let all = lifecycle.containers.iter();
    let (init, main): (Vec<_>, Vec<_>) = all.partition(|container| container.role != Role::Main);
    let statuses = |containers: Vec<&ContainerRecord>| {
        let statuses: Vec<_> = containers.into_iter().map(container_status).collect();
        Some(statuses).filter(|statuses| !statuses.is_empty())
    };
    let shown = failure.filter(|_| phase.is_terminal() || lifecycle.ending);
    PodStatus {
        phase: Some(phase.as_str().to_owned()),
        reason: shown.map(|failure| failure.reason.clone()),
        message: shown.map(|failure| failure.message.clone()),
        start_time: Some(before.start_time.clone().unwrap_or(Time(now))),
        host_ip: Some(NODE_ADDRESS.to_owned()),
        host_ips: Some(vec![HostIP { ip: NODE_ADDRESS.to_owned() }]),
        pod_ip: Some(NODE_ADDRESS.to_owned()),
        pod_ips: Some(vec![PodIP { ip: NODE_ADDRESS.to_owned() }]),
        conditions: Some(conditions(lifecycle, phase, before.conditions.as_deref().unwrap_or_default(), now)),
        container_statuses: statuses(main),
        init_container_statuses: statuses(init),
        ..PodStatus::default()
    }
}

fn conditions(lifecycle: &Lifecycle, phase: PodPhase, before: &[PodCondition], now: Timestamp) -> Vec<PodCondition> {
    let end_reason = match phase {
        PodPhase::Succeeded => Some("PodCompleted"),
        PodPhase::Failed => Some("PodFailed"),
        PodPhase::Pending | PodPhase::Running => None,
    };
    let unready_except = |role: Role| -> Vec<_> {
        lifecycle.containers.iter().filter(|container| container.role != role && !is_ready(container)).collect()
    };
    let incomplete = unready_except(Role::Main);
    let initialized = if lifecycle.is_initialized() || phase == PodPhase::Succeeded {
        (true, end_reason.filter(|_| phase == PodPhase::Succeeded), None)
    } else {
        (false, Some("ContainersNotInitialized"), Some(with_names("containers with incomplete status", &incomplete)))
    };
    let unready = unready_except(Role::Init);
    let ready = match end_reason {
        Some(reason) => (false, Some(reason), None),
        None if unready.is_empty() => (true, None, None),
        None => (false, Some("ContainersNotReady"), Some(with_names("containers with unready status", &unready))),
    };
    let values = [(true, None, None), initialized, ready.clone(), ready];
    let own = OWN_CONDITIONS.into_iter().zip(values).map(|(name, (holds, reason, message))| {
        let holds = if holds { "True" } else { "False" };
        let same = before.iter().find(|known| known.type_ == name && known.status == holds);
        PodCondition {
            type_: name.to_owned(),
            status: holds.to_owned(),
            reason: reason.map(str::to_owned),
            message,
            last_transition_time: same.and_then(|known| known.last_transition_time.clone()).or(Some(Time(now))),
            ..PodCondition::default()
        }
    });
    let others = before.iter().filter(|known| !OWN_CONDITIONS.contains(&known.type_.as_str())).cloned();
    own.chain(others).collect()
}

fn with_names(what: &str, containers: &[&ContainerRecord]) -> String {
    let names: Vec<_> = containers.iter().map(|container| container.name.as_str()).collect();
    format!("{what}: [{}]", names.join(" "))
}

/// Whether a container is ready. There are no probes: a running container is ready, and so is an init container that
/// has succeeded.
fn is_ready(container: &ContainerRecord) -> bool {
    match &container.state {
        RunState::Running { .. } => container.role != Role::Init,
        RunState::Terminated(termination) => container.role == Role::Init && termination.code == 0,
        RunState::Waiting(_) => false,
    }
}

fn container_status(container: &ContainerRecord) -> ContainerStatus {
    let id = match &container.state {
        RunState::Running { id, .. } => Some(id),
        RunState::Terminated(termination) => Some(&termination.id),
        RunState::Waiting(_) => container.last.as_ref().map(|last| &last.id),
    };
    let state = match &container.state {
        RunState::Waiting(waiting) => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(waiting.reason.clone()),
                message: Some(waiting.message.clone()).filter(|message| !message.is_empty()),
            }),
            ..ContainerState::default()
        },
        RunState::Running { since, .. } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(*since)) }),
            ..ContainerState::default()
        },
        RunState::Terminated(termination) => terminated_state(termination),
    };
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone(),
        image_id: String::new(),
        container_id: id.cloned(),
        ready: is_ready(container),
        started: Some(matches!(container.state, RunState::Running { .. })),
        restart_count: i32::try_from(container.creations.saturating_sub(1)).unwrap_or(i32::MAX),
        state: Some(state),
        last_state: container.last.as_ref().map(terminated_state),
        ..ContainerStatus::default()
    }
}

fn terminated_state(termination: &Termination) -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: termination.code,
            reason: Some(termination.reason.clone()),
            message: Some(termination.message.clone()).filter(|message| !message.is_empty()),
            started_at: Some(Time(termination.started)),
            finished_at: Some(Time(termination.finished)),
            container_id: Some(termination.id.clone()),
            signal: None,
        }),
        ..ContainerState::default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
