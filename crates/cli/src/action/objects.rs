//! The objects that the executor or an operator created for an action.

use aileron_action::TaskAction;
use aileron_action::metadata::{ATTEMPT_LABEL, MANAGED_LABEL};
use aileron_kubekit::names::to_label_value;
use aileron_machinery::ResourceKind;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};

/// The label selector for all objects of an action. Operators copy these labels to the pods that they create.
fn selector(action: &TaskAction) -> String {
    let (label, value) = MANAGED_LABEL;
    let mut parts = vec![format!("{label}={value}")];
    for (label, value) in [("run", &action.spec.run_name), ("action", &action.spec.action_name)] {
        let value = to_label_value(value);
        if !value.is_empty() {
            parts.push(format!("{label}={value}"));
        }
    }
    parts.join(",")
}

/// The pods of an action, those of earlier attempts first.
pub async fn pods(client: &Client, action: &TaskAction) -> Result<Vec<Pod>, kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &action.namespace().unwrap_or_default());
    let mut pods = pods.list(&ListParams::default().labels(&selector(action))).await?.items;
    pods.sort_by_key(|pod| (attempt_of(pod.labels()), pod.creation_timestamp().map(|time| time.0), pod.name_any()));
    Ok(pods)
}

/// The attempt that an object belongs to, counted from 1.
pub fn attempt_of(labels: &std::collections::BTreeMap<String, String>) -> Option<u32> {
    labels.get(ATTEMPT_LABEL).and_then(|value| value.parse().ok())
}

/// The objects of an action, of all `kinds` except pods, with the kind of each. A kind that the cluster does not serve, or
/// that this user may not list, has no objects here.
pub async fn of_kinds(client: &Client, action: &TaskAction, kinds: &[ResourceKind]) -> Vec<(String, DynamicObject)> {
    let parameters = ListParams::default().labels(&selector(action));
    let lists = kinds.iter().filter(|kind| kind.kind != "Pod").map(|kind| {
        let resource = ApiResource {
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            api_version: if kind.group.is_empty() {
                kind.version.to_string()
            } else {
                format!("{}/{}", kind.group, kind.version)
            },
            kind: kind.kind.to_string(),
            plural: kind.plural.to_string(),
        };
        let namespace = action.namespace().unwrap_or_default();
        let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
        let (kind, parameters) = (kind.kind.to_string(), parameters.clone());
        async move {
            let listed = objects.list(&parameters).await.map(|list| list.items).unwrap_or_default();
            listed.into_iter().map(|object| (kind.clone(), object)).collect::<Vec<_>>()
        }
    });
    join_all(lists).await.into_iter().flatten().collect()
}

/// The Kubernetes events about objects with these names, oldest first.
pub async fn events(client: &Client, namespace: &str, names: &[String]) -> Result<Vec<Event>, kube::Error> {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let mut events = events.list(&ListParams::default()).await?.items;
    events.retain(|event| event.involved_object.name.as_ref().is_some_and(|name| names.contains(name)));
    events.sort_by_key(event_time);
    Ok(events)
}

/// When an event happened for the last time.
pub fn event_time(event: &Event) -> Option<jiff::Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    series.or(last).or_else(|| event.event_time.as_ref().map(|time| time.0))
}
