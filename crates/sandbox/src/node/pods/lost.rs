//! Pods that ran when an earlier process of this node ended: their processes do not exist any more.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The status `Failed` of a pod that an earlier process of this node started and did not finish. `None` if the pod has
/// terminated, or has not been started and can still run.
pub(crate) fn lost_status(pod: &Pod, now: Timestamp) -> Option<PodStatus> {
    let status = pod.status.as_ref()?;
    status.start_time.as_ref()?;
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let mut lost = status.clone();
    lost.phase = Some("Failed".to_owned());
    lost.reason = Some("NodeLost".to_owned());
    lost.message = Some("The sandbox stopped while this pod was running, and its processes ended with it".to_owned());
    for container in lost.container_statuses.iter_mut().chain(&mut lost.init_container_statuses).flatten() {
        set_terminated(container, now);
    }
    for condition in lost.conditions.iter_mut().flatten() {
        if matches!(condition.type_.as_str(), "Ready" | "ContainersReady") && condition.status != "False" {
            condition.status = "False".to_owned();
            condition.reason = Some("PodFailed".to_owned());
            condition.last_transition_time = Some(Time(now));
        }
    }
    Some(lost)
}

/// Sets the state that a kubelet reports for a container that it cannot find.
fn set_terminated(container: &mut ContainerStatus, now: Timestamp) {
    let has_terminated = container.state.as_ref().is_some_and(|state| state.terminated.is_some());
    if has_terminated {
        return;
    }
    let started = container.state.as_ref().and_then(|state| state.running.as_ref()?.started_at.clone());
    container.ready = false;
    container.started = Some(false);
    container.state = Some(ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: 137,
            reason: Some("ContainerStatusUnknown".to_owned()),
            message: Some("The container could not be located when the pod was terminated".to_owned()),
            started_at: started,
            finished_at: Some(Time(now)),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_started_pod_is_lost() {
        let pod = |status| -> Pod { serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap() };
        let now = Timestamp::from_second(9).unwrap();
        assert_eq!(lost_status(&pod(json!({"phase": "Pending"})), now), None);
        let start = "2026-01-01T00:00:00Z";
        assert_eq!(lost_status(&pod(json!({"phase": "Succeeded", "startTime": start})), now), None);
        let running = json!({"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": start}}});
        let lost =
            lost_status(&pod(json!({"phase": "Running", "startTime": start, "containerStatuses": [running]})), now);
        let lost = serde_json::to_value(lost.unwrap()).unwrap();
        assert_eq!((&lost["phase"], &lost["reason"]), (&json!("Failed"), &json!("NodeLost")));
        let terminated = &lost["containerStatuses"][0]["state"]["terminated"];
        assert_eq!((&terminated["exitCode"], &terminated["startedAt"]), (&json!(137), &json!(start)));
    }
}
