//! Who gets a round next: each action at most once in line, never twice at a time, and timers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use aileron_admission::waker::ActionWaker;
use aileron_machinery::ActionKey;
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::caches::actions::ActionStore;

/// What a finished round asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another round at once.
    Again,
    /// A round at this moment, or earlier if something changes.
    At(Instant),
    /// Nothing until something changes, and at this moment a look in case a change was missed.
    Safety(Instant),
    /// Nothing until something changes.
    Idle,
}

/// The line. Waking is cheap and idempotent; a wake-up during a round means another round after it.
#[derive(Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    slots: HashMap<ActionKey, Slot>,
    ready: VecDeque<ActionKey>,
    timers: BTreeMap<(Instant, u64), ActionKey>,
    timers_made: u64,
}

#[derive(Default)]
struct Slot {
    state: State,
    dirty: bool,
    timer: Option<(Instant, u64)>,
    timer_is_safety: bool,
    by_safety: bool,
    failures: u32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Ready,
    Running,
}

impl Queue {
    /// Something about the action changed.
    pub fn wake(&self, key: &ActionKey) {
        self.lock().wake(key);
        self.changed.notify_one();
    }

    /// Something about the action will be due.
    pub fn wake_at(&self, key: &ActionKey, at: Instant) {
        self.lock().set_timer(key, at, false);
        self.changed.notify_one();
    }

    /// The next action in line; waits until there is one. The caller owes a [`Queue::finished`].
    pub async fn next(&self) -> ActionKey {
        loop {
            let due = {
                let mut inner = self.lock();
                inner.fire_timers(Instant::now());
                if let Some(key) = inner.start_next() {
                    return key;
                }
                inner.timers.first_key_value().map(|((at, _), _)| *at)
            };
            let changed = self.changed.notified();
            match due {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at.into(), changed).await;
                }
                None => changed.await,
            }
        }
    }

    /// The action's round is over.
    pub fn finished(&self, key: &ActionKey, next: Next) {
        let mut inner = self.lock();
        let Some(slot) = inner.slots.get_mut(key) else { return };
        slot.state = State::Idle;
        let again = std::mem::take(&mut slot.dirty) || next == Next::Again;
        if again {
            inner.wake(key);
        } else if let Next::At(at) | Next::Safety(at) = next {
            inner.set_timer(key, at, matches!(next, Next::Safety(_)));
        } else if slot.timer.is_none() {
            inner.slots.remove(key);
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// The action's round began only because nothing was seen for long.
    pub fn is_safety(&self, key: &ActionKey) -> bool {
        self.lock().slots.get(key).is_some_and(|slot| slot.by_safety)
    }

    /// Something changed since the action's round began.
    pub fn is_dirty(&self, key: &ActionKey) -> bool {
        self.lock().slots.get(key).is_some_and(|slot| slot.dirty)
    }

    /// Counts a failed round; the answer is how many failed in a row.
    pub fn failed(&self, key: &ActionKey) -> u32 {
        let mut inner = self.lock();
        let slot = inner.slots.entry(key.clone()).or_default();
        slot.failures = slot.failures.saturating_add(1);
        slot.failures
    }

    /// Forgets failed rounds.
    pub fn succeeded(&self, key: &ActionKey) {
        if let Some(slot) = self.lock().slots.get_mut(key) {
            slot.failures = 0;
        }
    }

    /// Actions in line, for the gauge.
    pub fn depth(&self) -> usize {
        self.lock().ready.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while the lock is held, and the line is valid between any two statements.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn wake(&mut self, key: &ActionKey) {
        self.wake_by(key, false);
    }

    fn wake_by(&mut self, key: &ActionKey, safety: bool) {
        let slot = self.slots.entry(key.clone()).or_default();
        slot.by_safety = safety && (slot.state == State::Idle || slot.by_safety);
        match slot.state {
            State::Idle => {
                slot.state = State::Ready;
                self.ready.push_back(key.clone());
            }
            State::Ready => {}
            State::Running => slot.dirty = true,
        }
    }

    fn set_timer(&mut self, key: &ActionKey, at: Instant, safety: bool) {
        let slot = self.slots.entry(key.clone()).or_default();
        if let Some(earlier) = slot.timer {
            if earlier.0 <= at {
                return;
            }
            self.timers.remove(&earlier);
        }
        self.timers_made += 1;
        let timer = (at, self.timers_made);
        slot.timer = Some(timer);
        slot.timer_is_safety = safety;
        self.timers.insert(timer, key.clone());
    }

    fn fire_timers(&mut self, now: Instant) {
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            let mut safety = false;
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.timer = None;
                safety = slot.timer_is_safety;
            }
            self.wake_by(&key, safety);
        }
    }

    fn start_next(&mut self) -> Option<ActionKey> {
        let key = self.ready.pop_front()?;
        let slot = self.slots.entry(key.clone()).or_default();
        slot.state = State::Running;
        slot.dirty = false;
        // The round will say anew when it wants to be woken.
        if let Some(timer) = slot.timer.take() {
            self.timers.remove(&timer);
        }
        Some(key)
    }
}

