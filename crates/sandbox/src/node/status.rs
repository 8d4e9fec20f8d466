//! The status of a pod, as a kubelet writes it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
    PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::fields::ADDRESS;
use super::life::{Ended, Life, Policy, Role, Slot, State};

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// Why a pod as a whole failed, whatever its containers did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub reason: String,
    pub message: String,
}

/// Conditions that are written here; others are somebody else's and stay.
const OWN: [&str; 4] = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];

impl Phase {
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

/// The phase of a pod from its containers. It is not terminal before all that runs has stopped.
///
/// Mirrors `kubelet.getPhase` and the status manager, which holds a terminal phase back.
pub(crate) fn phase(life: &Life, verdict: Option<&Verdict>) -> Phase {
    let wanted = if verdict.is_some() { Phase::Failed } else { from_containers(life) };
    match wanted {
        Phase::Succeeded | Phase::Failed if life.is_active() => {
            if life.is_initialized() {
                Phase::Running
            } else {
                Phase::Pending
            }
        }
        phase => phase,
    }
}

fn from_containers(life: &Life) -> Phase {
    if life.failed_to_initialize() {
        return Phase::Failed;
    }
    let (mut running, mut waiting, mut stopped, mut succeeded) = (0, 0, 0, 0);
    for slot in life.of(Role::Main) {
        match (&slot.state, slot.ended()) {
            (State::Running { .. }, _) => running += 1,
            (_, Some(ended)) => {
                stopped += 1;
                succeeded += usize::from(ended.code == 0);
            }
            (_, None) => waiting += 1,
        }
    }
    if life.ending && running == 0 {
        return if waiting == 0 && stopped == succeeded { Phase::Succeeded } else { Phase::Failed };
    }
    if waiting > 0 || !life.is_initialized() {
        return Phase::Pending;
    }
    if running > 0 || life.policy == Policy::Always {
        return Phase::Running;
    }
    match (stopped == succeeded, life.policy) {
        (true, _) => Phase::Succeeded,
        (false, Policy::Never) => Phase::Failed,
        (false, _) => Phase::Running,
    }
}

/// The whole status, with the times at which conditions last changed taken from the one before.
pub(crate) fn status(life: &Life, verdict: Option<&Verdict>, before: &PodStatus, now: Timestamp) -> PodStatus {
    let phase = phase(life, verdict);
    let (init, main): (Vec<_>, Vec<_>) = life.slots.iter().partition(|slot| slot.role != Role::Main);
    let statuses =
        |slots: Vec<&Slot>| Some(slots.into_iter().map(container).collect()).filter(|all: &Vec<_>| !all.is_empty());
    let shown = verdict.filter(|_| phase.is_terminal() || life.ending);
    PodStatus {
        phase: Some(phase.as_str().to_owned()),
        reason: shown.map(|verdict| verdict.reason.clone()),
        message: shown.map(|verdict| verdict.message.clone()),
        start_time: Some(before.start_time.clone().unwrap_or(Time(now))),
        host_ip: Some(ADDRESS.to_owned()),
        host_ips: Some(vec![HostIP { ip: ADDRESS.to_owned() }]),
        pod_ip: Some(ADDRESS.to_owned()),
        pod_ips: Some(vec![PodIP { ip: ADDRESS.to_owned() }]),
        conditions: Some(conditions(life, phase, before.conditions.as_deref().unwrap_or_default(), now)),
        container_statuses: statuses(main),
        init_container_statuses: statuses(init),
        ..PodStatus::default()
    }
}

fn conditions(life: &Life, phase: Phase, before: &[PodCondition], now: Timestamp) -> Vec<PodCondition> {
    let over = match phase {
        Phase::Succeeded => Some("PodCompleted"),
        Phase::Failed => Some("PodFailed"),
        Phase::Pending | Phase::Running => None,
    };
    let incomplete: Vec<_> = life.slots.iter().filter(|slot| slot.role != Role::Main && !is_ready(slot)).collect();
    let initialized = if life.is_initialized() || phase == Phase::Succeeded {
        (true, over.filter(|_| phase == Phase::Succeeded), None)
    } else {
        (false, Some("ContainersNotInitialized"), Some(named("containers with incomplete status", &incomplete)))
    };
    let unready: Vec<_> = life.slots.iter().filter(|slot| slot.role != Role::Init && !is_ready(slot)).collect();
    let ready = match over {
        Some(reason) => (false, Some(reason), None),
        None if unready.is_empty() => (true, None, None),
        None => (false, Some("ContainersNotReady"), Some(named("containers with unready status", &unready))),
    };
    let values = [(true, None, None), initialized, ready.clone(), ready];
    let own = OWN.into_iter().zip(values).map(|(name, (holds, reason, message))| {
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
    let foreign = before.iter().filter(|known| !OWN.contains(&known.type_.as_str())).cloned();
    own.chain(foreign).collect()
}

fn named(what: &str, slots: &[&Slot]) -> String {
    let names: Vec<_> = slots.iter().map(|slot| slot.name.as_str()).collect();
    format!("{what}: [{}]", names.join(" "))
}

/// There are no probes: what runs is ready, and an init container that succeeded.
fn is_ready(slot: &Slot) -> bool {
    match &slot.state {
        State::Running { .. } => slot.role != Role::Init,
        State::Ended(ended) => slot.role == Role::Init && ended.code == 0,
        State::Waiting(_) => false,
    }
}

fn container(slot: &Slot) -> ContainerStatus {
    let id = match &slot.state {
        State::Running { id, .. } => Some(id),
        State::Ended(ended) => Some(&ended.id),
        State::Waiting(_) => slot.last.as_ref().map(|last| &last.id),
    };
    let state = match &slot.state {
        State::Waiting(waiting) => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(waiting.reason.clone()),
                message: Some(waiting.message.clone()).filter(|message| !message.is_empty()),
            }),
            ..ContainerState::default()
        },
        State::Running { since, .. } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(*since)) }),
            ..ContainerState::default()
        },
        State::Ended(ended) => terminated(ended),
    };
    ContainerStatus {
        name: slot.name.clone(),
        image: slot.image.clone(),
        image_id: String::new(),
        container_id: id.cloned(),
        ready: is_ready(slot),
        started: Some(matches!(slot.state, State::Running { .. })),
        restart_count: i32::try_from(slot.lives.saturating_sub(1)).unwrap_or(i32::MAX),
        state: Some(state),
        last_state: slot.last.as_ref().map(terminated),
        ..ContainerStatus::default()
    }
}

fn terminated(ended: &Ended) -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: ended.code,
            reason: Some(ended.reason.clone()),
            message: Some(ended.message.clone()).filter(|message| !message.is_empty()),
            started_at: Some(Time(ended.started)),
            finished_at: Some(Time(ended.finished)),
            container_id: Some(ended.id.clone()),
            signal: None,
        }),
        ..ContainerState::default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
