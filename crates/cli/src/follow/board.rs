//! What is known about the actions that are followed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::Followed;
use crate::span;
use crate::summary::{Phase, Summary};

/// Namespace and name of an action.
pub type Key = (String, String);

/// An action that is younger than this when first seen was seen from its beginning: the API keeps whole seconds only,
/// and our own clock shows more.
const FRESH: Duration = Duration::from_secs(2);

/// A state of an action, and when it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub phase: Phase,
    pub attempt: u32,
    pub reason: String,
    pub message: String,
    /// Since the beginning of the action.
    pub at: Duration,
}

/// An action that was seen.
#[derive(Clone, Debug)]
pub struct Row {
    pub summary: Summary,
    begin: Instant,
    ended: Option<Duration>,
    seen: Vec<Sighting>,
}

/// Which actions there should be.
#[derive(Clone, Debug)]
enum Wanted {
    /// Exactly these, in this order; those that are not there may be still to come.
    These { keys: Vec<Key>, to_come: bool },
    /// Whatever comes; with names, only those.
    Whatever(BTreeSet<String>),
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Board {
    /// When following began.
    pub begin: Instant,
    wanted: Wanted,
    rows: BTreeMap<Key, Row>,
    order: Vec<Key>,
}

impl Row {
    /// How long it took, or takes so far.
    pub fn duration(&self, now: Instant) -> Duration {
        self.ended.unwrap_or_else(|| now.saturating_duration_since(self.begin))
    }

    fn note(&mut self, now: Instant) -> bool {
        let Summary { phase, attempt, reason, message, .. } = &self.summary;
        let same = |last: &Sighting| {
            (last.phase, last.attempt, &last.reason, &last.message) == (*phase, *attempt, reason, message)
        };
        if self.seen.last().is_some_and(same) {
            return false;
        }
        let at = now.saturating_duration_since(self.begin);
        self.seen.push(Sighting {
            phase: *phase,
            attempt: *attempt,
            reason: reason.clone(),
            message: message.clone(),
            at,
        });
        true
    }
}

impl Board {
    /// A board for exactly these; those that are not there have gone, or are `to_come`.
    pub fn of(wanted: &[Key], to_come: bool) -> Self {
        Self::new(Wanted::These { keys: wanted.to_vec(), to_come })
    }

    /// A board for whatever comes, or for those with these names.
    pub fn of_all(names: Vec<String>) -> Self {
        Self::new(Wanted::Whatever(names.into_iter().collect()))
    }

    fn new(wanted: Wanted) -> Self {
        Self { begin: Instant::now(), wanted, rows: BTreeMap::new(), order: Vec::new() }
    }

    /// An action was seen. The answer is its key if there is something new to show.
    pub fn see(&mut self, summary: Summary, now: Instant, wall: Timestamp) -> Option<Key> {
        let key = (summary.namespace.clone(), summary.name.clone());
        let is_wanted = match &self.wanted {
            Wanted::These { keys, .. } => keys.contains(&key),
            Wanted::Whatever(names) => names.is_empty() || names.contains(&key.1),
        };
        if !is_wanted {
            return None;
        }
        let age = summary.created.map(|created| span::between(created, wall)).unwrap_or_default();
        let row = self.rows.entry(key.clone()).or_insert_with(|| {
            self.order.push(key.clone());
            let begin = if age < FRESH { now } else { now.checked_sub(age).unwrap_or(now) };
            Row { summary: summary.clone(), begin, ended: None, seen: Vec::new() }
        });
        // One of the same name that came after another is another: it starts anew.
        if row.summary.created < summary.created {
            *row = Row { summary: summary.clone(), begin: now, ended: None, seen: Vec::new() };
        }
        row.summary = summary;
        if row.summary.phase.outcome().is_some() && row.ended.is_none() {
            let from_the_beginning = row.seen.iter().any(|seen| seen.phase.outcome().is_none());
            let observed = now.saturating_duration_since(row.begin);
            row.ended = Some(if from_the_beginning { observed } else { row.summary.duration(wall) });
        }
        row.note(now).then_some(key)
    }

    /// An action is gone; one that had not ended was aborted.
    pub fn lose(&mut self, key: &Key, now: Instant, wall: Timestamp) -> Option<Key> {
        let row = self.rows.get_mut(key)?;
        row.summary = row.summary.clone().aborted(wall);
        let begin = row.begin;
        row.ended.get_or_insert_with(|| now.saturating_duration_since(begin));
        let is_new = row.note(now);
        if let Wanted::Whatever(_) = self.wanted {
            // A list shows what there is.
            if !is_new {
                self.rows.remove(key);
                self.order.retain(|other| other != key);
            }
        }
        is_new.then(|| key.clone())
    }

    /// These are all there are in a namespace; what is not among them is gone.
    pub fn keep(&mut self, namespace: Option<&str>, keys: &BTreeSet<Key>, now: Instant, wall: Timestamp) -> Vec<Key> {
        let here = |key: &Key| namespace.is_none_or(|namespace| key.0 == namespace) && !keys.contains(key);
        if let Wanted::These { keys: wanted, to_come: false } = &self.wanted {
            // Never seen and not there: gone before anybody looked.
            for key in wanted.iter().filter(|key| here(key)) {
                if !self.rows.contains_key(key) {
                    self.order.push(key.clone());
                    self.rows.insert(key.clone(), never_seen(key, now));
                }
            }
        }
        let lost: Vec<_> = self.order.iter().filter(|key| here(key)).cloned().collect();
        lost.iter().filter_map(|key| self.lose(key, now, wall)).collect()
    }

