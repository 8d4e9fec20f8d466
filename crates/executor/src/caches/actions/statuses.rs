//! The held statuses. They are stored with the actions, because both change under the same lock.

use std::sync::Arc;
use std::time::Instant;

use aileron_action::TaskActionStatus;
use aileron_machinery::ActionKey;
use kube::api::ObjectMeta;

use super::{ActionStore, Entry, Known, live};
use crate::caches::held_status::{Held, StatusStore, Unwritten, Written};
use crate::caches::version;

impl StatusStore for ActionStore {
    fn hold_status(&self, key: &ActionKey, status: &TaskActionStatus, now: Instant, due: Instant) {
        let mut inner = self.lock();
        let Some(Entry { known: Known::Live { action, held }, .. }) = inner.entries.get_mut(key) else { return };
        let earlier = held.take().map(|held| *held);
        *held = Some(Box::new(Unwritten::hold(earlier, || action.status(), now, due)));
        Arc::make_mut(action).object.status = Some(status.clone());
    }

    fn held(&self, key: &ActionKey) -> Option<Held> {
        let inner = self.lock();
        let entry = inner.entries.get(key)?;
        match &entry.known {
            Known::Live { action, held: Some(held) } => {
                let Unwritten { written, since, due } = held.as_ref();
                let written = Written::new(written.clone(), entry.version);
                Some(Held { written, wanted: action.status(), since: *since, due: *due })
            }
            _ => None,
        }
    }

    fn held_keys(&self) -> Vec<ActionKey> {
        let is_held = |entry: &Entry| matches!(entry.known, Known::Live { held: Some(_), .. });
        self.lock().entries.iter().filter(|(_, entry)| is_held(entry)).map(|(key, _)| key.clone()).collect()
    }

    fn written_status(&self, key: &ActionKey) -> Option<TaskActionStatus> {
        match &self.lock().entries.get(key)?.known {
            Known::Live { held: Some(held), .. } => Some(held.written.clone()),
            Known::Live { action, held: None } => Some(action.status()),
            Known::Ended => None,
        }
    }

    fn announce_status(&self, key: &ActionKey, status: &TaskActionStatus) {
        if let Some(entry) = self.lock().entries.get_mut(key) {
            entry.announced = Some(Box::new(status.clone()));
        }
    }

    /// A held status is older than the written one, because the statuses of one action are decided one after the other.
    fn wrote_status(&self, key: &ActionKey, status: &TaskActionStatus, metadata: &ObjectMeta) {
        let mut inner = self.lock();
        if let Some(entry) = inner.entries.get_mut(key) {
            entry.announced = None;
        }
        let Some((known_version, action, held)) = live(&mut inner.entries, key, metadata) else { return };
        let written = version(metadata);
        if written > *known_version {
            *known_version = written;
            *held = None;
            action.object.metadata.resource_version = metadata.resource_version.clone();
            action.object.status = Some(status.clone());
        } else if let Some(held) = held.take() {
            // The watch showed this write, and perhaps later ones, before the answer of the API server arrived.
            action.object.status = Some(held.written);
        }
    }

    fn refused_status(&self, key: &ActionKey) {
        if let Some(entry) = self.lock().entries.get_mut(key) {
            entry.announced = None;
        }
    }

