//! A place in the history: where a watch goes on.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Change, Store, Stored};
use crate::status::ApiError;

/// From where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With all that is there now.
    Now,
    /// After this revision.
    After(u64),
}

/// Reads the history of one kind, in order, each change once.
#[derive(Debug)]
pub(crate) struct Cursor {
    place: Arc<str>,
    after: u64,
    changed: watch::Receiver<u64>,
}

impl Store {
    /// What is there at the start (nothing when starting from a revision), and the cursor behind it.
    pub(crate) fn open(
        &self,
        place: &Arc<str>,
        namespace: &str,
        start: Start,
    ) -> Result<(Vec<Arc<Stored>>, Cursor), ApiError> {
        let mut transaction = self.lock();
        let now = transaction.revision();
        let (listed, after) = match start {
            Start::Now => (transaction.list(place, namespace), now),
            Start::After(revision) => (Vec::new(), revision),
        };
        let found = transaction.place(place);
        if after < found.forgotten {
            return Err(ApiError::expired(after, found.forgotten));
        }
        Ok((listed, Cursor { place: place.clone(), after, changed: found.changed.subscribe() }))
    }
}

impl Cursor {
    /// The changes since the last call.
    pub(crate) fn advance(&mut self, store: &Store) -> Result<Vec<Change>, ApiError> {
        self.changed.mark_unchanged();
        let mut transaction = store.lock();
        let now = transaction.revision();
        let place = transaction.place(&self.place);
        if self.after < place.forgotten {
            return Err(ApiError::expired(self.after, place.forgotten));
        }
        let from = place.history.partition_point(|change| change.object.revision <= self.after);
        let changes: Vec<_> = place.history.range(from..).cloned().collect();
        // A start beyond the present stays there.
        self.after = self.after.max(now);
        Ok(changes)
    }

    /// The revision up to which nothing is missing.
    pub(crate) fn position(&self) -> u64 {
        self.after
    }

    /// Waits for a change that `advance` has not returned.
    pub(crate) async fn changed(&mut self) {
        // The sender lives as long as the store, which whoever calls this holds.
        let _ = self.changed.changed().await;
    }
}
