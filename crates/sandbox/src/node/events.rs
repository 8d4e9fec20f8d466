//! Events, as a scheduler and a kubelet record them: one object for all that is the same, with a count.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::mpsc;

use super::retry;

/// So many different events are remembered to count repetitions; a real recorder keeps as many.
const REMEMBERED: usize = 4096;

/// Who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    Scheduler,
    Kubelet,
}

/// Whether it is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Normal,
    Warning,
}

/// Records events in the background, in order.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    sender: mpsc::UnboundedSender<Note>,
}

#[derive(Debug)]
struct Note {
    about: ObjectReference,
    speaker: Speaker,
    tone: Tone,
    reason: &'static str,
    message: String,
    at: Timestamp,
}

/// What makes two events the same.
type Sameness = (Option<String>, Option<String>, &'static str, String);

impl Recorder {
    /// A recorder, and the work that it leaves to a task.
    pub(crate) fn new(client: Client, node: String) -> (Self, impl Future<Output = ()>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender }, record(client, node, receiver))
    }

    /// Something about a pod, or about the container of that field path.
    pub(crate) fn note(
        &self,
        pod: &Pod,
        field: Option<String>,
        (speaker, tone, reason): (Speaker, Tone, &'static str),
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
        // Nobody listens any more when the node stops; then there is nothing to say either.
        let _ = self.sender.send(Note { about, speaker, tone, reason, message, at: Timestamp::now() });
    }
}

async fn record(client: Client, node: String, mut notes: mpsc::UnboundedReceiver<Note>) {
    let mut known: HashMap<Sameness, (String, i32)> = HashMap::new();
    while let Some(note) = notes.recv().await {
        if known.len() > REMEMBERED {
            known.clear();
        }
        let namespace = note.about.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let same = (note.about.uid.clone(), note.about.field_path.clone(), note.reason, note.message.clone());
        if let Some((name, count)) = known.get_mut(&same) {
            *count += 1;
            let patch = Patch::Merge(json!({"count": *count, "lastTimestamp": Time(note.at)}));
            let params = PatchParams::default();
            let patched = retry::until_answered(|| api.patch(name, &params, &patch)).await;
            if matches!(patched, Ok(Some(_))) {
                continue;
            }
        }
        let event = event(note, &node);
        let params = PostParams::default();
        match retry::until_answered(|| api.create(&params, &event)).await {
            Ok(Some(_)) => drop(known.insert(same, (event.name_any(), 1))),
            Ok(None) => {}
            // The namespace goes, or a quota is full: events are never worth a failure.
            Err(error) => tracing::debug!(%error, "an event was refused"),
        }
    }
}

fn event(note: Note, node: &str) -> Event {
    let (component, host) = match note.speaker {
        Speaker::Scheduler => ("default-scheduler", None),
        Speaker::Kubelet => ("kubelet", Some(node.to_owned())),
    };
    let type_ = match note.tone {
        Tone::Normal => "Normal",
        Tone::Warning => "Warning",
    };
    let name = note.about.name.clone().unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:x}", note.at.as_nanosecond())),
            namespace: note.about.namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: note.about,
        reason: Some(note.reason.to_owned()),
        message: Some(note.message),
        type_: Some(type_.to_owned()),
        source: Some(EventSource { component: Some(component.to_owned()), host: host.clone() }),
        reporting_component: Some(component.to_owned()),
        reporting_instance: host,
        first_timestamp: Some(Time(note.at)),
        last_timestamp: Some(Time(note.at)),
        count: Some(1),
        ..Event::default()
    }
}
