//! The queue of actions that need a reconcile round, and the timers that put actions into it. An action is in the queue at
//! most once, and at most one round of it runs at a time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use aileron_admission::waker::ActionWaker;
use aileron_machinery::ActionKey;
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::caches::actions::ActionStore;

/// When the next round is due after a finished one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Immediately.
    Again,
    /// At this time, or earlier if something changes.
    At(Instant),
    /// When something changes. At this time a safety round runs, in case the watches missed a change.
    Safety(Instant),
    /// When something changes.
    Idle,
}

/// The queue. Waking is cheap and idempotent. A wake-up during a round causes another round after it.
///
/// A new queue is closed: wake-ups have no effect and take no memory. A replica that does not lead runs no rounds, so its
/// queue would grow without end. The controller opens the queue and wakes every action when it starts.
#[derive(Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    is_open: bool,
    slots: HashMap<ActionKey, Slot>,
    /// The actions whose round can start, in order.
    ready: VecDeque<ActionKey>,
    timers: BTreeMap<(Instant, u64), ActionKey>,
    /// Makes the keys of timers unique.
    timers_made: u64,
}

#[derive(Default)]
struct Slot {
    state: State,
    /// The action was woken during its round.
    dirty: bool,
    timer: Option<(Instant, u64)>,
    /// The timer is for a safety round.
    timer_is_safety: bool,
    /// The current or next round is a safety round.
    by_safety: bool,
    /// Failed rounds in a row.
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
    /// Accepts wake-ups from now on.
    pub fn open(&self) {
        self.lock().is_open = true;
    }

    /// Puts an action into the queue, because something about it changed.
    pub fn wake(&self, key: &ActionKey) {
        self.lock().wake(key);
        self.changed.notify_one();
    }

    /// Puts an action into the queue at this time, unless an earlier timer of it is set.
    pub fn wake_at(&self, key: &ActionKey, at: Instant) {
        self.lock().set_timer(key, at, false);
        self.changed.notify_one();
    }

    /// Waits for the next action. The caller runs its round and then calls [`Queue::finished`].
    pub async fn next(&self) -> ActionKey {
        loop {
            let due = {
                let mut inner = self.lock();
                inner.fire_timers(tokio::time::Instant::now().into_std());
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

    /// Records that the round of an action has ended.
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

    /// Whether the current round of the action is a safety round.
    pub fn is_safety(&self, key: &ActionKey) -> bool {
        self.lock().slots.get(key).is_some_and(|slot| slot.by_safety)
    }

    /// Whether the action was woken since its current round began.
    pub fn is_dirty(&self, key: &ActionKey) -> bool {
        self.lock().slots.get(key).is_some_and(|slot| slot.dirty)
    }

    /// Counts a failed round. Returns how many rounds of the action failed in a row.
    pub fn failed(&self, key: &ActionKey) -> u32 {
        let mut inner = self.lock();
        let slot = inner.slots.entry(key.clone()).or_default();
        slot.failures = slot.failures.saturating_add(1);
        slot.failures
    }

    /// Resets the count of failed rounds.
    pub fn succeeded(&self, key: &ActionKey) {
        if let Some(slot) = self.lock().slots.get_mut(key) {
            slot.failures = 0;
        }
    }

    /// How many actions wait for their round, for the gauge.
    pub fn depth(&self) -> usize {
        self.lock().ready.len()
    }

    /// How many actions the queue has state for.
    pub(crate) fn len(&self) -> usize {
        self.lock().slots.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics while it holds the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn wake(&mut self, key: &ActionKey) {
        self.wake_by(key, false);
    }

    fn wake_by(&mut self, key: &ActionKey, safety: bool) {
        if !self.is_open {
            return;
        }
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
        if !self.is_open {
            return;
        }
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
        // The round sets the next timer when it ends.
        if let Some(timer) = slot.timer.take() {
            self.timers.remove(&timer);
        }
        Some(key)
    }
}

/// Wakes actions through the queue.
pub struct QueueWaker {
    /// Knows when an action was created.
    pub action_store: Arc<ActionStore>,
    /// The actions that need a round.
    pub queue: Arc<Queue>,
}

impl ActionWaker for QueueWaker {
    fn wake(&self, key: &ActionKey) {
        self.queue.wake(key);
    }

    fn created_at(&self, key: &ActionKey) -> Option<Timestamp> {
        self.action_store.get(key)?.object.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> ActionKey {
        ActionKey::new("ns", name)
    }

    fn opened() -> Queue {
        let queue = Queue::default();
        queue.open();
        queue
    }

    #[test]
    fn a_replica_that_does_not_lead_keeps_no_queue() {
        let queue = Queue::default();
        for number in 0..1_000 {
            queue.wake(&key(&format!("a{number}")));
            queue.wake_at(&key(&format!("b{number}")), Instant::now());
        }
        let inner = queue.lock();
        assert!(inner.slots.is_empty() && inner.ready.is_empty() && inner.timers.is_empty());
    }

    #[tokio::test]
    async fn an_action_is_in_the_queue_once_however_often_it_is_woken() {
        let queue = opened();
        queue.wake(&key("a"));
        queue.wake(&key("a"));
        queue.wake(&key("b"));
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(queue.next().await, key("b"));
        assert_eq!(queue.depth(), 0);
    }

    #[tokio::test]
    async fn a_change_during_a_round_means_another_round_and_never_a_second_at_once() {
        let queue = opened();
        queue.wake(&key("a"));
        let running = queue.next().await;
        queue.wake(&key("a"));
        assert!(queue.is_dirty(&running));
        assert_eq!(queue.depth(), 0);
        queue.finished(&running, Next::Idle);
        assert_eq!(queue.next().await, key("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn timers_fire_in_order_and_the_earlier_of_two_wins() {
        let queue = opened();
        let start = tokio::time::Instant::now();
        let at = |seconds| start.into_std() + Duration::from_secs(seconds);
        queue.wake_at(&key("late"), at(4000));
        queue.wake_at(&key("soon"), at(1000));
        queue.wake_at(&key("soon"), at(6000));
        assert_eq!(queue.next().await, key("soon"));
        assert_eq!(start.elapsed().as_secs(), 1000, "timers follow tokio's clock, which is paused here");
        assert_eq!(queue.next().await, key("late"));
        assert_eq!(start.elapsed().as_secs(), 4000);
    }

    #[tokio::test]
    async fn a_safety_round_is_distinguished_from_a_round_after_a_change() {
        let queue = opened();
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
    async fn an_idle_action_leaves_no_state_behind() {
        let queue = opened();
        queue.wake(&key("a"));
        let running = queue.next().await;
        queue.finished(&running, Next::Idle);
        assert!(queue.lock().slots.is_empty());
        assert!(queue.lock().timers.is_empty());
    }
}
