//! The events that are not sent yet: in order per action, in batches across actions.

use std::collections::{HashMap, VecDeque};

use aileron_idl::flyteidl2::workflow::ActionEvent;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::EventError;

/// The encoded identifier of an action.
pub(super) type ActionKey = Vec<u8>;

/// Events of one action that are sent together, mostly a single one, and the channel to the waiting caller.
pub(super) struct Item {
    pub key: ActionKey,
    pub events: Vec<ActionEvent>,
    pub reply: oneshot::Sender<Result<(), EventError>>,
    /// The place in the bounded queue. Dropping the item frees it.
    pub _place: OwnedSemaphorePermit,
}

/// Events of different actions that are sent together.
pub(super) struct Batch {
    pub items: Vec<Item>,
    /// How often this batch failed, without being split in between.
    pub failures: u32,
    /// When this batch, or the one it was split from, failed for the first time.
    pub failing_since: Option<Instant>,
    /// The earliest time of the next try.
    pub due: Option<Instant>,
}

/// All events that are not in flight.
#[derive(Default)]
pub(super) struct Queue {
    /// Actions with an event in `fresh`, in `retries` or in flight, and the events behind it.
    busy: HashMap<ActionKey, VecDeque<Item>>,
    /// Events that were never sent, at most one per action.
    fresh: VecDeque<Item>,
    /// Batches that failed.
    retries: VecDeque<Batch>,
    /// Whether the next batch is a retry. Retries and new events alternate, so that a batch that always fails does not block
    /// new events.
    retry_next: bool,
}

impl Queue {
    pub fn push(&mut self, item: Item) {
        match self.busy.get_mut(&item.key) {
            Some(behind) => behind.push_back(item),
            None => {
                self.busy.insert(item.key.clone(), VecDeque::new());
                self.fresh.push_back(item);
            }
        }
    }

    pub fn push_retry(&mut self, batch: Batch) {
        self.retries.push_back(batch);
    }

    /// The next events to send, at most `limit` of them.
    pub fn next(&mut self, limit: usize, now: Instant) -> Option<Batch> {
        self.retry_next = !self.retry_next;
        if self.retry_next {
            self.next_retry(now).or_else(|| self.next_fresh(limit))
        } else {
            self.next_fresh(limit).or_else(|| self.next_retry(now))
        }
    }

    /// The earliest time at which a failed batch may be sent again.
    pub fn next_due(&self) -> Option<Instant> {
        self.retries.iter().filter_map(|batch| batch.due).min()
    }

    pub fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    pub fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// Whether no event waits or is in flight.
    pub fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// Reports the result of an event to its caller. The next event of the action may then be sent.
    pub fn finish(&mut self, item: Item, result: Result<(), EventError>) {
        match self.busy.get_mut(&item.key).and_then(VecDeque::pop_front) {
            Some(next) => self.fresh.push_back(next),
            None => drop(self.busy.remove(&item.key)),
        }
        // The send fails if the caller gave up.
        let _ = item.reply.send(result);
    }

    fn next_fresh(&mut self, limit: usize) -> Option<Batch> {
        let mut items = Vec::new();
        while items.len() < limit
            && let Some(item) = self.fresh.pop_front()
        {
            if let Some(item) = self.still_wanted(item) {
                items.push(item);
            }
        }
        (!items.is_empty()).then_some(Batch { items, failures: 0, failing_since: None, due: None })
    }

    fn next_retry(&mut self, now: Instant) -> Option<Batch> {
        loop {
            let index = self.retries.iter().position(|batch| batch.due.is_none_or(|due| due <= now))?;
            let mut batch = self.retries.remove(index)?;
            let items = std::mem::take(&mut batch.items);
            batch.items = items.into_iter().filter_map(|item| self.still_wanted(item)).collect();
            if !batch.items.is_empty() {
                return Some(batch);
            }
        }
    }

    /// Drops an event whose caller gave up: the caller decides again, and may record another event.
    fn still_wanted(&mut self, item: Item) -> Option<Item> {
        if item.reply.is_closed() {
            self.finish(item, Err(EventError::Closed));
            None
        } else {
            Some(item)
        }
    }
}
