//! Simulates one pod from binding to its end.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::sleep;

use super::{End, Journal, Script, Settings, status};

/// Requests are retried for this long. A restarted API server is available again within seconds.
const RETRY_FOR: Duration = Duration::from_secs(60);
/// Pause between two tries. It is short because the server is on loopback.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// Serves a pod until the object is gone. `pods` has its newest state and closes when the object is gone.
pub(super) async fn pod(
    client: &Client,
    settings: &Settings,
    journal: &Journal,
    mut pods: Receiver<Pod>,
) -> Result<()> {
    let first = pods.borrow_and_update().clone();
    let api = Api::namespaced(client.clone(), &first.namespace().unwrap_or_default());
    let node = Node { api, client, settings, journal };
    let script = (settings.decide)(&first);
    let deleted = {
        let deletion =
            async { pods.wait_for(|pod| pod.metadata.deletion_timestamp.is_some()).await.ok().map(|pod| pod.clone()) };
        tokio::pin!(deletion);
        tokio::select! {
            biased; // a deletion interrupts the script
            deleted = &mut deletion => deleted,
            outcome = node.run_script(&first, &script) => {
                outcome?;
                deletion.await
            }
        }
    };
    match deleted {
        Some(pod) => node.terminate(&pod).await,
        None => Ok(()), // the object is already gone
    }
}

struct Node<'a> {
    api: Api<Pod>,
    client: &'a Client,
    settings: &'a Settings,
    journal: &'a Journal,
}

impl Node<'_> {
    /// Runs the script from the current state of the pod, so that a pod of an earlier kubelet continues.
    async fn run_script(&self, pod: &Pod, script: &Script) -> Result<()> {
        if is_terminal(pod) || script.end == End::Pending {
            return Ok(());
        }
        if let End::Unschedulable(message) = &script.end {
            return self.patch(pod, &status::unschedulable(message, (self.settings.now)())).await;
        }
        if pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_none() {
            self.bind(pod).await?;
            self.record_events(pod, &script.events).await?;
        }
        if let End::Waiting { reason, message } = &script.end {
            return self.patch(pod, &status::waiting(pod, reason, message, (self.settings.now)())).await;
        }
        if phase(pod) != "Running" {
            sleep(script.start_after).await;
            let now = (self.settings.now)();
            self.patch(pod, &status::running(pod, now)).await?;
            self.journal.run(pod, now);
        }
        if script.end == End::Run {
            return Ok(());
        }
        sleep(script.run_for).await;
        if script.end == End::Vanish {
            return self.delete(pod).await;
        }
        // Before the status: the executor may read the document as soon as the pod has ended.
        self.settings.store.write(pod, &script.document)?;
        match status::end(pod, &script.end, &script.leave_running, (self.settings.now)()) {
            Some(patch) => self.patch(pod, &patch).await,
            None => Ok(()),
        }
    }

    /// Stops the containers of a pod that is being deleted, and then deletes the object. As with kubelets since 1.27, the
    /// pod becomes terminal first.
    async fn terminate(&self, pod: &Pod) -> Result<()> {
        if !self.settings.finish_deletions {
            return Ok(());
        }
        sleep(self.settings.termination).await;
        if phase(pod) == "Running" {
            // 143 = 128 + SIGTERM.
            self.patch(pod, &status::exit(pod, 143, "Error", "", &[], (self.settings.now)())).await?;
        }
        self.delete(pod).await
    }

    async fn bind(&self, pod: &Pod) -> Result<()> {
        let name = pod.name_any();
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.settings.node},
        });
        retry_request(pod, "binding", || async {
            let params = PostParams::default();
            self.api.create_subresource::<_, Value>("binding", &name, &params, &binding).await.map(drop)
        })
        .await
    }

    async fn patch(&self, pod: &Pod, patch: &Value) -> Result<()> {
        let name = pod.name_any();
        // The UID makes the API server refuse the patch for a later pod of the same name.
        let mut patch = patch.clone();
        patch["metadata"] = json!({"uid": pod.uid()});
        retry_request(pod, "patching the status of", || async {
            self.api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&patch)).await.map(drop)
        })
        .await
    }

    async fn delete(&self, pod: &Pod) -> Result<()> {
        let name = pod.name_any();
        let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
        let params = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
        retry_request(pod, "deleting", || async { self.api.delete(&name, &params).await.map(drop) }).await
    }

    async fn record_events(&self, pod: &Pod, events: &[(String, String)]) -> Result<()> {
        use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
        use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
        let namespace = pod.namespace().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        for (reason, message) in events {
            let now = Some(Time((self.settings.now)()));
            let mut event = Event {
                involved_object: ObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(pod.name_any()),
                    namespace: Some(namespace.clone()),
                    uid: pod.uid(),
                    ..ObjectReference::default()
                },
                reason: Some(reason.clone()),
                message: Some(message.clone()),
                type_: Some("Normal".to_owned()),
                source: Some(EventSource { component: Some("kubelet".to_owned()), ..EventSource::default() }),
                first_timestamp: now.clone(),
                last_timestamp: now,
                count: Some(1),
                ..Event::default()
            };
            event.metadata.generate_name = Some(format!("{}.", pod.name_any()));
            retry_request(pod, "recording an event about", || async {
                api.create(&PostParams::default(), &event).await.map(drop)
            })
            .await?;
        }
        Ok(())
    }
}

/// Retries while the server is unavailable. If the object is gone or was replaced, there is nothing left to do.
async fn retry_request<F: Future<Output = kube::Result<()>>>(
    pod: &Pod,
    doing: &str,
    attempt: impl Fn() -> F,
) -> Result<()> {
    let begin = tokio::time::Instant::now();
    loop {
        match attempt().await {
            Ok(()) => return Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(()),
            Err(error) if refused(&error) || begin.elapsed() > RETRY_FOR => {
                let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
                return Err(error).with_context(|| format!("{doing} pod {namespace}/{name}"));
            }
            Err(_) => sleep(RETRY_EVERY).await,
        }
    }
}

/// Whether the server rejected the request, so that a retry is useless.
fn refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}
