//! All objects of a kind, and when something happens to each: bookkeeping without clock and network.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::rules::Rules;
use crate::object::meta;
use crate::store::Key;

/// What is known of the objects of a kind.
#[derive(Debug, Default)]
pub(super) struct Board {
    objects: HashMap<Key, Entry>,
    /// The objects that a list has shown so far; none while nothing is being listed.
    listed: Option<HashSet<Key>>,
}

#[derive(Debug)]
struct Entry {
    object: Value,
    plan: Option<Plan>,
    /// A write is under way: what follows is decided by its answer.
    is_busy: bool,
}

/// Which stage comes, and when.
#[derive(Debug)]
struct Plan {
    stage: String,
    due: Instant,
}

impl Board {
    /// A list begins; what it does not show is gone.
    pub(super) fn begin_list(&mut self) {
        self.listed = Some(HashSet::new());
    }

    /// The list was complete.
    pub(super) fn end_list(&mut self) {
        if let Some(listed) = self.listed.take() {
            self.objects.retain(|key, _| listed.contains(key));
        }
    }

    /// An object is as shown. The wait for a stage goes on if it is still the next one of the same object.
    pub(super) fn see(&mut self, rules: &Rules, object: Value, now: Instant) {
        let key = Key::of(&object);
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
        let before = self.objects.remove(&key).filter(|entry| meta(&entry.object, "uid") == meta(&object, "uid"));
        let is_busy = before.as_ref().is_some_and(|entry| entry.is_busy);
        let plan = rules.next(&object).map(|step| {
            let waits = before.and_then(|entry| entry.plan).filter(|plan| plan.stage == step.stage.name);
            waits.unwrap_or_else(|| Plan { stage: step.stage.name.clone(), due: now + step.after })
        });
        // An object that will not change again needs no attention, and most have ended.
        if plan.is_some() || is_busy {
            self.objects.insert(key, Entry { object, plan, is_busy });
        }
    }

    /// An object is gone.
    pub(super) fn forget(&mut self, key: &Key) {
        self.objects.remove(key);
    }

    /// When something happens next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let waiting = self.objects.values().filter(|entry| !entry.is_busy);
        waiting.filter_map(|entry| entry.plan.as_ref()).map(|plan| plan.due).min()
    }

    /// The objects to which something happens now, with the stage. Each is busy from now on.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(Value, String)> {
        let mut due = Vec::new();
        for entry in self.objects.values_mut().filter(|entry| !entry.is_busy) {
            if let Some(plan) = entry.plan.as_ref().filter(|plan| plan.due <= now) {
                entry.is_busy = true;
                due.push((entry.object.clone(), plan.stage.clone()));
            }
        }
        due
    }

    /// A write was done; the object is as the answer shows it.
    pub(super) fn written(&mut self, rules: &Rules, object: Value, now: Instant) {
        let key = Key::of(&object);
        // Gone or replaced meanwhile: the answer is about an object that is no more.
        let Some(entry) = self.objects.get_mut(&key) else { return };
        entry.is_busy = false;
        if meta(&entry.object, "uid") == meta(&object, "uid") {
            entry.plan = None;
            self.see(rules, object, now);
        }
    }

    /// A write was refused: it is done again after a while, upon what the object is by then.
    pub(super) fn refused(&mut self, key: &Key, after: Duration, now: Instant) {
        let Some(entry) = self.objects.get_mut(key) else { return };
        entry.is_busy = false;
        if let Some(plan) = &mut entry.plan {
            plan.due = plan.due.max(now + after);
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

    fn stages(board: &mut Board, now: Instant) -> Vec<String> {
        board.take_due(now).into_iter().map(|(_, stage)| stage).collect()
    }

    #[tokio::test]
    async fn a_wait_goes_on_when_something_else_of_the_object_changes() {
        let (rules, mut board, start) = (Rules::read(RULES).unwrap(), Board::default(), Instant::now());
        let second = Duration::from_secs(1);
        board.see(&rules, thing("u", ""), start);
        board.see(&rules, thing("u", ""), start + second / 2);
        assert_eq!(board.next_due(), Some(start + second));
        assert!(stages(&mut board, start + second / 2).is_empty());
        assert_eq!(stages(&mut board, start + second), ["first"]);
        assert!(stages(&mut board, start + second).is_empty(), "under way");
        // Another object of the same name waits from the beginning.
        board.see(&rules, thing("v", ""), start + second);
        assert_eq!(board.next_due(), Some(start + second * 2));
    }

    #[tokio::test]
    async fn each_answer_leads_on_until_nothing_follows() {
        let (rules, mut board, start) = (Rules::read(RULES).unwrap(), Board::default(), Instant::now());
        let second = Duration::from_secs(1);
        board.see(&rules, thing("u", ""), start);
        assert_eq!(stages(&mut board, start + second), ["first"]);
        board.written(&rules, thing("u", "One"), start + second);
        assert_eq!(stages(&mut board, start + second * 3), ["second"]);
        board.refused(&Key::new("n", "a"), second, start + second * 3);
        assert!(stages(&mut board, start + second * 3).is_empty());
        assert_eq!(stages(&mut board, start + second * 4), ["second"]);
        board.written(&rules, thing("u", "Two"), start + second * 4);
        assert!(board.objects.is_empty());
    }

    #[tokio::test]
    async fn what_a_list_does_not_show_is_gone() {
        let (rules, mut board, start) = (Rules::read(RULES).unwrap(), Board::default(), Instant::now());
        board.see(&rules, thing("u", ""), start);
        board.begin_list();
        assert_eq!(board.objects.len(), 1);
        board.end_list();
        assert!(board.objects.is_empty() && board.next_due().is_none());
    }
}
