//! Follows all objects of the sandbox's API server inside this process, so that restarts of its HTTP server do not matter.

use std::sync::{Arc, Mutex, PoisonError};

use aileron_apiserver::{ApiServer, ChangeType, Observed};
use aileron_history::history::Change;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::changes::{Changes, Kind};

/// Adds the current objects, and starts to follow their changes.
pub(super) fn follow(server: &ApiServer, changes: &Arc<Mutex<Changes>>, stop: &CancellationToken) {
    let mut observed = server.store().observe();
    let changes = Arc::clone(changes);
    let record = async move {
        while let Some(Observed { resource: changed, change_type, revision, object }) = observed.recv().await {
            let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(kind) = Kind::ALL.into_iter().find(|kind| resource(*kind) == *changed) else {
                changes.progressed(Timestamp::now(), revision);
                continue;
            };
            let change = match change_type {
                ChangeType::Added => Change::Created,
                ChangeType::Modified => Change::Modified,
                ChangeType::Deleted => Change::Deleted,
            };
            changes.add(Timestamp::now(), kind, change, revision, object.body());
        }
    };
    tokio::spawn(stop.clone().run_until_cancelled_owned(record));
}

/// The name of a kind in the store.
fn resource(kind: Kind) -> String {
    let group = kind.api_resource().group;
    if group.is_empty() { kind.plural().to_owned() } else { format!("{}.{group}", kind.plural()) }
}