    fn has_status(&self, key: &ActionKey, status: &TaskActionStatus) {
        if let Some(Entry { known: Known::Live { action, held }, .. }) = self.lock().entries.get_mut(key)
            && held.take().is_some()
        {
            Arc::make_mut(action).object.status = Some(status.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::{key, object, phase};
    use super::*;

    #[test]
    fn a_held_status_is_listed_until_it_is_written() {
        let store = ActionStore::default();
        store.observe(object("5", "old"));
        assert!(store.held_keys().is_empty());
        let wanted = TaskActionStatus { plugin_phase: "wanted".into(), ..Default::default() };
        store.hold_status(&key(), &wanted, Instant::now(), Instant::now());
        assert_eq!(store.held_keys(), [key()]);
        assert_eq!(
            (phase(&store).as_str(), store.written_status(&key()).unwrap().plugin_phase.as_str()),
            ("wanted", "old")
        );
        store.has_status(&key(), &wanted);
        assert!(store.held_keys().is_empty());
        assert_eq!(phase(&store), "wanted");
    }

    #[test]
    fn a_held_status_survives_a_change_of_the_object() {
        let store = ActionStore::default();
        store.observe(object("5", "old"));
        let wanted = TaskActionStatus { plugin_phase: "wanted".into(), ..Default::default() };
        store.hold_status(&key(), &wanted, Instant::now(), Instant::now());
        let mut changed = object("6", "old");
        changed.metadata.deletion_timestamp =
            Some(aileron_action::conditions::object_time(jiff::Timestamp::UNIX_EPOCH));
        changed.status.as_mut().unwrap().signalled_by = "ada".into();
        assert!(store.observe(changed));
        assert_eq!(phase(&store), "wanted");
        assert!(store.get(&key()).unwrap().object.metadata.deletion_timestamp.is_some());
        let held = store.held(&key()).unwrap();
        assert_eq!((held.written.status.plugin_phase.as_str(), held.written.version), ("old", Some(6)));
        assert_eq!(held.wanted.signalled_by, "ada");
    }

    #[test]
    fn a_write_replaces_the_held_status_whether_the_watch_or_the_answer_comes_first() {
        let status = |phase: &str| TaskActionStatus { plugin_phase: phase.into(), ..Default::default() };
        for watch_is_faster in [false, true] {
            let store = ActionStore::default();
            store.observe(object("5", "old"));
            store.hold_status(&key(), &status("held"), Instant::now(), Instant::now());
            if watch_is_faster {
                store.observe(object("6", "next"));
            }
            store.wrote_status(&key(), &status("next"), &object("6", "").metadata);
            assert_eq!(phase(&store), "next", "watch is faster: {watch_is_faster}");
            assert!(store.held(&key()).is_none());
        }
    }

    #[test]
    fn the_own_write_is_not_a_change_even_if_the_watch_shows_it_before_the_answer() {
        let store = ActionStore::default();
        store.observe(object("1", "queued"));
        let status = object("2", "running").status.unwrap();
        store.announce_status(&key(), &status);
        assert!(!store.observe(object("2", "running")));
        store.wrote_status(&key(), &status, &object("2", "running").metadata);
        assert_eq!(phase(&store), "running");
        // The same status, written later by another client, is a change.
        assert!(store.observe(object("3", "running")));
    }

    #[test]
    fn a_change_by_another_client_together_with_the_own_write_is_reported() {
        let store = ActionStore::default();
        store.observe(object("1", "queued"));
        store.announce_status(&key(), &object("2", "running").status.unwrap());
        let mut signalled = object("2", "running");
        signalled.status.as_mut().unwrap().signalled_by = "ada".into();
        assert!(store.observe(signalled));
        let mut deleted = object("3", "running");
        deleted.metadata.deletion_grace_period_seconds = Some(0);
        assert!(store.observe(deleted));
    }

    #[test]
    fn a_write_of_another_client_just_before_the_own_write_is_not_missed() {
        let store = ActionStore::default();
        store.observe(object("5", "old"));
        let written = TaskActionStatus { plugin_phase: "new".into(), ..Default::default() };
        store.wrote_status(&key(), &written, &object("7", "").metadata);
        // Deleted and signalled at version 6, then the executor's own write.
        let mut echo = object("7", "new");
        echo.metadata.deletion_timestamp = Some(aileron_action::conditions::object_time(jiff::Timestamp::UNIX_EPOCH));
        echo.status.as_mut().unwrap().signalled_by = "ada".into();
        assert!(store.observe(echo.clone()));
        let action = store.get(&key()).unwrap();
        assert!(action.object.metadata.deletion_timestamp.is_some());
        assert_eq!(action.status().signalled_by, "ada");
        assert!(!store.observe(echo), "the change is reported once");
    }

    fn ended() -> TaskActionStatus {
        TaskActionStatus { plugin_phase: "ended".into(), ..Default::default() }
    }

    /// A status is held, and a later one is sent without an answer.
    fn store_after_a_lost_answer() -> ActionStore {
        let store = ActionStore::default();
        store.observe(object("5", "old"));
        let wanted = TaskActionStatus { plugin_phase: "held".into(), ..Default::default() };
        store.hold_status(&key(), &wanted, Instant::now(), Instant::now());
        store.announce_status(&key(), &ended());
        assert!(store.is_uncertain(&key()));
        store
    }

    #[test]
    fn a_status_that_was_written_without_an_answer_replaces_the_held_one_when_it_is_seen() {
        let store = store_after_a_lost_answer();
        store.read_again(&key(), |store| store.observe(object("6", "ended")));
        assert_eq!((phase(&store).as_str(), store.is_uncertain(&key())), ("ended", false));
        assert!(store.held(&key()).is_none());

        let store = store_after_a_lost_answer();
        store.observe(object("6", "ended"));
        assert_eq!((phase(&store).as_str(), store.is_uncertain(&key())), ("ended", false), "as the watch shows it");
        assert!(store.held(&key()).is_none());
    }

    #[test]
    fn a_status_that_was_not_written_leaves_the_held_one() {
        let store = store_after_a_lost_answer();
        store.read_again(&key(), |store| store.observe(object("5", "old")));
        assert_eq!((phase(&store).as_str(), store.is_uncertain(&key())), ("held", false));
        assert_eq!(store.held(&key()).unwrap().written.version, Some(5));
    }

    #[test]
    fn a_status_that_another_executor_wrote_makes_the_held_one_void() {
        let store = ActionStore::default();
        store.observe(object("5", "old"));
        let wanted = TaskActionStatus { plugin_phase: "held".into(), ..Default::default() };
        store.hold_status(&key(), &wanted, Instant::now(), Instant::now());
        assert!(store.observe(object("6", "ended")), "the action needs a round");
        assert_eq!(phase(&store), "ended");
        assert!(store.held(&key()).is_none());
    }
}
