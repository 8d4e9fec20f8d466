//! What Kubernetes records about the pods of tasks: kept only for those, and forgotten with them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::api::Api;
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use super::pods::PodCache;
use super::{PAGE, Sink, Synced, follow};
use crate::cluster::ObjectEvent;
use crate::controller::memory::{ActionKey, Memory};
use crate::controller::queue::Queue;

/// The name of this watch in readiness and metrics.
pub const NAME: &str = "events";

/// Most events come with a change of the pod and need no round of their own; a warning may be all there is to see, so
/// it gets one, after a moment in which its siblings arrive.
const WARNING_DELAY: Duration = Duration::from_secs(1);

/// An object in trouble repeats itself; more than this many events of one object say nothing new.
const EVENTS_PER_OBJECT: usize = 64;

type Place = (String, String);

/// Events by the object they are about.
#[derive(Default)]
pub struct EventCache {
    by_object: Mutex<HashMap<Place, BTreeMap<String, Recorded>>>,
}

struct Recorded {
    kind: String,
    event: ObjectEvent,
}

impl EventCache {
    /// Events about an object after a moment, oldest first.
    pub fn since(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        created_after: Option<Timestamp>,
        recorded_after: Option<Timestamp>,
    ) -> Vec<ObjectEvent> {
        let by_object = self.lock();
        let events = by_object.get(&(namespace.to_owned(), name.to_owned())).into_iter().flat_map(BTreeMap::values);
        let of_kind = events.filter(|recorded| recorded.kind == kind).map(|recorded| recorded.event.clone());
        newer_events(of_kind, created_after, recorded_after)
    }

    /// Forgets what was recorded about an object.
    pub fn forget(&self, namespace: &str, name: &str) {
        self.lock().remove(&(namespace.to_owned(), name.to_owned()));
    }

    fn remove(&self, place: &Place, id: &str) {
        let mut by_object = self.lock();
        if let Some(events) = by_object.get_mut(place) {
            events.remove(id);
            if events.is_empty() {
                by_object.remove(place);
            }
        }
    }

    fn insert(&self, place: Place, id: String, kind: String, event: ObjectEvent) -> bool {
        let mut by_object = self.lock();
        let events = by_object.entry(place).or_default();
        // An update repeats what was said before.
        if events.contains_key(&id) || events.len() >= EVENTS_PER_OBJECT {
            return false;
        }
        events.insert(id, Recorded { kind, event });
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, BTreeMap<String, Recorded>>> {
        self.by_object.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events after a moment, oldest first. Events of the same second are told apart by when they were first seen.
///
/// Mirrors `controllerRuntimeEventWatcher.List`.
pub fn newer_events(
    events: impl IntoIterator<Item = ObjectEvent>,
    created_after: Option<Timestamp>,
    recorded_after: Option<Timestamp>,
) -> Vec<ObjectEvent> {
    let is_newer = |event: &ObjectEvent| match created_after {
        None => true,
        Some(created) => {
            event.created_at > created
                || (event.created_at == created && recorded_after.is_none_or(|recorded| event.recorded_at > recorded))
        }
    };
    let mut newer: Vec<_> = events.into_iter().filter(is_newer).collect();
    newer.sort_by_key(|event| (event.created_at, event.recorded_at));
    newer
}

/// What the event watch feeds and looks at.
#[derive(Clone)]
pub struct EventFeed {
    /// The cache.
    pub events: Arc<EventCache>,
    /// To know which pods are ours.
    pub pods: Arc<PodCache>,
    /// To know which pods will be ours.
    pub memory: Arc<Memory>,
    /// Woken by warnings.
    pub queue: Arc<Queue>,
}

/// Follows events about pods.
pub async fn run(client: kube::Client, feed: EventFeed, synced: Synced, cancel: CancellationToken) {
    let api: Api<Event> = Api::all(client);
    let config = watcher::Config::default().fields("regarding.kind=Pod").page_size(PAGE);
    follow(NAME, watcher(api, config), Events { feed }, synced, cancel).await;
}

struct Events {
    feed: EventFeed,
}

impl Sink<Event> for Events {
    fn seen(&mut self, event: Event, listed: bool) {
        let Some(regarding) = event.regarding else { return };
        let (Some(namespace), Some(name), Some(kind)) = (regarding.namespace, regarding.name, regarding.kind) else {
            return;
        };
        // Objects are named after their action and attempt, so the action is known before the pod is seen.
        let Some((action, _)) = name.rsplit_once('-') else { return };
        let key = ActionKey::new(&namespace, action);
        let ours = self.feed.pods.get(&namespace, &name).is_some() || self.feed.memory.get(&key).is_some();
        if !ours {
            return;
        }
        let now = Timestamp::now();
        let recorded = ObjectEvent {
            message: event.note.unwrap_or_default(),
            created_at: event.metadata.creation_timestamp.map_or(now, |time| time.0),
            recorded_at: now,
        };
        let id = event.metadata.name.unwrap_or_default();
        let is_new = self.feed.events.insert((namespace, name), id, kind, recorded);
        if is_new && !listed && event.type_.as_deref() == Some("Warning") {
            self.feed.queue.wake_at(&key, Instant::now() + WARNING_DELAY);
        }
    }

    fn restarted(&mut self) {}

    fn listed(&mut self) {}

    fn gone(&mut self, event: Event) {
        let Some(regarding) = event.regarding else { return };
        let place = (regarding.namespace.unwrap_or_default(), regarding.name.unwrap_or_default());
        self.feed.events.remove(&place, &event.metadata.name.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(created: i64, recorded: i64) -> ObjectEvent {
        let at = |second| Timestamp::from_second(second).expect("a time");
        ObjectEvent { message: format!("{created}/{recorded}"), created_at: at(created), recorded_at: at(recorded) }
    }

    #[test]
    fn events_come_oldest_first_and_only_once() {
        let at = |second| Timestamp::from_second(second).ok();
        let all = [event(5, 9), event(3, 8), event(5, 7)];
        let texts = |events: Vec<ObjectEvent>| events.into_iter().map(|event| event.message).collect::<Vec<_>>();
        assert_eq!(texts(newer_events(all.clone(), None, None)), ["3/8", "5/7", "5/9"]);
        assert_eq!(texts(newer_events(all.clone(), at(5), at(7))), ["5/9"]);
        assert_eq!(texts(newer_events(all, at(5), at(9))), Vec::<String>::new());
    }

    #[test]
    fn an_object_in_trouble_does_not_fill_the_memory() {
        let cache = EventCache::default();
        let place = ("ns".to_owned(), "a-0".to_owned());
        for number in 0..200 {
            cache.insert(place.clone(), number.to_string(), "Pod".into(), event(number, number));
        }
        assert_eq!(cache.since("Pod", "ns", "a-0", None, None).len(), EVENTS_PER_OBJECT);
        cache.forget("ns", "a-0");
        assert!(cache.lock().is_empty());
    }
}
