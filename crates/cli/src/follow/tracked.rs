//! The actions that are followed, and the states that were observed of each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::Followed;
use crate::action::{DisplayPhase, Summary};
use crate::display::duration;

/// Namespace and name of an action.
pub type Key = (String, String);

/// An action that is younger than this when first observed counts as observed from its creation. Its duration is then
/// measured with the local clock, because the API server keeps only whole seconds.
const MAX_NEW_AGE: Duration = Duration::from_secs(2);

/// A state of an action, and when it was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedState {
    pub phase: DisplayPhase,
    pub attempt: u32,
    pub reason: String,
    pub message: String,
    /// The time since the creation of the action.
    pub at: Duration,
}

/// An action that was observed.
#[derive(Clone, Debug)]
pub struct Row {
    pub summary: Summary,
    begin: Instant,
    ended: Option<Duration>,
    history: Vec<ObservedState>,
}

/// Which actions are followed.
#[derive(Clone, Debug)]
enum Selection {
    /// Exactly these, in this order. With `created_later`, a missing action will still be created.
    Exactly { keys: Vec<Key>, created_later: bool },
    /// All actions, or those with these names if there are any.
    Any(BTreeSet<String>),
}

/// All actions that are followed.
#[derive(Clone, Debug)]
pub struct TrackedActions {
    /// When following began.
    pub begin: Instant,
    selection: Selection,
    rows: BTreeMap<Key, Row>,
    order: Vec<Key>,
}

impl Row {
    /// The time from the creation of the action to its end, or to `now`.
    pub fn duration(&self, now: Instant) -> Duration {
        self.ended.unwrap_or_else(|| now.saturating_duration_since(self.begin))
    }

    /// Adds the current state to the history if it differs from the last one. Returns true if it does.
    fn record_state(&mut self, now: Instant) -> bool {
        let Summary { phase, attempt, reason, message, .. } = &self.summary;
        let same = |last: &ObservedState| {
            (last.phase, last.attempt, &last.reason, &last.message) == (*phase, *attempt, reason, message)
        };
        if self.history.last().is_some_and(same) {
            return false;
        }
        let at = now.saturating_duration_since(self.begin);
        self.history.push(ObservedState {
            phase: *phase,
            attempt: *attempt,
            reason: reason.clone(),
            message: message.clone(),
            at,
        });
        true
    }
}

impl TrackedActions {
    /// Follows exactly these actions. With `created_later`, a missing action will still be created; otherwise it was deleted.
    pub fn exactly(keys: &[Key], created_later: bool) -> Self {
        Self::new(Selection::Exactly { keys: keys.to_vec(), created_later })
    }

    /// Follows all actions, or those with these names if there are any.
    pub fn any(names: Vec<String>) -> Self {
        Self::new(Selection::Any(names.into_iter().collect()))
    }

    fn new(selection: Selection) -> Self {
        Self { begin: Instant::now(), selection, rows: BTreeMap::new(), order: Vec::new() }
    }

    /// An action exists or has changed. Returns its key if there is something new to show.
    pub fn update(&mut self, summary: Summary, now: Instant, wall: Timestamp) -> Option<Key> {
        let key = (summary.namespace.clone(), summary.name.clone());
        let is_selected = match &self.selection {
            Selection::Exactly { keys, .. } => keys.contains(&key),
            Selection::Any(names) => names.is_empty() || names.contains(&key.1),
        };
        if !is_selected {
            return None;
        }
        let age = summary.created.map(|created| duration::between(created, wall)).unwrap_or_default();
        let row = self.rows.entry(key.clone()).or_insert_with(|| {
            self.order.push(key.clone());
            let begin = if age < MAX_NEW_AGE { now } else { now.checked_sub(age).unwrap_or(now) };
            Row { summary: summary.clone(), begin, ended: None, history: Vec::new() }
        });
        // A new action of the same name replaces a deleted one.
        if row.summary.created < summary.created {
            *row = Row { summary: summary.clone(), begin: now, ended: None, history: Vec::new() };
        }
        row.summary = summary;
        if row.summary.phase.outcome().is_some() && row.ended.is_none() {
            let observed_before_end = row.history.iter().any(|state| state.phase.outcome().is_none());
            let observed = now.saturating_duration_since(row.begin);
            row.ended = Some(if observed_before_end { observed } else { row.summary.duration(wall) });
        }
        row.record_state(now).then_some(key)
    }

