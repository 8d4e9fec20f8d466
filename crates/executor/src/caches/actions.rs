//! The actions as the executor saw or wrote them last, whichever is newer.
//!
//! A round must never act on an object that is older than the executor's own last write to it. So every write is recorded
//! here at once, and an object from the watch is stored only if its resource version is newer. The status here may be
//! newer than the one on the API server: an intermediate status is held for a moment, because the next one often replaces
//! it before it is written.

mod labelled;
mod statuses;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aileron_action::salvage::Salvaged;
use aileron_action::{Action, TaskAction, TaskActionStatus, labels};
use aileron_machinery::{ActionKey, PendingReason};
use kube::api::ObjectMeta;

use self::labelled::{LabelIndex, ObjectLabels};
use crate::caches::held_status::{Unwritten, with_fields_of_control_plane};
use crate::caches::{Versions, version};

struct Entry {
    version: u64,
    known: Known,
    /// The labels of the action's objects, as the index has them.
    labels: Option<Arc<ObjectLabels>>,
    /// The status that the executor is writing now, or that it sent and got no answer for. The watch may show it before the
    /// API server answers the write.
    announced: Option<Box<TaskActionStatus>>,
}

enum Known {
    Live {
        action: Arc<Action>,
        held: Option<Box<Unwritten>>,
    },
    /// Ended and labelled as such. Only the resource version is kept, so that an older object from the watch is recognised.
    Ended,
}

/// All actions that have not ended.
#[derive(Default)]
pub struct ActionStore {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<ActionKey, Entry>,
    labelled: LabelIndex,
}

impl ActionStore {
    /// Stores an object from the watch. Returns whether it has a change that is not the executor's own write.
    pub fn observe(&self, object: TaskAction) -> bool {
        self.store(object, Action::new)
    }

    /// As [`Self::observe`], for an object with fields that cannot be decoded.
    pub fn observe_malformed(&self, salvaged: Salvaged) -> bool {
        let Salvaged { object, message } = salvaged;
        self.store(object, |object, _| Action::malformed(Salvaged { object, message }))
    }

    fn store(&self, object: TaskAction, action: impl FnOnce(TaskAction, Option<&Action>) -> Action) -> bool {
        let key = ActionKey::of(&object.metadata);
        let version = version(&object.metadata);
        let mut inner = self.lock();
        let Inner { entries, labelled } = &mut *inner;
        let Some(entry) = entries.get_mut(&key) else {
            let labels = ObjectLabels::of(&object).map(Arc::new);
            labelled.replace(&key, None, labels.as_ref());
            let known = Known::Live { action: Arc::new(action(object, None)), held: None };
            entries.insert(key, Entry { version, known, labels, announced: None });
            return true;
        };
        if version < entry.version || (version == entry.version && !entry.known.lacks(&object)) {
            return false;
        }
        let echo = entry.is_announced(&object);
        let is_written = entry.announced.as_deref().is_some_and(|announced| object.status.as_ref() == Some(announced));
        if is_written {
            // Whether or not an answer arrives: the held status is older than the written one.
            entry.announced = None;
            if let Known::Live { held, .. } = &mut entry.known {
                *held = None;
            }
        }
        let is_same = matches!(&entry.known, Known::Live { action, .. } if action.has_spec_of(&object.metadata));
        if !is_same {
            let labels = ObjectLabels::of(&object).map(Arc::new);
            labelled.replace(&key, entry.labels.as_ref(), labels.as_ref());
            entry.labels = labels;
        }
        entry.version = version;
        entry.known = match std::mem::replace(&mut entry.known, Known::Ended) {
            Known::Live { action: earlier, held } if earlier.object.metadata.uid == object.metadata.uid => {
                let mut newer = action(object, Some(&earlier));
                let shown = newer.status();
                // A status that another executor wrote makes the held one void: it was decided on an older one.
                let held = held.filter(|held| with_fields_of_control_plane(held.written.clone(), &shown) == shown);
                let held = held.map(|held| {
                    newer.object.status = Some(with_fields_of_control_plane(earlier.status(), &shown));
                    Box::new(Unwritten { written: shown, ..*held })
                });
                Known::Live { action: Arc::new(newer), held }
            }
            // Another action of the same name, or an ended one that is being deleted: nothing of the old entry applies.
            Known::Live { .. } | Known::Ended => Known::Live { action: Arc::new(action(object, None)), held: None },
        };
        !echo
    }

