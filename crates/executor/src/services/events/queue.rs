//! The events that are not sent yet: in order per action, in batches across actions.

use std::collections::{HashMap, VecDeque};

use aileron_idl::flyteidl2::workflow::ActionEvent;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::EventError;

/// The encoded identifier of an action.
pub(super) type EventKey = Vec<u8>;

/// Events of one action that are sent together, mostly a single one, and the channel to the waiting caller.
pub(super) struct Item {
    pub key: EventKey,
    pub events: Vec<ActionEvent>,
    pub reply: oneshot::Sender<Result<(), EventError>>,
    /// The place in the bounded queue. Dropping the item frees it.
    pub _place: OwnedSemaphorePermit,
}

impl Item {
    /// The size of its events in a request.
    fn bytes(&self) -> usize {
        self.events.iter().map(prost::Message::encoded_len).sum()
    }
}

/// Bounds a batch. A single item may exceed the bytes: it is then sent alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchLimit {
    pub items: usize,
    pub bytes: usize,
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

impl Batch {
    /// The size of its events in a request.
    pub fn bytes(&self) -> usize {
        self.items.iter().map(Item::bytes).sum()
    }
}

/// All events that are not in flight.
#[derive(Default)]
pub(super) struct Queue {
    /// Actions with an event in `fresh`, in `retries` or in flight, and the events behind it.
    busy: HashMap<EventKey, VecDeque<Item>>,
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

    /// The next events to send, within the limit. A batch that is sent again stays as it is.
    pub fn next(&mut self, limit: BatchLimit, now: Instant) -> Option<Batch> {
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

    fn next_fresh(&mut self, limit: BatchLimit) -> Option<Batch> {
        let (mut items, mut bytes) = (Vec::new(), 0_usize);
        while items.len() < limit.items
            && let Some(item) = self.fresh.pop_front()
        {
            let Some(item) = self.still_wanted(item) else { continue };
            bytes = bytes.saturating_add(item.bytes());
            if bytes > limit.bytes && !items.is_empty() {
                self.fresh.push_front(item);
                break;
            }
            items.push(item);
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