    /// An action was deleted. If it had not ended, it was aborted.
    pub fn delete(&mut self, key: &Key, now: Instant, wall: Timestamp) -> Option<Key> {
        let row = self.rows.get_mut(key)?;
        row.summary = row.summary.clone().aborted(wall);
        let begin = row.begin;
        row.ended.get_or_insert_with(|| now.saturating_duration_since(begin));
        let is_new = row.record_state(now);
        if let Selection::Any(_) = self.selection {
            // A list shows only actions that exist.
            if !is_new {
                self.rows.remove(key);
                self.order.retain(|other| other != key);
            }
        }
        is_new.then(|| key.clone())
    }

    /// `keys` are all actions of the namespace. Every other action of the namespace was deleted.
    pub fn delete_unlisted(
        &mut self,
        namespace: Option<&str>,
        keys: &BTreeSet<Key>,
        now: Instant,
        wall: Timestamp,
    ) -> Vec<Key> {
        let is_missing = |key: &Key| namespace.is_none_or(|namespace| key.0 == namespace) && !keys.contains(key);
        if let Selection::Exactly { keys: selected, created_later: false } = &self.selection {
            // An action that was never observed and does not exist was deleted before following began.
            for key in selected.iter().filter(|key| is_missing(key)) {
                if !self.rows.contains_key(key) {
                    self.order.push(key.clone());
                    self.rows.insert(key.clone(), never_observed(key, now));
                }
            }
        }
        let deleted: Vec<_> = self.order.iter().filter(|key| is_missing(key)).cloned().collect();
        deleted.iter().filter_map(|key| self.delete(key, now, wall)).collect()
    }

    /// True if all selected actions have ended.
    pub fn have_all_ended(&self) -> bool {
        match &self.selection {
            Selection::Exactly { keys, .. } => {
                keys.iter().all(|key| self.rows.get(key).is_some_and(|row| row.summary.phase.outcome().is_some()))
            }
            Selection::Any(_) => false,
        }
    }

    /// The length of the longest name, if the names are known in advance.
    pub fn longest_name(&self) -> Option<usize> {
        match &self.selection {
            Selection::Exactly { keys, .. } => keys.iter().map(|(_, name)| name.chars().count()).max(),
            Selection::Any(_) => None,
        }
    }

    /// The observed actions in the order in which they are shown.
    pub fn rows(&self) -> Vec<&Row> {
        let order = match &self.selection {
            Selection::Exactly { keys, .. } => keys,
            Selection::Any(_) => &self.order,
        };
        order.iter().filter_map(|key| self.rows.get(key)).collect()
    }

    /// The action with this key, if it was observed.
    pub fn row(&self, key: &Key) -> Option<&Row> {
        self.rows.get(key)
    }

    /// The results of exactly selected actions, in the order of the selection.
    pub fn results(&self) -> Vec<Followed> {
        let now = Instant::now();
        let Selection::Exactly { keys, .. } = &self.selection else { return Vec::new() };
        let result = |key: &Key| match self.rows.get(key) {
            Some(row) => Followed {
                outcome: row.summary.phase.outcome(),
                phase: row.summary.phase.as_str().to_owned(),
                attempts: row.summary.attempt,
                reason: row.summary.reason.clone(),
                message: row.summary.message.clone(),
                duration: row.duration(now),
                history: row.history.clone(),
            },
            None => Followed {
                outcome: None,
                phase: DisplayPhase::Pending.as_str().to_owned(),
                attempts: 0,
                reason: String::new(),
                message: String::new(),
                duration: Duration::ZERO,
                history: Vec::new(),
            },
        };
        keys.iter().map(result).collect()
    }
}

