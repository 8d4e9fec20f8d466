//! The scheduler: assigns pods to the node, in the order of priority and age, if they fit.

mod affinity;
pub(crate) mod fit;
pub(crate) mod queue;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use self::fit::{SchedulableNode, Unschedulable};
use self::queue::Queue;
use crate::node::api::events::{EventType, Recorder, Reporter};
use crate::node::api::retry;
use crate::node::resources;

/// Pause before another attempt after the API server refused a binding for an unknown reason.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Assigns waiting pods to the node whenever the queue has changed.
pub(crate) async fn run(queue: Arc<Queue>, node: SchedulableNode, client: Client, recorder: Recorder) {
    // By uid: the message that was last reported for a pod that does not fit.
    let mut reported: HashMap<String, String> = HashMap::new();
    loop {
        queue.changed().await;
        let (waiting, mut used, mut count) = queue.snapshot();
        reported.retain(|uid, _| queue.is_waiting(uid));
        let mut refused = false;
        for pod in waiting {
            let uid = pod.uid().unwrap_or_default();
            match node.check(&pod, &used, count) {
                Ok(()) => match bind(&client, &pod, &node.name).await {
                    Ok(Some(())) => {
                        let requests = resources::pod_requests(&pod);
                        resources::add(&mut used, &requests);
                        count += 1;
                        queue.assign(uid, requests);
                        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
                        let message = format!("Successfully assigned {namespace}/{name} to {}", node.name);
                        recorder.record(&pod, None, (Reporter::Scheduler, EventType::Normal, "Scheduled"), message);
                    }
                    // The pod is gone, or another scheduler has bound it. The watch will report it.
                    Ok(None) => queue.dequeue(&uid),
                    Err(error) => {
                        tracing::warn!(%error, pod = %pod.name_any(), "the API server refused to bind a pod");
                        refused = true;
                    }
                },
                Err(unschedulable) => {
                    let message = unschedulable.message();
                    if reported.get(&uid) != Some(&message) {
                        write_condition(&client, &pod, &unschedulable).await;
                        let event = (Reporter::Scheduler, EventType::Warning, "FailedScheduling");
                        recorder.record(&pod, None, event, message.clone());
                        reported.insert(uid, message);
                    }
                }
            }
        }
        if refused {
            let queue = queue.clone();
            tokio::spawn(async move {
                tokio::time::sleep(RETRY_DELAY).await;
                queue.notify();
            });
        }
    }
}

async fn bind(client: &Client, pod: &Pod, node: &str) -> kube::Result<Option<()>> {
    let name = pod.name_any();
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "uid": pod.uid()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let params = PostParams::default();
    let bound =
        retry::until_answered(|| api.create_subresource::<_, Value>("binding", &name, &params, &binding)).await?;
    Ok(bound.map(drop))
}

/// Writes the condition `PodScheduled=False` with the reason into the status of the pod.
async fn write_condition(client: &Client, pod: &Pod, unschedulable: &Unschedulable) {
    let name = pod.name_any();
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let known = pod.status.as_ref().and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let since = known.filter(|one| one.type_ == "PodScheduled" && one.status == "False");
    let since = since.filter_map(|one| one.last_transition_time.as_ref()).map(|time| time.0).next();
    let since = since.unwrap_or_else(Timestamp::now).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": unschedulable.message(),
        "lastTransitionTime": since,
    });
    let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}}));
    let params = PatchParams::default();
    if let Err(error) = retry::until_answered(|| api.patch_status(&name, &params, &patch)).await {
        tracing::debug!(%error, pod = %name, "the API server refused the status of a pod");
    }
}
