//! Pod statuses as a kubelet writes them, in the form of strategic merge patches.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use super::End;
use super::documents::task_container;

/// The scheduler found no node; `message` is the scheduler's message.
#[must_use]
pub fn unschedulable(message: &str, at: Timestamp) -> Value {
    let at = seconds(at);
    json!({"status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message, "lastTransitionTime": at},
    ]}})
}

/// The pod is bound, and every container waits with `reason`.
#[must_use]
pub fn waiting(pod: &Pod, reason: &str, message: &str, at: Timestamp) -> Value {
    let state = json!({"waiting": {"reason": reason, "message": message}});
    let statuses = containers(pod).iter().map(|container| container_status(container, false, &state));
    json!({"status": {
        "phase": "Pending",
        "startTime": seconds(at),
        "conditions": conditions(&[
            ("PodScheduled", true, ""), ("Initialized", true, ""),
            ("Ready", false, "ContainersNotReady"), ("ContainersReady", false, "ContainersNotReady"),
        ], at),
        "containerStatuses": statuses.collect::<Vec<_>>(),
    }})
}

/// Every container runs; the init containers have completed.
#[must_use]
pub fn running(pod: &Pod, at: Timestamp) -> Value {
    let (run, done) = (running_state(at), exited(0, "Completed", "", at, at));
    let statuses = containers(pod).iter().map(|container| container_status(container, true, &run));
    let init = init_containers(pod).iter().map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        container_status(container, true, if sidecar { &run } else { &done })
    });
    json!({"status": {
        "phase": "Running",
        "startTime": seconds(at),
        "hostIP": "10.0.0.2",
        "podIP": "10.0.0.3",
        "conditions": conditions(
            &[("PodScheduled", true, ""), ("Initialized", true, ""), ("Ready", true, ""), ("ContainersReady", true, "")], at,
        ),
        "containerStatuses": statuses.collect::<Vec<_>>(),
        "initContainerStatuses": init.collect::<Vec<_>>(),
    }})
}

/// The containers exited: the task's container with `code`, `reason` and `message`, the others with 0. Containers in
/// `leave_running` keep running, and then the pod stays Running.
#[must_use]
pub fn exit(pod: &Pod, code: i32, reason: &str, message: &str, leave_running: &[String], at: Timestamp) -> Value {
    let task = task_container(pod).map(|container| container.name.as_str());
    let since = started(pod).unwrap_or(at);
    let mut all_ended = true;
    let mut statuses = Vec::new();
    for container in containers(pod) {
        if leave_running.contains(&container.name) {
            all_ended = false;
            statuses.push(container_status(container, true, &running_state(since)));
        } else if task == Some(container.name.as_str()) {
            statuses.push(container_status(container, false, &exited(code, reason, message, since, at)));
        } else {
            statuses.push(container_status(container, false, &exited(0, "Completed", "", since, at)));
        }
    }
    let (phase, why) = match (all_ended, code) {
        (false, _) => ("Running", "ContainersNotReady"),
        (true, 0) => ("Succeeded", "PodCompleted"),
        (true, _) => ("Failed", "PodFailed"),
    };
    json!({"status": {
        "phase": phase,
        "conditions": conditions(&[("Ready", false, why), ("ContainersReady", false, why)], at),
        "containerStatuses": statuses,
    }})
}

/// The node evicted the pod.
#[must_use]
pub fn evicted(reason: &str, message: &str) -> Value {
    json!({"status": {"phase": "Failed", "reason": reason, "message": message}})
}

/// The status patch for the end of a pod, if `end` has one.
#[must_use]
pub fn end(pod: &Pod, end: &End, leave_running: &[String], at: Timestamp) -> Option<Value> {
    match end {
        End::Succeed => Some(exit(pod, 0, "Completed", "", leave_running, at)),
        End::Fail { exit_code, reason, message } => Some(exit(pod, *exit_code, reason, message, leave_running, at)),
        End::Evict { reason, message } => Some(evicted(reason, message)),
        End::Run | End::Pending | End::Unschedulable(_) | End::Waiting { .. } | End::Vanish => None,
    }
}

fn containers(pod: &Pod) -> &[Container] {
    pod.spec.as_ref().map_or(&[], |spec| &spec.containers)
}

fn init_containers(pod: &Pod) -> &[Container] {
    pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default()
}

fn started(pod: &Pod) -> Option<Timestamp> {
    Some(pod.status.as_ref()?.start_time.as_ref()?.0)
}

fn running_state(since: Timestamp) -> Value {
    json!({"running": {"startedAt": seconds(since)}, "terminated": null, "waiting": null})
}

fn exited(code: i32, reason: &str, message: &str, since: Timestamp, at: Timestamp) -> Value {
    let (since, at) = (seconds(since), seconds(at));
    // A patch merges, so the previous state must be removed explicitly.
    json!({
        "terminated": {"exitCode": code, "reason": reason, "message": message, "startedAt": since, "finishedAt": at},
        "running": null,
        "waiting": null,
    })
}

fn container_status(container: &Container, ready: bool, state: &Value) -> Value {
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
    })
}

fn conditions(of: &[(&str, bool, &str)], at: Timestamp) -> Value {
    let at = seconds(at);
    let one = |&(name, status, reason): &(&str, bool, &str)| {
        let status = if status { "True" } else { "False" };
        json!({"type": name, "status": status, "reason": reason, "lastTransitionTime": at})
    };
    of.iter().map(one).collect()
}

/// Formats a time in whole seconds, as Kubernetes stores it.
fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;

    use super::*;

    fn pod(names: &[&str]) -> Pod {
        let containers =
            names.iter().map(|&name| Container { name: name.to_owned(), ..Container::default() }).collect();
        Pod { spec: Some(PodSpec { containers, ..PodSpec::default() }), ..Pod::default() }
    }

    #[test]
    fn only_the_tasks_container_fails() {
        let patch = exit(&pod(&["main", "side"]), 137, "OOMKilled", "", &[], Timestamp::UNIX_EPOCH);
        let code = |i: usize| patch["status"]["containerStatuses"][i]["state"]["terminated"]["exitCode"].clone();
        assert_eq!((code(0), code(1)), (json!(137), json!(0)));
        assert_eq!(patch["status"]["phase"], "Failed");
    }

    #[test]
    fn a_pod_with_a_running_sidecar_is_running() {
        let patch = exit(&pod(&["main", "side"]), 0, "Completed", "", &["side".to_owned()], Timestamp::UNIX_EPOCH);
        assert_eq!(patch["status"]["phase"], "Running");
        assert_eq!(patch["status"]["containerStatuses"][1]["state"]["running"]["startedAt"], "1970-01-01T00:00:00Z");
    }
}