fn never_observed((namespace, name): &Key, now: Instant) -> Row {
    let summary = Summary {
        namespace: namespace.clone(),
        name: name.clone(),
        run: String::new(),
        action: String::new(),
        task_type: String::new(),
        phase: DisplayPhase::Pending,
        attempt: 0,
        max_attempts: 1,
        system_failures: 0,
        reason: String::new(),
        message: String::new(),
        pending: None,
        created: None,
        ended: None,
    };
    Row { summary, begin: now, ended: None, history: Vec::new() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn key(name: &str) -> Key {
        ("n".into(), name.into())
    }

    fn summary(name: &str, phase: DisplayPhase, attempt: u32) -> Summary {
        let row = never_observed(&key(name), Instant::now());
        Summary { phase, attempt, created: Some(Timestamp::UNIX_EPOCH), ..row.summary }
    }

    #[test]
    fn only_new_states_are_reported_until_all_actions_have_ended() {
        let mut tracked = TrackedActions::exactly(&[key("a"), key("b")], false);
        let (now, wall) = (Instant::now(), Timestamp::UNIX_EPOCH);
        assert_eq!(tracked.update(summary("x", DisplayPhase::Running, 1), now, wall), None, "not selected");
        assert_eq!(tracked.update(summary("a", DisplayPhase::Running, 1), now, wall), Some(key("a")));
        assert_eq!(tracked.update(summary("a", DisplayPhase::Running, 1), now, wall), None, "nothing new");
        assert_eq!(tracked.update(summary("a", DisplayPhase::Running, 2), now, wall), Some(key("a")));
        let later = now + Duration::from_secs(3);
        tracked.update(summary("a", DisplayPhase::Succeeded, 2), later, wall);
        assert!(!tracked.have_all_ended());
        tracked.update(summary("b", DisplayPhase::Queued, 1), now, wall);
        tracked.delete(&key("b"), later, wall);
        assert!(tracked.have_all_ended());
        let followed = tracked.results();
        let outcomes: Vec<_> = followed.iter().map(|one| one.outcome.unwrap().as_str()).collect();
        assert_eq!(outcomes, ["Succeeded", "Aborted"]);
        assert_eq!((followed[0].attempts, followed[0].duration), (2, Duration::from_secs(3)));
        assert_eq!(followed[0].history.len(), 3);
    }

    #[test]
    fn an_action_that_is_missing_in_a_new_list_was_aborted() {
        let mut tracked = TrackedActions::exactly(&[key("a"), key("b"), key("c")], false);
        let (now, wall) = (Instant::now(), Timestamp::UNIX_EPOCH);
        tracked.update(summary("a", DisplayPhase::Running, 1), now, wall);
        tracked.update(summary("b", DisplayPhase::Failed, 1), now, wall);
        let changed = tracked.delete_unlisted(Some("n"), &BTreeSet::new(), now, wall);
        assert_eq!(changed, [key("a"), key("c")], "b had ended and stays as it was");
        assert!(tracked.have_all_ended());
        assert!(tracked.delete_unlisted(Some("other"), &BTreeSet::new(), now, wall).is_empty());
    }

    #[test]
    fn an_action_that_is_created_later_is_not_taken_for_deleted() {
        let mut tracked = TrackedActions::exactly(&[key("a")], true);
        let (now, wall) = (Instant::now(), Timestamp::UNIX_EPOCH);
        assert!(tracked.delete_unlisted(Some("n"), &BTreeSet::new(), now, wall).is_empty());
        assert!(!tracked.have_all_ended());
        tracked.update(summary("a", DisplayPhase::Succeeded, 1), now, wall);
        assert!(tracked.have_all_ended());
    }

    #[test]
    fn the_duration_of_an_old_action_comes_from_its_status() {
        let mut tracked = TrackedActions::exactly(&[key("a")], false);
        let (now, wall) = (Instant::now(), Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(100));
        let ended = Some(Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(40));
        tracked.update(Summary { ended, ..summary("a", DisplayPhase::Succeeded, 1) }, now, wall);
        assert_eq!(tracked.results()[0].duration, Duration::from_secs(40));
    }
}
