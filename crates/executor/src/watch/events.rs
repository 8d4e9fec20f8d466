//! The watches over Kubernetes events about the objects of tasks.
//!
//! Each watch selects the events about one kind, so that the API server does not send all other events of the cluster.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aileron_action::pending::ObjectEvent;
use aileron_machinery::{ActionKey, AnyResource, ResourceKind};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ObjectMeta};
use kube::runtime::watcher;

use super::{PAGE, Sink, WatchContext};
use crate::caches::events::About;
use crate::cluster::listed::Malformed;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "events";

/// Most events come together with a change of the pod and need no round of their own. A warning may come alone, so it
/// wakes the action, after a moment in which further warnings arrive.
const WARNING_DELAY: Duration = Duration::from_secs(1);

/// Follows events about pods.
pub async fn run(cx: WatchContext) {
    follow_kind(NAME, cx, ResourceKind::of::<Pod>()).await;
}

/// Follows events about objects of one kind.
pub(super) async fn follow_kind(name: &'static str, cx: WatchContext, kind: ResourceKind) {
    let api = Api::all(cx.client.clone());
    let config = watcher::Config::default().fields(&format!("regarding.kind={}", kind.kind)).page_size(PAGE);
    let sink = Events { kind, cx: cx.clone(), listed: HashMap::new() };
    cx.follow(name, api, config, sink).await;
}

struct Events {
    kind: ResourceKind,
    cx: WatchContext,
    listed: HashMap<About, HashSet<String>>,
}

impl Events {
    /// The action that an object belongs to, if any.
    fn action_of(&self, namespace: &str, name: &str) -> Option<ActionKey> {
        let seen = match self.cx.caches.pods.get(namespace, name) {
            Some(pod) if self.kind == ResourceKind::of::<Pod>() => Some(pod as Arc<dyn AnyResource>),
            _ => self.cx.caches.objects.get(&self.kind, namespace, name),
        };
        // Most objects are named after their action and attempt, so the action is known before the object is seen.
        let named = || name.rsplit_once('-').map(|(action, _)| ActionKey::new(namespace, action));
        match seen {
            Some(object) => self.cx.caches.actions.actions_of(object.metadata()).into_iter().next(),
            None => named().filter(|key| self.cx.caches.actions.get(key).is_some()),
        }
    }
}

impl Sink<Event> for Events {
    fn seen(&mut self, event: Event, listed: bool) {
        let Some(regarding) = event.regarding else { return };
        let (Some(namespace), Some(name)) = (regarding.namespace, regarding.name) else { return };
        let Some(action) = self.action_of(&namespace, &name) else { return };
        let now = self.cx.clock.now();
        let recorded = ObjectEvent {
            message: event.note.unwrap_or_default(),
            created_at: event.metadata.creation_timestamp.map_or(now, |time| time.0),
            recorded_at: now,
        };
        let id = event.metadata.name.unwrap_or_default();
        let about = (self.kind.kind.to_string(), namespace, name);
        if listed {
            self.listed.entry(about.clone()).or_default().insert(id.clone());
        }
        let is_new = self.cx.caches.events.insert(about, id, recorded);
        if is_new && !listed && event.type_.as_deref() == Some("Warning") {
            self.cx.queue.wake_at(&action, self.cx.clock.instant() + WARNING_DELAY);
        }
    }

    /// Events only explain; a task goes on without one.
    fn malformed(&mut self, _event: Malformed, _listed: bool) {}

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        self.cx.caches.events.retain(&self.kind.kind, &std::mem::take(&mut self.listed));
    }

    fn gone(&mut self, metadata: &ObjectMeta, event: Option<Event>) {
        let Some(regarding) = event.and_then(|event| event.regarding) else { return };
        let (namespace, name) = (regarding.namespace.unwrap_or_default(), regarding.name.unwrap_or_default());
        let about = (self.kind.kind.to_string(), namespace, name);
        self.cx.caches.events.remove(&about, metadata.name.as_deref().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::caches::events::about;

    fn event(created: i64, recorded: i64) -> ObjectEvent {
        let at = |second| Timestamp::from_second(second).expect("a time");
        ObjectEvent { message: format!("{created}/{recorded}"), created_at: at(created), recorded_at: at(recorded) }
    }

    fn sink(kind: ResourceKind) -> Events {
        let cx = WatchContext::for_tests();
        let action = serde_json::json!({"apiVersion": "flyte.org/v1", "kind": "TaskAction",
            "metadata": {"name": "r-a0", "namespace": "ns", "resourceVersion": "1"}, "spec": {}});
        cx.caches.actions.observe(serde_json::from_value(action).expect("an action"));
        Events { kind, cx, listed: HashMap::new() }
    }

    fn ray() -> ResourceKind {
        ResourceKind { group: "ray.io".into(), version: "v1".into(), kind: "RayJob".into(), plural: "rayjobs".into() }
    }

    /// An event about an object of the action `r-a0`, or of no action.
    fn said(name: &str, number: usize) -> Event {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "eventTime": null, "note": "said",
            "metadata": {"name": format!("{name}.{number}"), "namespace": "ns"},
            "regarding": {"kind": "RayJob", "namespace": "ns", "name": name}}))
        .expect("an event")
    }

    #[tokio::test]
    async fn events_that_were_deleted_during_an_interruption_are_dropped() {
        let mut sink = sink(ray());
        for number in 0..3 {
            sink.seen(said("r-a0-0", number), false);
        }
        // About an object that was deleted before its event came: only a new list drops this event.
        sink.seen(said("r-a0-1", 0), false);
        sink.cx.caches.events.insert(about("Pod", "ns", "r-a0-0"), "1".into(), event(1, 1));
        let kept = |sink: &Events, name: &str| sink.cx.caches.events.since("RayJob", "ns", name, None, None).len();
        assert_eq!((kept(&sink, "r-a0-0"), kept(&sink, "r-a0-1")), (3, 1));
        sink.restarted();
        sink.seen(said("r-a0-0", 1), true);
        sink.seen(said("r-a0-0", 7), true);
        sink.listed();
        assert_eq!((kept(&sink, "r-a0-0"), kept(&sink, "r-a0-1")), (2, 0));
        assert_eq!(
            sink.cx.caches.events.since("Pod", "ns", "r-a0-0", None, None).len(),
            1,
            "this event belongs to another watch"
        );
        // An incomplete list drops nothing.
        sink.restarted();
        sink.seen(said("r-a0-0", 1), true);
        sink.restarted();
        sink.listed();
        assert_eq!(sink.cx.caches.events.lock().len(), 1);
        sink.cx.caches.events.forget_kind("Pod");
        assert!(sink.cx.caches.events.lock().is_empty());
    }

    #[tokio::test]
    async fn events_about_objects_of_operators_are_stored_and_those_about_other_objects_are_not() {
        let mut sink = sink(ray());
        sink.seen(said("r-a0-0", 1), false);
        sink.seen(said("stranger-0", 1), false);
        assert_eq!(sink.cx.caches.events.since("RayJob", "ns", "r-a0-0", None, None).len(), 1);
        assert_eq!(sink.cx.caches.events.lock().len(), 1);
        let deleted = said("r-a0-0", 1);
        sink.gone(&deleted.metadata.clone(), Some(deleted));
        assert!(sink.cx.caches.events.lock().is_empty());
    }
}
