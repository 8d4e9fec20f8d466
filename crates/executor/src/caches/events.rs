//! Kubernetes events about the objects of tasks. They are dropped together with the object.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aileron_action::pending::ObjectEvent;
use jiff::Timestamp;

/// Bounds the stored events of one object. An object with a problem repeats the same few events.
const EVENTS_PER_OBJECT: usize = 64;

/// Kind, namespace and name of the object that an event is about.
pub(crate) type About = (String, String, String);

/// Events by the object they are about.
#[derive(Default)]
pub struct EventCache {
    by_object: Mutex<HashMap<About, BTreeMap<String, ObjectEvent>>>,
}

impl EventCache {
    /// The events about an object after a given time, oldest first. See [`newer_events`].
    pub fn since(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        created_after: Option<Timestamp>,
        recorded_after: Option<Timestamp>,
    ) -> Vec<ObjectEvent> {
        let by_object = self.lock();
        let events = by_object.get(&about(kind, namespace, name)).into_iter().flat_map(BTreeMap::values);
        newer_events(events.cloned(), created_after, recorded_after)
    }

    /// How many objects events are stored about.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Drops the events about an object.
    pub fn forget(&self, kind: &str, namespace: &str, name: &str) {
        self.lock().remove(&about(kind, namespace, name));
    }

    /// Drops the events about all objects of a kind.
    pub(crate) fn forget_kind(&self, kind: &str) {
        self.lock().retain(|about, _| about.0 != kind);
    }

    /// Drops the events about objects of a kind that are not listed here.
    pub(crate) fn retain(&self, kind: &str, listed: &HashMap<About, HashSet<String>>) {
        self.lock().retain(|about, events| {
            if about.0 == kind {
                events.retain(|id, _| listed.get(about).is_some_and(|ids| ids.contains(id)));
            }
            !events.is_empty()
        });
    }

    pub(crate) fn remove(&self, about: &About, id: &str) {
        let mut by_object = self.lock();
        if let Some(events) = by_object.get_mut(about) {
            events.remove(id);
            if events.is_empty() {
                by_object.remove(about);
            }
        }
    }

    pub(crate) fn insert(&self, about: About, id: String, event: ObjectEvent) -> bool {
        let mut by_object = self.lock();
        let events = by_object.entry(about).or_default();
        // An update of an event repeats its message.
        if events.contains_key(&id) || events.len() >= EVENTS_PER_OBJECT {
            return false;
        }
        events.insert(id, event);
        true
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<About, BTreeMap<String, ObjectEvent>>> {
        self.by_object.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events that were created after a given time, oldest first. Creation times have a resolution of one second; within
/// that second the time at which the executor first saw the event decides.
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

pub(crate) fn about(kind: &str, namespace: &str, name: &str) -> About {
    (kind.to_owned(), namespace.to_owned(), name.to_owned())
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
    fn the_events_of_one_object_are_bounded() {
        let cache = EventCache::default();
        for number in 0..200 {
            cache.insert(about("Pod", "ns", "a-0"), number.to_string(), event(number, number));
        }
        assert_eq!(cache.since("Pod", "ns", "a-0", None, None).len(), EVENTS_PER_OBJECT);
        assert!(cache.insert(about("RayJob", "ns", "a-0"), "1".into(), event(1, 1)));
        cache.forget("Pod", "ns", "a-0");
        assert_eq!(cache.since("Pod", "ns", "a-0", None, None), []);
        assert_eq!(cache.since("RayJob", "ns", "a-0", None, None).len(), 1, "another kind's object of the same name");
        cache.forget("RayJob", "ns", "a-0");
        assert!(cache.lock().is_empty());
    }
}