    /// Stores an action that was read after a write whose result was not known.
    pub(crate) fn read_again(&self, key: &ActionKey, store: impl FnOnce(&Self) -> bool) {
        store(self);
        if let Some(entry) = self.lock().entries.get_mut(key) {
            entry.announced = None;
        }
    }

    /// Whether the result of the last write of the status is not known: it may have been carried out without an answer.
    pub(crate) fn is_uncertain(&self, key: &ActionKey) -> bool {
        self.lock().entries.get(key).is_some_and(|entry| entry.announced.is_some())
    }

    /// Removes an action that no longer exists. A later action of the same name stays.
    pub fn remove(&self, key: &ActionKey, uid: Option<&str>) {
        let mut inner = self.lock();
        let is_other = inner.entries.get(key).is_some_and(|entry| entry.known.is_other_than(uid));
        if !is_other {
            inner.forget(key);
        }
    }

    /// Removes an action that the watch of actions that have not ended no longer shows, because it was deleted or labelled
    /// as ended. An action in its last round stays: the watch of ended actions added it, and removes it.
    pub fn left(&self, key: &ActionKey) {
        let mut inner = self.lock();
        if inner.entries.get(key).is_some_and(|entry| !entry.known.is_in_last_round()) {
            inner.forget(key);
        }
    }

    /// Keeps only the listed actions and those in their last round. For a new full list of the watch of actions that have
    /// not ended. Returns the removed actions.
    pub fn retain(&self, listed: &HashSet<ActionKey>) -> Vec<ActionKey> {
        let mut inner = self.lock();
        let stays = |key: &ActionKey, entry: &Entry| listed.contains(key) || entry.known.is_in_last_round();
        let gone = inner.entries.iter().filter(|(key, entry)| !stays(key, entry));
        let gone: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
        for key in &gone {
            inner.forget(key);
        }
        gone
    }

    /// Removes actions in their last round that are not listed. For a new full list of the watch of ended actions.
    pub fn retain_in_last_round(&self, listed: &HashSet<ActionKey>) {
        let mut inner = self.lock();
        let gone = inner.entries.iter().filter(|(key, entry)| entry.known.is_in_last_round() && !listed.contains(*key));
        let gone: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
        for key in &gone {
            inner.forget(key);
        }
    }

    /// The action, unless it has ended.
    pub fn get(&self, key: &ActionKey) -> Option<Arc<Action>> {
        match &self.lock().entries.get(key)?.known {
            Known::Live { action, .. } => Some(Arc::clone(action)),
            Known::Ended => None,
        }
    }

    /// The actions whose objects have these labels.
    pub fn labelled(&self, namespace: &str, run: &str, action: &str) -> Vec<ActionKey> {
        self.lock().labelled.get(&ObjectLabels::new(namespace, run, action))
    }

