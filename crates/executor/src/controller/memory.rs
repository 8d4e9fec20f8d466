//! What is known of the actions: what the watch showed, and over it what was written since.
//!
//! A round must never act on an object older than our own last write to it; so every write is entered here at once,
//! and whatever the watch shows later counts only if it is newer. The status may be ahead of the API server by a step
//! or two: an intermediate step is held here for a moment in case a newer one makes it superfluous.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use kube::api::ObjectMeta;

use crate::action::{Action, TaskAction, TaskActionStatus};

/// Names an action.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActionKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl ActionKey {
    /// The action of this name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }
}

/// A status that the API server does not have yet.
#[derive(Clone, Debug)]
pub struct Held {
    /// What the server has.
    pub written: TaskActionStatus,
    /// What it should have.
    pub wanted: TaskActionStatus,
    /// When it must have it.
    pub due: Instant,
}

struct Entry {
    version: u64,
    known: Known,
}

enum Known {
    Live { action: Arc<Action>, held: Option<(TaskActionStatus, Instant)> },
    /// Ended and labelled: nothing is kept but the version, so that older news about it are recognised.
    Ended,
}

/// All actions that have not ended.
#[derive(Default)]
pub struct Memory {
    entries: Mutex<HashMap<ActionKey, Entry>>,
}

impl Memory {
    /// Takes in what the watch shows. True if it is news, that is, not an echo of our own write.
    pub fn observe(&self, object: TaskAction) -> bool {
        let key = ActionKey::of(&object.metadata);
        let version = version(&object.metadata);
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(&key) else {
            let known = Known::Live { action: Arc::new(Action::new(object, None)), held: None };
            entries.insert(key, Entry { version, known });
            return true;
        };
        if version <= entry.version {
            return false;
        }
        entry.version = version;
        entry.known = match std::mem::replace(&mut entry.known, Known::Ended) {
            Known::Live { action, held } if action.object.metadata.uid == object.metadata.uid => {
                let mut newer = Action::new(object, Some(&action));
                let held = held.map(|(_, due)| {
                    let written = newer.status();
                    newer.object.status = Some(ours_over(action.status(), &written));
                    (written, due)
                });
                Known::Live { action: Arc::new(newer), held }
            }
            // Another action of the same name, or one that came back: nothing of the old one counts.
            Known::Live { .. } | Known::Ended => {
                Known::Live { action: Arc::new(Action::new(object, None)), held: None }
            }
        };
        true
    }

    /// The action left the watch: deleted, or labelled as ended.
    pub fn remove(&self, key: &ActionKey) {
        self.lock().remove(key);
    }

    /// Keeps only these actions, after the watch began anew with a full list; the answer is those that went.
    pub fn retain(&self, listed: &HashSet<ActionKey>) -> Vec<ActionKey> {
        let mut gone = Vec::new();
        self.lock().retain(|key, _| {
            let stays = listed.contains(key);
            if !stays {
                gone.push(key.clone());
            }
            stays
        });
        gone
    }

    /// The action as it is now, unless it has ended.
    pub fn get(&self, key: &ActionKey) -> Option<Arc<Action>> {
        match &self.lock().get(key)?.known {
            Known::Live { action, .. } => Some(Arc::clone(action)),
            Known::Ended => None,
        }
    }

    /// Every action that has not ended.
    pub fn keys(&self) -> Vec<ActionKey> {
        self.lock().iter().filter(|(_, entry)| matches!(entry.known, Known::Live { .. })).map(|(key, _)| key.clone()).collect()
    }

    /// How many actions are in each phase.
    pub fn count_by_phase(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for entry in self.lock().values() {
            if let Known::Live { action, .. } = &entry.known {
                let phase = action.object.status.as_ref().map(|status| status.plugin_phase.clone());
                let phase = phase.filter(|phase| !phase.is_empty()).unwrap_or_else(|| "Unknown".into());
                *counts.entry(phase).or_insert(0) += 1;
            }
        }
        counts
    }

    /// Enters a write of ours to the metadata, as the server answered it.
    pub fn wrote_metadata(&self, key: &ActionKey, metadata: &ObjectMeta) {
        self.change(key, metadata, |action, _| {
            action.object.metadata = ObjectMeta { managed_fields: None, ..metadata.clone() };
        });
    }

    /// Enters a write of ours to the status, as the server answered it.
    pub fn wrote_status(&self, key: &ActionKey, status: &TaskActionStatus, metadata: &ObjectMeta) {
        self.change(key, metadata, |action, held| {
            // A newer step may have been decided while this one was being written.
            match held {
                Some((written, _)) if action.object.status.as_ref() != Some(status) => *written = status.clone(),
                _ => {
                    *held = None;
                    action.object.status = Some(status.clone());
                }
            }
        });
    }

    /// Enters a status that is written later.
    pub fn hold_status(&self, key: &ActionKey, status: &TaskActionStatus, due: Instant) {
        let mut entries = self.lock();
        let Some(Entry { known: Known::Live { action, held }, .. }) = entries.get_mut(key) else { return };
        let written = held.take().map(|(written, _)| written).unwrap_or_else(|| action.status());
        *held = Some((written, due));
        let action = Arc::make_mut(action);
        action.object.status = Some(status.clone());
    }

