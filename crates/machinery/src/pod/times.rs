//! Times in the status of a pod: its last change and its end.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::phase::{POD_READY, container_statuses, init_container_statuses};

/// Reason of the readiness condition once all containers of a pod have ended.
const POD_COMPLETED: &str = "PodCompleted";

/// When a container last started or ended; `now` if none has.
///
/// Mirrors `flytek8s.GetLastTransitionOccurredAt`.
///
/// ```
/// use aileron_machinery::jiff::Timestamp;
/// use aileron_machinery::pod::times::last_transition;
/// use aileron_machinery::testing::{NOW, pod, running};
/// # use aileron_machinery::serde_json::Value;
///
/// let pod = running(&pod("p-1", "main", &Value::Null));
/// assert_eq!(last_transition(&pod, Timestamp::UNIX_EPOCH).to_string(), NOW, "the start of its container");
/// ```
pub fn last_transition(pod: &Pod, now: Timestamp) -> Timestamp {
    let statuses = container_statuses(pod).iter().chain(init_container_statuses(pod));
    first_latest(statuses.filter_map(|status| {
        let state = status.state.as_ref()?;
        match (&state.running, &state.terminated) {
            (Some(running), _) => running.started_at.as_ref(),
            (None, Some(terminated)) => terminated.finished_at.as_ref(),
            (None, None) => None,
        }
    }))
    .unwrap_or(now)
}

/// When the kubelet reported that all containers had ended.
///
/// Mirrors `flytek8s.GetReportedAt`.
///
/// ```
/// use aileron_machinery::pod::times::reported_at;
/// use aileron_machinery::testing::{NOW, pod};
/// # use aileron_machinery::serde_json::json;
///
/// let ended = pod("p-1", "main", &json!({"conditions": [
///     {"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": NOW},
/// ]}));
/// assert_eq!(reported_at(&ended).unwrap().to_string(), NOW);
/// ```
pub fn reported_at(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    first_latest(conditions.iter().filter_map(|condition| {
        let completed = condition.type_ == POD_READY
            && condition.status == "False"
            && condition.reason.as_deref() == Some(POD_COMPLETED);
        condition.last_transition_time.as_ref().filter(|_| completed)
    }))
}

/// When the pod ended: the end of its last container. If no end is known, the time of its deletion, else of its start,
/// else of its creation.
///
/// Mirrors `GetCompletionTime` of the pod plugin.
///
/// ```
/// use aileron_machinery::pod::times::completed_at;
/// use aileron_machinery::testing::{NOW, exited, pod};
/// # use aileron_machinery::serde_json::Value;
///
/// let pod = pod("p-1", "main", &Value::Null);
/// assert_eq!(completed_at(&exited(&pod, 0)).unwrap().to_string(), NOW);
/// assert_eq!(completed_at(&pod), None);
/// ```
pub fn completed_at(pod: &Pod) -> Option<Timestamp> {
    let ends = |status: &ContainerStatus| {
        [&status.state, &status.last_state]
            .map(|state| state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0))
    };
    let statuses = init_container_statuses(pod).iter().chain(container_statuses(pod));
    statuses
        .flat_map(ends)
        .flatten()
        .max()
        .or_else(|| pod.metadata.deletion_timestamp.as_ref().map(|time| time.0))
        .or_else(|| pod.status.as_ref()?.start_time.as_ref().map(|time| time.0))
        .or_else(|| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// The latest time, compared by whole seconds. Of several in the same second, the first in the list.
fn first_latest<'a>(times: impl Iterator<Item = &'a Time>) -> Option<Timestamp> {
    times.map(|time| time.0).reduce(|latest, time| if time.as_second() > latest.as_second() { time } else { latest })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
    use super::*;
    use serde_json::json;

    fn pod(status: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}, "status": status}))
            .unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_last_change_of_any_container_counts() {
        let now = at("2020-01-02T00:00:00Z");
        let status = json!({
            "initContainerStatuses": [{"name": "i", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0, "finishedAt": "2020-01-01T00:00:05Z"}}}],
            "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {"startedAt": "2020-01-01T00:00:03Z"}}}],
        });
        assert_eq!(last_transition(&pod(status.clone()), now), at("2020-01-01T00:00:05Z"));
        assert_eq!(last_transition(&pod(json!({})), now), now);
        assert_eq!(completed_at(&pod(status)), Some(at("2020-01-01T00:00:05Z")));
        assert_eq!(completed_at(&pod(json!({"startTime": "2020-01-01T00:00:01Z"}))), Some(at("2020-01-01T00:00:01Z")));
        assert_eq!(completed_at(&pod(json!({}))), Some(at("2020-01-01T00:00:00Z")));
    }

    #[test]
    fn only_completion_is_reported() {
        let condition = |reason: &str| {
            let time = "2020-01-01T00:00:09Z";
            json!({"conditions": [{"type": "Ready", "status": "False", "reason": reason, "lastTransitionTime": time}]})
        };
        assert_eq!(reported_at(&pod(condition("PodCompleted"))), Some(at("2020-01-01T00:00:09Z")));
        assert_eq!(reported_at(&pod(condition("ContainersNotReady"))), None);
    }
}
