//! A position in the history of a resource, from which a watch continues.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::{Change, Store, Stored};
use crate::errors::ApiError;

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchStart {
    /// With a list of all current objects.
    Now,
    /// After this revision.
    After(u64),
}

/// Reads the history of one resource in order, each change once.
#[derive(Debug)]
pub(crate) struct Cursor {
    resource: Arc<str>,
    /// All changes up to this revision have been read.
    after: u64,
    /// Notified at every write of the resource.
    written: Arc<Notify>,
    /// Completes at the first write after the last call of `advance`.
    changed: Pin<Box<OwnedNotified>>,
}

impl Store {
    /// Starts to read the history. Returns the current objects for [`WatchStart::Now`], and the cursor after them.
    pub(crate) fn open(
        &self,
        resource: &Arc<str>,
        namespace: &str,
        start: WatchStart,
    ) -> Result<(Vec<Arc<Stored>>, Cursor), ApiError> {
        let mut transaction = self.lock();
        let now = transaction.revision();
        let (listed, after) = match start {
            WatchStart::Now => (transaction.list(resource, namespace), now),
            WatchStart::After(revision) => (Vec::new(), revision),
        };
        let found = transaction.resource(resource);
        if after < found.compacted {
            return Err(ApiError::expired(after, found.compacted));
        }
        let written = found.written.clone();
        let changed = Box::pin(written.clone().notified_owned());
        Ok((listed, Cursor { resource: resource.clone(), after, written, changed }))
    }
}

impl Cursor {
    /// The changes since the last call.
    pub(crate) fn advance(&mut self, store: &Store) -> Result<Vec<Change>, ApiError> {
        // Before the history is read, so that no write is missed.
        self.changed = Box::pin(self.written.clone().notified_owned());
        let mut transaction = store.lock();
        let now = transaction.revision();
        let resource = transaction.resource(&self.resource);
        if self.after < resource.dropped {
            return Err(ApiError::expired(self.after, resource.dropped));
        }
        let from = resource.history.partition_point(|change| change.object.revision <= self.after);
        let changes: Vec<_> = resource.history.range(from..).cloned().collect();
        // A watch may start at a revision that does not exist yet. It then waits for changes after that revision.
        self.after = self.after.max(now);
        Ok(changes)
    }

    /// All changes up to this revision have been returned.
    pub(crate) fn position(&self) -> u64 {
        self.after
    }

    /// Waits until there is a change that `advance` has not returned.
    pub(crate) async fn changed(&mut self) {
        self.changed.as_mut().await;
    }
}