    /// The status that is still to be written, if there is one.
    pub fn held(&self, key: &ActionKey) -> Option<Held> {
        match &self.lock().get(key)?.known {
            Known::Live { action, held: Some((written, due)) } => {
                Some(Held { written: written.clone(), wanted: action.status(), due: *due })
            }
            _ => None,
        }
    }

    /// The status that the API server has, as far as is known.
    pub fn written_status(&self, key: &ActionKey) -> Option<TaskActionStatus> {
        match &self.lock().get(key)?.known {
            Known::Live { held: Some((written, _)), .. } => Some(written.clone()),
            Known::Live { action, held: None } => Some(action.status()),
            Known::Ended => None,
        }
    }

    /// The action has ended and is labelled so; nothing more is needed of it.
    pub fn ended(&self, key: &ActionKey, metadata: &ObjectMeta) {
        if let Some(entry) = self.lock().get_mut(key) {
            entry.version = entry.version.max(version(metadata));
            entry.known = Known::Ended;
        }
    }

    fn change(
        &self,
        key: &ActionKey,
        metadata: &ObjectMeta,
        apply: impl FnOnce(&mut Action, &mut Option<(TaskActionStatus, Instant)>),
    ) {
        let mut entries = self.lock();
        let Some(Entry { version: known_version, known: Known::Live { action, held } }) = entries.get_mut(key) else {
            return;
        };
        if action.object.metadata.uid != metadata.uid {
            return;
        }
        let written = version(metadata);
        let action = Arc::make_mut(action);
        apply(action, held);
        if written > *known_version {
            *known_version = written;
            action.object.metadata.resource_version = metadata.resource_version.clone();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ActionKey, Entry>> {
        // Nothing panics while the lock is held, and entries are replaced as wholes.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Versions of one kind in one cluster grow with each write; an unreadable one counts as oldest, so it never hides news.
fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Our status, except for the fields that the control plane writes.
fn ours_over(mut ours: TaskActionStatus, server: &TaskActionStatus) -> TaskActionStatus {
    ours.signal_value = server.signal_value.clone();
    ours.signalled_by = server.signalled_by.clone();
    ours.signalled_at = server.signalled_at.clone();
    ours
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::action::TaskActionSpec;

    fn object(version: &str, phase: &str) -> TaskAction {
        let mut object = TaskAction::new("a", TaskActionSpec::default());
        object.metadata.namespace = Some("ns".into());
        object.metadata.uid = Some("u".into());
        object.metadata.generation = Some(1);
        object.metadata.resource_version = Some(version.into());
        object.status = Some(TaskActionStatus { plugin_phase: phase.into(), ..Default::default() });
        object
    }

    fn key() -> ActionKey {
        ActionKey::new("ns", "a")
    }

    fn phase(memory: &Memory) -> String {
        memory.get(&key()).unwrap().status().plugin_phase
    }

    #[test]
    fn an_older_object_never_hides_our_own_write() {
        let memory = Memory::default();
        assert!(memory.observe(object("5", "old")));
        let written = TaskActionStatus { plugin_phase: "new".into(), ..Default::default() };
        memory.wrote_status(&key(), &written, &object("9", "").metadata);
        assert!(!memory.observe(object("7", "stale")));
        assert!(!memory.observe(object("9", "new")), "an echo is no news");
        assert_eq!(phase(&memory), "new");
        assert!(memory.observe(object("10", "newer")));
        assert_eq!(phase(&memory), "newer");
    }

    #[test]
    fn a_held_status_survives_news_about_the_object() {
        let memory = Memory::default();
        memory.observe(object("5", "old"));
        let wanted = TaskActionStatus { plugin_phase: "wanted".into(), ..Default::default() };
        memory.hold_status(&key(), &wanted, Instant::now());
        let mut changed = object("6", "old");
        changed.metadata.deletion_timestamp = Some(crate::action::conditions::object_time(jiff::Timestamp::UNIX_EPOCH));
        changed.status.as_mut().unwrap().signalled_by = "ada".into();
        assert!(memory.observe(changed));
        assert_eq!(phase(&memory), "wanted");
        assert!(memory.get(&key()).unwrap().object.metadata.deletion_timestamp.is_some());
        let held = memory.held(&key()).unwrap();
        assert_eq!(held.written.plugin_phase, "old");
        assert_eq!(held.wanted.signalled_by, "ada");
    }

    #[test]
    fn an_ended_action_does_not_come_back_with_older_news() {
        let memory = Memory::default();
        memory.observe(object("5", "old"));
        memory.ended(&key(), &object("9", "").metadata);
        assert!(memory.get(&key()).is_none());
        assert!(!memory.observe(object("8", "late")));
        assert!(memory.get(&key()).is_none());
        memory.remove(&key());
        assert!(memory.lock().is_empty());
    }
}