    /// Everything that is wanted has ended.
    pub fn have_all_ended(&self) -> bool {
        match &self.wanted {
            Wanted::These { keys, .. } => {
                keys.iter().all(|key| self.rows.get(key).is_some_and(|row| row.summary.phase.outcome().is_some()))
            }
            Wanted::Whatever(_) => false,
        }
    }

    /// Letters of the longest name, if it is known which names there will be.
    pub fn longest_name(&self) -> Option<usize> {
        match &self.wanted {
            Wanted::These { keys, .. } => keys.iter().map(|(_, name)| name.chars().count()).max(),
            Wanted::Whatever(_) => None,
        }
    }

    /// What was seen, in the order in which it should be shown.
    pub fn rows(&self) -> Vec<&Row> {
        let order = match &self.wanted {
            Wanted::These { keys, .. } => keys,
            Wanted::Whatever(_) => &self.order,
        };
        order.iter().filter_map(|key| self.rows.get(key)).collect()
    }

    /// One of them.
    pub fn row(&self, key: &Key) -> Option<&Row> {
        self.rows.get(key)
    }

    /// All of the wanted ones, for the caller.
    pub fn followed(&self) -> Vec<Followed> {
        let now = Instant::now();
        let Wanted::These { keys, .. } = &self.wanted else { return Vec::new() };
        let one = |key: &Key| match self.rows.get(key) {
            Some(row) => Followed {
                outcome: row.summary.phase.outcome(),
                phase: row.summary.phase.as_str().to_owned(),
                attempts: row.summary.attempt,
                reason: row.summary.reason.clone(),
                message: row.summary.message.clone(),
                duration: row.duration(now),
                seen: row.seen.clone(),
            },
            None => Followed {
                outcome: None,
                phase: Phase::Pending.as_str().to_owned(),
                attempts: 0,
                reason: String::new(),
                message: String::new(),
                duration: Duration::ZERO,
                seen: Vec::new(),
            },
        };
        keys.iter().map(one).collect()
    }
}

fn never_seen((namespace, name): &Key, now: Instant) -> Row {
    let summary = Summary {
        namespace: namespace.clone(),
        name: name.clone(),
        run: String::new(),
        action: String::new(),
        task_type: String::new(),
        phase: Phase::Pending,
        attempt: 0,
        max_attempts: 1,
        system_failures: 0,
        reason: String::new(),
        message: String::new(),
        pending: None,
        created: None,
        ended: None,
    };
    Row { summary, begin: now, ended: None, seen: Vec::new() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn key(name: &str) -> Key {
        ("n".into(), name.into())
    }

    fn summary(name: &str, phase: Phase, attempt: u32) -> Summary {
        let row = never_seen(&key(name), Instant::now());
        Summary { phase, attempt, created: Some(Timestamp::UNIX_EPOCH), ..row.summary }
    }

    #[test]
    fn only_what_is_new_is_told_and_all_have_ended_at_the_end() {
        let mut board = Board::of(&[key("a"), key("b")], false);
        let (now, wall) = (Instant::now(), Timestamp::UNIX_EPOCH);
        assert_eq!(board.see(summary("x", Phase::Running, 1), now, wall), None, "not wanted");
        assert_eq!(board.see(summary("a", Phase::Running, 1), now, wall), Some(key("a")));
        assert_eq!(board.see(summary("a", Phase::Running, 1), now, wall), None, "nothing new");
        assert_eq!(board.see(summary("a", Phase::Running, 2), now, wall), Some(key("a")));
        let later = now + Duration::from_secs(3);
        board.see(summary("a", Phase::Succeeded, 2), later, wall);
        assert!(!board.have_all_ended());
        board.see(summary("b", Phase::Queued, 1), now, wall);
        board.lose(&key("b"), later, wall);
        assert!(board.have_all_ended());
        let followed = board.followed();
        let outcomes: Vec<_> = followed.iter().map(|one| one.outcome.unwrap().as_str()).collect();
        assert_eq!(outcomes, ["Succeeded", "Aborted"]);
        assert_eq!((followed[0].attempts, followed[0].duration), (2, Duration::from_secs(3)));
        assert_eq!(followed[0].seen.len(), 3);
    }

    #[test]
    fn what_a_new_list_does_not_have_was_aborted() {
        let mut board = Board::of(&[key("a"), key("b"), key("c")], false);
        let (now, wall) = (Instant::now(), Timestamp::UNIX_EPOCH);
        board.see(summary("a", Phase::Running, 1), now, wall);
        board.see(summary("b", Phase::Failed, 1), now, wall);
        let changed = board.keep(Some("n"), &BTreeSet::new(), now, wall);
        assert_eq!(changed, [key("a"), key("c")], "b had ended and stays as it was");
        assert!(board.have_all_ended());
        assert!(board.keep(Some("other"), &BTreeSet::new(), now, wall).is_empty());
    }

    #[test]
    fn what_is_still_to_come_is_waited_for() {
        let mut board = Board::of(&[key("a")], true);
        let (now, wall) = (Instant::now(), Timestamp::UNIX_EPOCH);
        assert!(board.keep(Some("n"), &BTreeSet::new(), now, wall).is_empty());
        assert!(!board.have_all_ended());
        board.see(summary("a", Phase::Succeeded, 1), now, wall);
        assert!(board.have_all_ended());
    }

    #[test]
    fn an_old_action_keeps_its_own_times() {
        let mut board = Board::of(&[key("a")], false);
        let (now, wall) = (Instant::now(), Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(100));
        let ended = Some(Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(40));
        board.see(Summary { ended, ..summary("a", Phase::Succeeded, 1) }, now, wall);
        assert_eq!(board.followed()[0].duration, Duration::from_secs(40));
    }
}