    /// Every action that has not ended.
    pub fn keys(&self) -> Vec<ActionKey> {
        self.lock()
            .entries
            .iter()
            .filter(|(_, entry)| matches!(entry.known, Known::Live { .. }))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// The resource versions of all actions that have not ended, as the watch or an own write last showed them.
    pub(crate) fn versions(&self) -> Versions {
        let inner = self.lock();
        let live = |entry: &Entry| matches!(entry.known, Known::Live { .. }) && !entry.known.is_in_last_round();
        let live = inner.entries.iter().filter(|(_, entry)| live(entry));
        live.map(|(key, entry)| ((key.namespace.to_string(), key.name.to_string()), entry.version)).collect()
    }

    /// How many actions are stored, ended ones included.
    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// How many actions are in each phase.
    pub fn count_by_phase(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for entry in self.lock().entries.values() {
            if let Known::Live { action, .. } = &entry.known {
                let phase = action.object.status.as_ref().map(|status| status.plugin_phase.clone());
                let phase = phase.filter(|phase| !phase.is_empty()).unwrap_or_else(|| "Unknown".into());
                *counts.entry(phase).or_insert(0) += 1;
            }
        }
        counts
    }

    /// How many actions wait for each reason, including reasons without any action.
    pub fn count_by_pending(&self) -> BTreeMap<PendingReason, usize> {
        let mut counts: BTreeMap<_, _> = PendingReason::ALL.into_iter().map(|reason| (reason, 0)).collect();
        for entry in self.lock().entries.values() {
            if let Known::Live { action, .. } = &entry.known
                && let Some(pending) = action.object.status.as_ref().and_then(TaskActionStatus::pending)
                && let Some(count) = PendingReason::from_code(&pending.reason).and_then(|it| counts.get_mut(&it))
            {
                *count += 1;
            }
        }
        counts
    }

    /// Records a write of the executor to the metadata, with the metadata from the answer of the API server.
    pub fn wrote_metadata(&self, key: &ActionKey, metadata: &ObjectMeta) {
        let mut inner = self.lock();
        let Some((known_version, action, _)) = live(&mut inner.entries, key, metadata) else { return };
        let written = version(metadata);
        if written > *known_version {
            *known_version = written;
            action.object.metadata = ObjectMeta { managed_fields: None, ..metadata.clone() };
        }
    }

    /// Records that an action has ended and is labelled as such. Everything but its resource version is dropped, unless the
    /// action is stored again already, for its last round: it is being deleted, and the answer to the write of the labels
    /// came late.
    pub fn ended(&self, key: &ActionKey, metadata: &ObjectMeta) {
        let written = version(metadata);
        if let Some(entry) = self.lock().entries.get_mut(key)
            && written >= entry.version
            && !entry.known.is_in_last_round()
        {
            entry.version = written;
            entry.known = Known::Ended;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics while it holds the lock, and entries are replaced as a whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn forget(&mut self, key: &ActionKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.labelled.replace(key, entry.labels.as_ref(), None);
        }
    }
}

impl Entry {
    /// Whether the object has the status that the executor is writing and no other change.
    fn is_announced(&self, object: &TaskAction) -> bool {
        let (Known::Live { action, .. }, Some(announced)) = (&self.known, &self.announced) else { return false };
        let known = &action.object.metadata;
        let metadata = ObjectMeta {
            managed_fields: None,
            resource_version: known.resource_version.clone(),
            ..object.metadata.clone()
        };
        object.status.as_ref() == Some(announced.as_ref()) && metadata == *known
    }
}

impl Known {
    /// Whether the object differs from the stored one although the resource versions are equal. The stored version comes
    /// from the answer to the executor's own write; what another client wrote just before it is only in the object.
    fn lacks(&self, object: &TaskAction) -> bool {
        match self {
            Self::Live { action, held } => {
                let shown = object.status.clone().unwrap_or_default();
                let same_status = match held {
                    Some(unwritten) => shown == unwritten.written,
                    None => shown == action.status(),
                };
                let metadata = ObjectMeta { managed_fields: None, ..object.metadata.clone() };
                !same_status || metadata != action.object.metadata
            }
            Self::Ended => object.metadata.deletion_timestamp.is_some(),
        }
    }

    /// Whether this is known to be another action than the one with this UID.
    fn is_other_than(&self, uid: Option<&str>) -> bool {
        matches!(self, Self::Live { action, .. } if action.object.metadata.uid.as_deref() != uid)
    }

    /// Whether the action is ended and labelled, and stored again because it is being deleted.
    fn is_in_last_round(&self) -> bool {
        matches!(self, Self::Live { action, .. } if labels::are_terminal(action.object.metadata.labels.as_ref()))
    }
}

/// The parts of an entry that a write of the executor changes.
type Parts<'a> = (&'a mut u64, &'a mut Action, &'a mut Option<Box<Unwritten>>);

/// The parts of the action that was written, unless it has ended or another action has its name now.
fn live<'a>(entries: &'a mut HashMap<ActionKey, Entry>, key: &ActionKey, metadata: &ObjectMeta) -> Option<Parts<'a>> {
    match entries.get_mut(key)? {
        Entry { version, known: Known::Live { action, held }, .. } if action.object.metadata.uid == metadata.uid => {
            Some((version, Arc::make_mut(action), held))
        }
        _ => None,
    }
}

