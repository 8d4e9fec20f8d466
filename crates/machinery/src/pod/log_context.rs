//! The log context of a pod: its containers, and when each of them started and ended.

use aileron_idl::flyteidl2::core::container_context::ProcessContext;
use aileron_idl::flyteidl2::core::{ContainerContext, LogContext, PodLogContext};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::phase::{PRIMARY_CONTAINER_ANNOTATION, container_statuses, init_container_statuses};

/// The annotation by which `kubectl logs` chooses a container.
const DEFAULT_CONTAINER_ANNOTATION: &str = "kubectl.kubernetes.io/default-container";

/// The name of the primary container: the one that an annotation names, else the one with the name of the pod, else the
/// first. Empty if the pod has no containers.
///
/// Mirrors `flytek8s.GetPrimaryContainerName`.
///
/// ```
/// use aileron_machinery::pod::log_context::primary_container_name;
/// use aileron_machinery::testing::pod;
/// # use aileron_machinery::serde_json::Value;
///
/// assert_eq!(primary_container_name(&pod("p-1", "main", &Value::Null)), "main");
/// ```
pub fn primary_container_name(pod: &Pod) -> &str {
    let annotations = pod.metadata.annotations.as_ref();
    let annotation = |key| annotations.and_then(|annotations| annotations.get(key)).filter(|name| !name.is_empty());
    if let Some(name) = annotation(DEFAULT_CONTAINER_ANNOTATION).or_else(|| annotation(PRIMARY_CONTAINER_ANNOTATION)) {
        return name;
    }
    let containers = pod.spec.as_ref().map_or(&[][..], |spec| &spec.containers);
    let namesake = containers.iter().find(|container| Some(&container.name) == pod.metadata.name.as_ref());
    namesake.or_else(|| containers.first()).map_or("", |container| &container.name)
}

/// What a client needs to find the logs of a pod's containers.
///
/// Mirrors `flytek8s.BuildPodLogContext`.
///
/// ```
/// use aileron_machinery::idl::flyteidl2::core::LogContext;
/// use aileron_machinery::pod::log_context::pod_log_context;
/// use aileron_machinery::testing::pod;
/// # use aileron_machinery::serde_json::Value;
///
/// let pods = ["driver", "worker-0"].map(|name| pod(name, "main", &Value::Null));
/// let context = LogContext {
///     primary_pod_name: "driver".into(),
///     pods: pods.iter().map(|pod| pod_log_context(pod)).collect(),
///     ..LogContext::default()
/// };
/// assert_eq!(context.pods[1].pod_name, "worker-0");
/// ```
pub fn pod_log_context(pod: &Pod) -> PodLogContext {
    PodLogContext {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        pod_name: pod.metadata.name.clone().unwrap_or_default(),
        primary_container_name: primary_container_name(pod).to_owned(),
        containers: container_statuses(pod).iter().map(container_context).collect(),
        init_containers: init_container_statuses(pod).iter().map(container_context).collect(),
    }
}

/// The log context of a task that is one pod.
///
/// ```
/// use aileron_machinery::pod::log_context::log_context;
/// use aileron_machinery::testing::{pod, running};
/// # use aileron_machinery::serde_json::Value;
///
/// let context = log_context(&running(&pod("p-1", "main", &Value::Null)));
/// assert_eq!(context.primary_pod_name, "p-1");
/// assert_eq!(context.pods[0].containers[0].container_name, "main");
/// ```
pub fn log_context(pod: &Pod) -> LogContext {
    LogContext {
        primary_pod_name: pod.metadata.name.clone().unwrap_or_default(),
        pods: vec![pod_log_context(pod)],
        ..LogContext::default()
    }
}

/// # Differs from upstream
/// If the times of an ended container are unknown because its node was lost, they are absent here. Upstream sends the
/// year 1.
fn container_context(status: &ContainerStatus) -> ContainerContext {
    let state = status.state.as_ref();
    let terminated = state.and_then(|state| state.terminated.as_ref());
    let running = state.and_then(|state| state.running.as_ref());
    let started = match terminated {
        Some(terminated) => terminated.started_at.as_ref(),
        None => running.and_then(|running| running.started_at.as_ref()),
    };
    let ended = terminated.and_then(|terminated| terminated.finished_at.as_ref());
    ContainerContext {
        container_name: status.name.clone(),
        process: Some(ProcessContext {
            container_start_time: started.map(timestamp),
            container_end_time: ended.map(timestamp),
        }),
    }
}

fn timestamp(time: &Time) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.0.as_second(), nanos: time.0.subsec_nanosecond() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
    use super::*;
    use serde_json::json;

    fn primary(annotations: serde_json::Value, containers: serde_json::Value) -> String {
        let metadata = json!({"name": "p", "annotations": annotations});
        let pod: Pod =
            serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": containers}})).unwrap();
        primary_container_name(&pod).to_owned()
    }

    #[test]
    fn the_primary_container_is_annotated_or_named_like_the_pod_or_first() {
        let containers = json!([{"name": "a"}, {"name": "p"}]);
        let kubectl = json!({"kubectl.kubernetes.io/default-container": "k", "primary_container_name": "f"});
        assert_eq!(primary(kubectl, containers.clone()), "k");
        assert_eq!(primary(json!({"primary_container_name": "f"}), containers.clone()), "f");
        assert_eq!(primary(json!({}), containers), "p");
        assert_eq!(primary(json!({}), json!([{"name": "a"}])), "a");
        assert_eq!(primary(json!({}), json!([])), "");
    }

    #[test]
    fn unknown_times_stay_unknown() {
        let status = json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 137, "startedAt": null, "finishedAt": null}}});
        let process = container_context(&serde_json::from_value(status).unwrap()).process.unwrap();
        assert_eq!((process.container_start_time, process.container_end_time), (None, None));
    }
}
