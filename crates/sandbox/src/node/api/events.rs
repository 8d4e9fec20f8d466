//! Recording of events. Equal events share one object with a count, as in a real cluster.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::mpsc;

use super::retry;

/// How many events are remembered to count repetitions. The recorder of client-go keeps as many.
const MAX_REMEMBERED: usize = 4096;

/// The component that reports an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reporter {
    Scheduler,
    Kubelet,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Normal,
    Warning,
}

/// Records events in the background, in order.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    sender: mpsc::UnboundedSender<NewEvent>,
}

#[derive(Debug)]
struct NewEvent {
    about: ObjectReference,
    reporter: Reporter,
    event_type: EventType,
    reason: &'static str,
    message: String,
    at: Timestamp,
}

/// Events are equal if they have the same uid, field path, reason and message.
type EventKey = (Option<String>, Option<String>, &'static str, String);

impl Recorder {
    /// A recorder, and the future that writes the events.
    pub(crate) fn new(client: Client, node: String) -> (Self, impl Future<Output = ()>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender }, write_events(client, node, receiver))
    }

    /// Records an event about a pod, or about its container with this field path.
    pub(crate) fn record(
        &self,
        pod: &Pod,
        field: Option<String>,
        (reporter, event_type, reason): (Reporter, EventType, &'static str),
        message: String,
    ) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            uid: pod.metadata.uid.clone(),
            resource_version: pod.metadata.resource_version.clone(),
            field_path: field,
        };
        // Fails only if the node has stopped.
        let _ = self.sender.send(NewEvent { about, reporter, event_type, reason, message, at: Timestamp::now() });
    }
}

async fn write_events(client: Client, node: String, mut new_events: mpsc::UnboundedReceiver<NewEvent>) {
    let mut known: HashMap<EventKey, (String, i32)> = HashMap::new();
    while let Some(new) = new_events.recv().await {
        if known.len() > MAX_REMEMBERED {
            known.clear();
        }
        let namespace = new.about.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let same = (new.about.uid.clone(), new.about.field_path.clone(), new.reason, new.message.clone());
        if let Some((name, count)) = known.get_mut(&same) {
            *count += 1;
            let patch = Patch::Merge(json!({"count": *count, "lastTimestamp": Time(new.at)}));
            let params = PatchParams::default();
            let patched = retry::until_answered(|| api.patch(name, &params, &patch)).await;
            if matches!(patched, Ok(Some(_))) {
                continue;
            }
        }
        let event = event(new, &node);
        let params = PostParams::default();
        match retry::until_answered(|| api.create(&params, &event)).await {
            Ok(Some(_)) => drop(known.insert(same, (event.name_any(), 1))),
            Ok(None) => {}
            // The namespace is being deleted, or a quota is exceeded. A missing event is not an error.
            Err(error) => tracing::debug!(%error, "the API server refused an event"),
        }
    }
}

fn event(new: NewEvent, node: &str) -> Event {
    let (component, host) = match new.reporter {
        Reporter::Scheduler => ("default-scheduler", None),
        Reporter::Kubelet => ("kubelet", Some(node.to_owned())),
    };
    let type_ = match new.event_type {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    let name = new.about.name.clone().unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:x}", new.at.as_nanosecond())),
            namespace: new.about.namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: new.about,
        reason: Some(new.reason.to_owned()),
        message: Some(new.message),
        type_: Some(type_.to_owned()),
        source: Some(EventSource { component: Some(component.to_owned()), host: host.clone() }),
        reporting_component: Some(component.to_owned()),
        reporting_instance: host,
        first_timestamp: Some(Time(new.at)),
        last_timestamp: Some(Time(new.at)),
        count: Some(1),
        ..Event::default()
    }
}
