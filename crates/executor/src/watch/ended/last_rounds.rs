//! Ended actions that are being deleted. Each gets a last round, which removes our finalizer.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aileron_action::TaskAction;
use aileron_machinery::ActionKey;

use crate::caches::actions::ActionStore;
use crate::cluster::listed::Listed;

/// The ended actions that the watch shows as being deleted, by UID. Clones share them.
///
/// A fetched action may be gone before the answer arrives. It is stored only if the watch still shows it: nothing would
/// remove it from the store afterwards.
#[derive(Clone)]
pub(super) struct LastRounds {
    actions: Arc<ActionStore>,
    deleting: Arc<Mutex<HashMap<ActionKey, Option<String>>>>,
}

/// A fetched action is older than what the watch has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server answered with an outdated version of the action")]
pub(super) struct Outdated;

impl LastRounds {
    pub(super) fn new(actions: &Arc<ActionStore>) -> Self {
        Self { actions: Arc::clone(actions), deleting: Arc::default() }
    }

    /// The watch shows that an ended action is being deleted.
    pub(super) fn begin(&self, key: ActionKey, uid: Option<String>) {
        self.lock().insert(key, uid);
    }

    /// Stores a fetched action for its last round. Returns whether it needs a round.
    ///
    /// # Errors
    /// The answer is older than what the watch has shown: the action must be fetched again.
    pub(super) fn store(&self, key: &ActionKey, object: Listed<TaskAction>) -> Result<bool, Outdated> {
        let metadata = kube::Resource::meta(&object);
        let deleting = self.lock();
        if deleting.get(key) != Some(&metadata.uid) {
            return Ok(false);
        }
        // A deletion cannot be taken back.
        if metadata.deletion_timestamp.is_none() {
            return Err(Outdated);
        }
        // While the lock is held, so that the watch cannot show the end of the deletion in between.
        Ok(match object {
            Listed::Decoded(object) => self.actions.observe(*object),
            Listed::Malformed(malformed) => self.actions.observe_malformed(malformed.salvage()),
        })
    }

    /// The watch shows that an ended action is gone.
    pub(super) fn end(&self, key: &ActionKey, uid: Option<&str>) {
        let mut deleting = self.lock();
        if deleting.get(key).is_some_and(|known| known.as_deref() == uid) {
            deleting.remove(key);
        }
        self.actions.remove(key, uid);
    }

    /// Only these ended actions exist.
    pub(super) fn retain(&self, listed: &HashSet<ActionKey>) {
        let mut deleting = self.lock();
        deleting.retain(|key, _| listed.contains(key));
        self.actions.retain_in_last_round(listed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ActionKey, Option<String>>> {
        // No code panics while it holds the lock.
        self.deleting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn fetched(uid: &str) -> Listed<TaskAction> {
        let mut action = TaskAction::new("a", Default::default());
        action.metadata.namespace = Some("ns".to_owned());
        action.metadata.uid = Some(uid.to_owned());
        action.metadata.resource_version = Some("1".to_owned());
        action.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        Listed::Decoded(Box::new(action))
    }

    #[test]
    fn an_action_that_is_gone_before_its_answer_arrives_is_not_stored() {
        let actions = Arc::<ActionStore>::default();
        let (last_rounds, key) = (LastRounds::new(&actions), ActionKey::new("ns", "a"));
        last_rounds.begin(key.clone(), Some("u".to_owned()));
        last_rounds.end(&key, Some("u"));
        assert_eq!(last_rounds.store(&key, fetched("u")), Ok(false));
        last_rounds.begin(key.clone(), Some("u".to_owned()));
        last_rounds.retain(&HashSet::new());
        assert_eq!(last_rounds.store(&key, fetched("u")), Ok(false));
        assert_eq!(actions.len(), 0);
    }

    #[test]
    fn an_action_that_is_being_deleted_is_stored_until_it_is_gone_and_another_one_of_its_name_is_not() {
        let actions = Arc::<ActionStore>::default();
        let (last_rounds, key) = (LastRounds::new(&actions), ActionKey::new("ns", "a"));
        last_rounds.begin(key.clone(), Some("u".to_owned()));
        assert_eq!(last_rounds.store(&key, fetched("v")), Ok(false), "it belongs to another watch");
        let Listed::Decoded(mut outdated) = fetched("u") else { panic!("it is decoded") };
        outdated.metadata.deletion_timestamp = None;
        assert_eq!(
            last_rounds.store(&key, Listed::Decoded(outdated)),
            Err(Outdated),
            "the watch has shown a later one"
        );
        assert_eq!(last_rounds.store(&key, fetched("u")), Ok(true));
        last_rounds.end(&key, Some("u"));
        assert_eq!(actions.len(), 0);
    }
}