/// Wakes actions through the queue.
pub struct QueueWaker {
    /// Knows when an action was created.
    pub memory: Arc<ActionStore>,
    /// Gives actions their rounds.
    pub queue: Arc<Queue>,
}

impl ActionWaker for QueueWaker {
    fn wake(&self, key: &ActionKey) {
        self.queue.wake(key);
    }

    fn created(&self, key: &ActionKey) -> Option<Timestamp> {
        self.memory.get(key)?.object.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> ActionKey {
        ActionKey::new("ns", name)
    }

    #[tokio::test]
    async fn an_action_is_in_line_once_however_often_it_is_woken() {
        let queue = Queue::default();
        queue.wake(&key("a"));
        queue.wake(&key("a"));
        queue.wake(&key("b"));
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(queue.next().await, key("b"));
        assert_eq!(queue.depth(), 0);
    }

    #[tokio::test]
    async fn a_change_during_a_round_means_another_round_and_never_a_second_at_once() {
        let queue = Queue::default();
        queue.wake(&key("a"));
        let running = queue.next().await;
        queue.wake(&key("a"));
        assert!(queue.is_dirty(&running));
        assert_eq!(queue.depth(), 0);
        queue.finished(&running, Next::Idle);
        assert_eq!(queue.next().await, key("a"));
    }

    #[tokio::test]
    async fn timers_fire_in_order_and_the_earlier_of_two_wins() {
        let queue = Queue::default();
        let now = Instant::now();
        queue.wake_at(&key("late"), now + Duration::from_millis(40));
        queue.wake_at(&key("soon"), now + Duration::from_millis(10));
        queue.wake_at(&key("soon"), now + Duration::from_secs(60));
        assert_eq!(queue.next().await, key("soon"));
        assert_eq!(queue.next().await, key("late"));
        assert!(now.elapsed() >= Duration::from_millis(40));
    }

    #[tokio::test]
    async fn a_look_for_safety_is_told_apart_from_a_change() {
        let queue = Queue::default();
        queue.wake(&key("a"));
        let running = queue.next().await;
        assert!(!queue.is_safety(&running));
        queue.finished(&running, Next::Safety(Instant::now()));
        let running = queue.next().await;
        assert!(queue.is_safety(&running));
        queue.finished(&running, Next::Safety(Instant::now() + Duration::from_secs(60)));
        queue.wake(&key("a"));
        let running = queue.next().await;
        assert!(!queue.is_safety(&running));
    }

    #[tokio::test]
    async fn an_action_without_further_wishes_leaves_nothing_behind() {
        let queue = Queue::default();
        queue.wake(&key("a"));
        let running = queue.next().await;
        queue.finished(&running, Next::Idle);
        assert!(queue.lock().slots.is_empty());
        assert!(queue.lock().timers.is_empty());
    }
}