impl ActionStore {
    /// The actions that an object may belong to.
    ///
    /// The owner reference names the action of an object that the executor made. A pod that an operator made belongs to
    /// the operator's object, but carries the labels of the run and the action. If no stored action has these labels, the
    /// name of the action is derived from the labels. Where owner references are switched off, the name of an object is
    /// that of its action followed by the attempt.
    pub(crate) fn actions_of(&self, metadata: &ObjectMeta) -> Vec<ActionKey> {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        if let Some(owner) = owners.iter().find(|owner| owner.kind == "TaskAction") {
            return vec![ActionKey::new(namespace, &owner.name)];
        }
        let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key));
        let labels = label("run").zip(label("action"));
        let known = labels.map(|(run, action)| self.labelled(namespace, run, action)).unwrap_or_default();
        if !known.is_empty() {
            return known;
        }
        let labelled = labels.map(|(run, action)| format!("{run}-{action}"));
        let name = metadata.name.as_deref();
        let named = name.and_then(|name| name.rsplit_once('-')).map(|(action, _)| action.to_owned());
        labelled.into_iter().chain(named).map(|name| ActionKey::new(namespace, &name)).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use aileron_action::TaskActionSpec;
    use serde_json::{Value, json};

    use super::*;
    use crate::caches::held_status::StatusStore;

    pub(super) fn object(version: &str, phase: &str) -> TaskAction {
        let mut object = TaskAction::new("a", TaskActionSpec::default());
        object.metadata.namespace = Some("ns".into());
        object.metadata.uid = Some("u".into());
        object.metadata.generation = Some(1);
        object.metadata.resource_version = Some(version.into());
        object.status = Some(TaskActionStatus { plugin_phase: phase.into(), ..Default::default() });
        object
    }

    pub(super) fn key() -> ActionKey {
        ActionKey::new("ns", "a")
    }

    pub(super) fn phase(store: &ActionStore) -> String {
        store.get(&key()).unwrap().status().plugin_phase
    }

    #[test]
    fn an_older_object_never_hides_our_own_write() {
        let store = ActionStore::default();
        assert!(store.observe(object("5", "old")));
        let written = TaskActionStatus { plugin_phase: "new".into(), ..Default::default() };
        store.wrote_status(&key(), &written, &object("9", "").metadata);
        assert!(!store.observe(object("7", "stale")));
        assert!(!store.observe(object("9", "new")), "the executor's own write is not a change");
        assert_eq!(phase(&store), "new");
        assert!(store.observe(object("10", "newer")));
        assert_eq!(phase(&store), "newer");
    }

    #[test]
    fn an_ended_action_comes_back_for_its_last_round_and_stays_until_it_is_gone() {
        let store = ActionStore::default();
        store.observe(object("5", "old"));
        let mut labelled = object("9", "old");
        labelled.metadata.labels = Some(
            [(labels::TERMINATION_STATUS, labels::TERMINATED), (labels::COMPLETED_TIME, "t")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        );
        labelled.metadata.deletion_timestamp =
            Some(aileron_action::conditions::object_time(jiff::Timestamp::UNIX_EPOCH));
        store.ended(&key(), &labelled.metadata);
        assert!(store.observe(labelled), "deleted just before it was labelled");
        store.left(&key());
        store.retain(&HashSet::new());
        assert!(store.get(&key()).is_some());
        store.remove(&key(), Some("u"));
        assert!(store.get(&key()).is_none());
    }

    #[test]
    fn a_late_answer_about_the_labels_does_not_drop_the_last_round() {
        let store = ActionStore::default();
        store.observe(object("5", "old"));
        let mut deleting = object("9", "old");
        deleting.metadata.deletion_timestamp =
            Some(aileron_action::conditions::object_time(jiff::Timestamp::UNIX_EPOCH));
        assert!(store.observe(deleting));
        store.ended(&key(), &object("8", "").metadata);
        assert!(store.get(&key()).is_some());
    }

    #[test]
    fn a_late_answer_about_the_labels_of_a_deleted_action_does_not_drop_the_last_round() {
        let store = ActionStore::default();
        store.observe(object("5", "old"));
        let mut labelled = object("9", "old");
        labelled.metadata.deletion_timestamp =
            Some(aileron_action::conditions::object_time(jiff::Timestamp::UNIX_EPOCH));
        let ended = [(labels::TERMINATION_STATUS, labels::TERMINATED), (labels::COMPLETED_TIME, "2026-01-01.00-00")];
        labelled.metadata.labels = Some(ended.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let answer = labelled.metadata.clone();
        assert!(store.observe(labelled), "the watch of ended actions shows it first");
        store.ended(&key(), &answer);
        assert!(store.get(&key()).is_some());
    }

    #[test]
    fn an_ended_action_does_not_come_back_with_older_news() {
        let store = ActionStore::default();
        store.observe(object("5", "old"));
        store.ended(&key(), &object("9", "").metadata);
        assert!(store.get(&key()).is_none());
        assert!(!store.observe(object("8", "late")));
        assert!(store.get(&key()).is_none());
        store.remove(&key(), Some("u"));
        assert!(store.lock().entries.is_empty());
    }

    #[test]
    fn the_end_of_a_deletion_does_not_remove_a_later_action_of_the_same_name() {
        let store = ActionStore::default();
        let mut later = object("12", "new");
        later.metadata.uid = Some("v".into());
        store.observe(later);
        store.remove(&key(), Some("u"));
        assert_eq!(phase(&store), "new");
        store.remove(&key(), Some("v"));
        assert!(store.get(&key()).is_none());
    }

    #[test]
    fn actions_are_found_by_the_labels_of_their_objects_as_long_as_they_are_known() {
        let named = |name: &str, run: &str, action: &str| {
            let mut object = object("5", "old");
            object.metadata.name = Some(name.into());
            object.spec.run_name = run.into();
            object.spec.action_name = action.into();
            object
        };
        let found = |store: &ActionStore, run: &str, action: &str| {
            let keys = store.labelled("ns", run, action);
            keys.into_iter().map(|key| key.name.to_string()).collect::<Vec<_>>()
        };
        let store = ActionStore::default();
        store.observe(named("r-a0", "r", "r"));
        let long = "x".repeat(70);
        store.observe(named("long-a", &long, "a b"));
        store.observe(named("long-b", &long, "a/b"));
        assert_eq!(found(&store, "r", "r"), ["r-a0"], "the root action is not named after its labels");
        assert_eq!(found(&store, &"x".repeat(63), "a-b"), ["long-a", "long-b"], "cut and replaced, and so alike");
        assert_eq!(found(&store, "r", "a0"), Vec::<String>::new());
        assert!(store.labelled("other", "r", "r").is_empty());

        // A later action of the same name has labels of its own.
        let mut later = named("r-a0", "s", "s");
        later.metadata.uid = Some("v".into());
        later.metadata.resource_version = Some("6".into());
        store.observe(later);
        assert_eq!((found(&store, "r", "r"), found(&store, "s", "s")), (vec![], vec!["r-a0".to_owned()]));

        store.left(&ActionKey::new("ns", "r-a0"));
        store.remove(&ActionKey::new("ns", "long-a"), Some("u"));
        assert_eq!(found(&store, &"x".repeat(63), "a-b"), ["long-b"]);
        store.retain(&HashSet::new());
        assert!(store.lock().labelled.is_empty());
    }

    fn names(metadata: Value) -> Vec<String> {
        let metadata = serde_json::from_value(metadata).unwrap();
        let store = ActionStore::default();
        let mut root = TaskAction::new("r2-a0", TaskActionSpec::default());
        root.metadata.namespace = Some("ns".into());
        root.spec.run_name = "r2".into();
        root.spec.action_name = "r2".into();
        store.observe(root);
        store.actions_of(&metadata).into_iter().map(|key| format!("{}/{}", key.namespace, key.name)).collect()
    }

    #[test]
    fn objects_lead_to_their_action_also_those_that_operators_make() {
        let owner = |kind: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "r1-a0", "uid": "u"}]);
        let own = json!({"name": "r1-a0-0", "namespace": "ns", "ownerReferences": owner("TaskAction")});
        assert_eq!(names(own), ["ns/r1-a0"]);
        let labels = json!({"run": "r1", "action": "a0"});
        let of_operator = json!({"name": "r1-a0-0-driver", "namespace": "ns", "labels": labels,
            "ownerReferences": owner("SparkApplication")});
        assert_eq!(names(of_operator)[0], "ns/r1-a0");
        assert_eq!(names(json!({"name": "r1-a0-0", "namespace": "ns"})), ["ns/r1-a0"]);
        let labels = json!({"run": "r2", "action": "r2"});
        let of_root = json!({"name": "job-worker-0", "namespace": "ns", "labels": labels});
        assert_eq!(names(of_root), ["ns/r2-a0"], "and nobody is woken in vain");
    }
}
