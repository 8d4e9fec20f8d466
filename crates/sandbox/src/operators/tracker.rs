//! Tracks the objects of a kind and when the next stage of each is due. Has no side effects; the time is an argument.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::object::{Key, meta};
use super::rules::Rules;

/// The objects of a kind that have another stage.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    objects: HashMap<Key, Entry>,
    /// The objects of the list that is being received; `None` if no list is being received.
    listed: Option<HashSet<Key>>,
}

#[derive(Debug)]
struct Entry {
    object: Value,
    next: Option<NextStage>,
    /// Whether a write is in flight. Its answer decides what follows.
    is_writing: bool,
}

/// The next stage of an object, and when it is due.
#[derive(Debug)]
struct NextStage {
    stage: String,
    due: Instant,
}

impl Tracker {
    /// A list begins. Objects that are not in the list are dropped at its end.
    pub(super) fn begin_list(&mut self) {
        self.listed = Some(HashSet::new());
    }

    /// The list is complete.
    pub(super) fn end_list(&mut self) {
        if let Some(listed) = self.listed.take() {
            self.objects.retain(|key, _| listed.contains(key));
        }
    }

    /// Updates the tracker with a new or changed object. If the next stage is the same as before, its time stays the
    /// same.
    pub(super) fn update(&mut self, rules: &Rules, object: Value, now: Instant) {
        let key = Key::of(&object);
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
        let before = self.objects.remove(&key).filter(|entry| meta(&entry.object, "uid") == meta(&object, "uid"));
        let is_writing = before.as_ref().is_some_and(|entry| entry.is_writing);
        let next = rules.next(&object).map(|step| {
            let known = before.and_then(|entry| entry.next).filter(|next| next.stage == step.stage.name);
            known.unwrap_or_else(|| NextStage { stage: step.stage.name.clone(), due: now + step.after })
        });
        // Objects without a next stage are not tracked. Most objects have ended.
        if next.is_some() || is_writing {
            self.objects.insert(key, Entry { object, next, is_writing });
        }
    }

    /// Removes a deleted object.
    pub(super) fn remove(&mut self, key: &Key) {
        self.objects.remove(key);
    }

    /// When the next stage of any object is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let waiting = self.objects.values().filter(|entry| !entry.is_writing);
        waiting.filter_map(|entry| entry.next.as_ref()).map(|next| next.due).min()
    }

    /// The objects whose next stage is due, with the name of the stage. Their write counts as in flight from now on.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(Value, String)> {
        let mut due = Vec::new();
        for entry in self.objects.values_mut().filter(|entry| !entry.is_writing) {
            if let Some(next) = entry.next.as_ref().filter(|next| next.due <= now) {
                entry.is_writing = true;
                due.push((entry.object.clone(), next.stage.clone()));
            }
        }
        due
    }

    /// A write succeeded and returned this object.
    pub(super) fn written(&mut self, rules: &Rules, object: Value, now: Instant) {
        let key = Key::of(&object);
        // The object was deleted or replaced meanwhile.
        let Some(entry) = self.objects.get_mut(&key) else { return };
        entry.is_writing = false;
        if meta(&entry.object, "uid") == meta(&object, "uid") {
            entry.next = None;
            self.update(rules, object, now);
        }
    }

    /// A write failed. It is tried again after a delay, with the object as it is then.
    pub(super) fn failed(&mut self, key: &Key, after: Duration, now: Instant) {
        let Some(entry) = self.objects.get_mut(key) else { return };
        entry.is_writing = false;
        if let Some(next) = &mut entry.next {
            next.due = next.due.max(now + after);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    const RULES: &str = "
group: g.io
version: v1
kind: Thing
plural: things
stages:
  - {name: first, when: {.status.state: ''}, after: 1s, status: {state: One}}
  - {name: second, when: {.status.state: One}, after: 2s, status: {state: Two}}
";

    fn thing(uid: &str, state: &str) -> Value {
        json!({"metadata": {"name": "a", "namespace": "n", "uid": uid}, "status": {"state": state}})
    }

    fn stages(tracker: &mut Tracker, now: Instant) -> Vec<String> {
        tracker.take_due(now).into_iter().map(|(_, stage)| stage).collect()
    }

    #[tokio::test]
    async fn a_change_of_another_field_does_not_delay_the_next_stage() {
        let (rules, mut tracker, start) = (Rules::read(RULES).unwrap(), Tracker::default(), Instant::now());
        let second = Duration::from_secs(1);
        tracker.update(&rules, thing("u", ""), start);
        tracker.update(&rules, thing("u", ""), start + second / 2);
        assert_eq!(tracker.next_due(), Some(start + second));
        assert!(stages(&mut tracker, start + second / 2).is_empty());
        assert_eq!(stages(&mut tracker, start + second), ["first"]);
        assert!(stages(&mut tracker, start + second).is_empty(), "the write is in flight");
        // The delay starts again for another object with the same name.
        tracker.update(&rules, thing("v", ""), start + second);
        assert_eq!(tracker.next_due(), Some(start + second * 2));
    }

    #[tokio::test]
    async fn each_answer_leads_to_the_next_stage_until_there_is_none() {
        let (rules, mut tracker, start) = (Rules::read(RULES).unwrap(), Tracker::default(), Instant::now());
        let second = Duration::from_secs(1);
        tracker.update(&rules, thing("u", ""), start);
        assert_eq!(stages(&mut tracker, start + second), ["first"]);
        tracker.written(&rules, thing("u", "One"), start + second);
        assert_eq!(stages(&mut tracker, start + second * 3), ["second"]);
        tracker.failed(&Key { namespace: "n".to_owned(), name: "a".to_owned() }, second, start + second * 3);
        assert!(stages(&mut tracker, start + second * 3).is_empty());
        assert_eq!(stages(&mut tracker, start + second * 4), ["second"]);
        tracker.written(&rules, thing("u", "Two"), start + second * 4);
        assert!(tracker.objects.is_empty());
    }

    #[tokio::test]
    async fn objects_that_are_not_in_a_list_are_dropped() {
        let (rules, mut tracker, start) = (Rules::read(RULES).unwrap(), Tracker::default(), Instant::now());
        tracker.update(&rules, thing("u", ""), start);
        tracker.begin_list();
        assert_eq!(tracker.objects.len(), 1);
        tracker.end_list();
        assert!(tracker.objects.is_empty() && tracker.next_due().is_none());
    }
}
