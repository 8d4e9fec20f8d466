//! Why a task has not started to run: one code out of a few, and a sentence.

use k8s_openapi::api::core::v1::{ContainerStateWaiting, Pod};
use serde::{Deserialize, Serialize};

/// What a task waits for. The code is the same whichever plugin, kind or message it comes from, so that it can be
/// counted and searched for.
///
/// ```
/// use aileron_machinery::{PendingReason, PhaseInfo, TaskInfo};
///
/// let phase = PhaseInfo::waiting_for_resources("no licence of pool gurobi is free", TaskInfo::at(Default::default()));
/// let phase = phase.because(PendingReason::Pool);
/// assert_eq!(phase.pending().map(|pending| pending.reason.as_str()), Some("Pool"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PendingReason {
    /// The quota of the namespace is used up.
    Quota,
    /// The API server is busy or refuses for a reason that passes; the next try has its time.
    BackOff,
    /// No token of a pool is free.
    Pool,
    /// The cluster does not serve the kind of object that the task becomes.
    MissingKind,
    /// An object of the same name has to go first.
    Terminating,
    /// An admission webhook does not let an object through.
    Webhook,
    /// No node has room for a pod.
    Unschedulable,
    /// An image cannot be pulled.
    ImagePull,
    /// A container cannot be created: a config map or secret is missing, or the runtime refuses.
    ContainerCreate,
    /// Another action computes the outputs that this one would compute, or the cache service grants no reservation.
    Cache,
    /// The object store does not work: inputs, outputs or an error document cannot be read or written.
    Storage,
    /// The events service has not accepted the last event of the action, and no status is written before it has.
    Events,
    /// The attempt before failed, and the task wants a pause before the next.
    Retry,
    /// Nothing is in the way; preparing takes a moment.
    Starting,
}

impl PendingReason {
    /// Every reason.
    ///
    /// ```
    /// use aileron_machinery::PendingReason;
    ///
    /// assert!(PendingReason::ALL.iter().all(|reason| PendingReason::from_code(reason.as_str()) == Some(*reason)));
    /// ```
    pub const ALL: [Self; 14] = [
        Self::Quota,
        Self::BackOff,
        Self::Pool,
        Self::MissingKind,
        Self::Terminating,
        Self::Webhook,
        Self::Unschedulable,
        Self::ImagePull,
        Self::ContainerCreate,
        Self::Cache,
        Self::Storage,
        Self::Events,
        Self::Retry,
        Self::Starting,
    ];

    /// The code, as conditions and metrics show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "Quota",
            Self::BackOff => "BackOff",
            Self::Pool => "Pool",
            Self::MissingKind => "MissingKind",
            Self::Terminating => "Terminating",
            Self::Webhook => "Webhook",
            Self::Unschedulable => "Unschedulable",
            Self::ImagePull => "ImagePull",
            Self::ContainerCreate => "ContainerCreate",
            Self::Cache => "Cache",
            Self::Storage => "Storage",
            Self::Events => "Events",
            Self::Retry => "Retry",
            Self::Starting => "Starting",
        }
    }

    /// The reason with this code, if there is one.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == code)
    }
}

impl std::fmt::Display for PendingReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reason and a sentence about it.
///
/// ```
/// use aileron_machinery::testing::pod;
/// use aileron_machinery::{Pending, PendingReason};
/// # use aileron_machinery::serde_json::json;
///
/// let unscheduled = json!({"phase": "Pending", "conditions": [
///     {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"},
/// ]});
/// let pending = Pending::of_pod(&pod("p-1", "main", &unscheduled)).unwrap();
/// assert_eq!(pending, Pending::new(PendingReason::Unschedulable, "no node takes pod p-1: 0/3 nodes are available"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The code.
    pub reason: PendingReason,
    /// What a person reads.
    pub message: String,
}

impl Pending {
    /// A reason in these words.
    pub fn new(reason: PendingReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// What keeps a pod from running; nothing if it runs, has ended, or is only being prepared.
    pub fn of_pod(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Pending"))?;
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let unscheduled = conditions.iter().find(|condition| {
            (condition.type_ == "PodScheduled" && condition.status == "False") || condition.type_ == "Unschedulable"
        });
        if let Some(condition) = unscheduled {
            let detail = detail(condition.message.as_deref(), condition.reason.as_deref());
            return Some(Self::new(PendingReason::Unschedulable, format!("no node takes pod {name}{detail}")));
        }
        let containers = [&status.init_container_statuses, &status.container_statuses];
        let waiting = containers.into_iter().flatten().flatten().find_map(|container| {
            let waiting = container.state.as_ref()?.waiting.as_ref()?;
            Some((container.name.as_str(), trouble(waiting)?, waiting))
        });
        let (container, reason, waiting) = waiting?;
        let detail = detail(waiting.message.as_deref(), waiting.reason.as_deref());
        let message = match reason {
            PendingReason::ImagePull => {
                format!("the image of container {container} of pod {name} cannot be pulled{detail}")
            }
            _ => format!("container {container} of pod {name} cannot be created{detail}"),
        };
        Some(Self::new(reason, message))
    }
}

/// The pending reason of a container whose state shows an error, such as an image that cannot be pulled. `None` for a
/// container that is being prepared.
fn trouble(waiting: &ContainerStateWaiting) -> Option<PendingReason> {
    match waiting.reason.as_deref()? {
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName" | "RegistryUnavailable" => {
            Some(PendingReason::ImagePull)
        }
        "CreateContainerError" | "CreateContainerConfigError" | "RunContainerError" => {
            Some(PendingReason::ContainerCreate)
        }
        _ => None,
    }
}

fn detail(message: Option<&str>, reason: Option<&str>) -> String {
    let text = message.filter(|text| !text.is_empty()).or(reason).unwrap_or_default();
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    #[test]
    fn codes_lead_back_to_their_reason_and_are_reasons_of_conditions() {
        for reason in PendingReason::ALL {
            assert_eq!(PendingReason::from_code(reason.as_str()), Some(reason));
            assert!(reason.as_str().chars().all(|letter| letter.is_ascii_alphabetic()));
        }
    }

    #[test]
    fn what_holds_a_pod_back_is_told_with_its_detail() {
        let unschedulable = pod(&json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]}));
        let expected = Pending::new(PendingReason::Unschedulable, "no node takes pod p: 0/3 nodes are available");
        assert_eq!(Pending::of_pod(&unschedulable), Some(expected));
        let waits = |reason: &str| {
            pod(&json!({"phase": "Pending", "containerStatuses": [{"name": "c", "ready": false, "restartCount": 0,
                "image": "i", "imageID": "", "state": {"waiting": {"reason": reason, "message": "m"}}}]}))
        };
        let reason = |name: &str| Pending::of_pod(&waits(name)).map(|pending| pending.reason);
        assert_eq!(reason("ImagePullBackOff"), Some(PendingReason::ImagePull));
        assert_eq!(reason("CreateContainerConfigError"), Some(PendingReason::ContainerCreate));
        assert_eq!(reason("ContainerCreating"), None);
        assert_eq!(Pending::of_pod(&pod(&json!({"phase": "Running"}))), None);
    }
}
