//! Held statuses: the ones that the executor has decided and the API server does not have yet.

use std::time::Instant;

use aileron_action::TaskActionStatus;
use aileron_machinery::ActionKey;
use kube::api::ObjectMeta;

/// Keeps the statuses that were decided but not written, beside the actions that they belong to. A round must see the
/// decided status, so an action's status is always the decided one.
pub trait StatusStore: Send + Sync {
    /// Keeps a status that is written later, at `due` at the latest.
    fn hold_status(&self, key: &ActionKey, status: &TaskActionStatus, now: Instant, due: Instant);

    /// The status that is still to be written, if there is one.
    fn held(&self, key: &ActionKey) -> Option<Held>;

    /// The actions that have a status to be written.
    fn held_keys(&self) -> Vec<ActionKey>;

    /// The status that the API server has, as far as is known.
    fn written_status(&self, key: &ActionKey) -> Option<TaskActionStatus>;

    /// A status is about to be sent. The watch may show it before the API server's answer arrives; the announcement
    /// shows that it is this executor's own write and not a change by another client.
    fn announce_status(&self, key: &ActionKey, status: &TaskActionStatus);

    /// The API server accepted a status and answered with this metadata. Nothing is held any more.
    fn wrote_status(&self, key: &ActionKey, status: &TaskActionStatus, metadata: &ObjectMeta);

    /// The API server refused the status and changed nothing.
    fn refused_status(&self, key: &ActionKey);

    /// The API server already has this status. Nothing is held any more.
    fn has_status(&self, key: &ActionKey, status: &TaskActionStatus);
}

/// The status that the API server has.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The status.
    pub status: TaskActionStatus,
    /// The resource version of the action with this status, if it is known.
    pub version: Option<u64>,
}

impl Written {
    /// The status of an action with this version. 0 stands for a version that is not a number.
    pub(crate) fn new(status: TaskActionStatus, version: u64) -> Self {
        Self { status, version: Some(version).filter(|version| *version > 0) }
    }
}

/// A status that the API server does not have yet.
#[derive(Clone, Debug)]
pub struct Held {
    /// The status that the API server has.
    pub written: Written,
    /// The status that the executor decided last.
    pub wanted: TaskActionStatus,
    /// Since when the two differ.
    pub since: Instant,
    /// When the wanted status must be sent.
    pub due: Instant,
}

/// The part of [`Held`] that a store keeps beside an action, whose own status is the wanted one.
#[derive(Clone, Debug)]
pub struct Unwritten {
    /// The status that the API server has.
    pub written: TaskActionStatus,
    /// Since when it differs from the wanted one.
    pub since: Instant,
    /// When the wanted status must be sent.
    pub due: Instant,
}

impl Unwritten {
    /// What is kept when one more status is to be held. `known` is the status of the action before. A status that is
    /// already held keeps its own time: a newer one does not postpone the write.
    pub fn hold(earlier: Option<Self>, known: impl FnOnce() -> TaskActionStatus, now: Instant, due: Instant) -> Self {
        match earlier {
            Some(earlier) => Self { due: due.min(earlier.due), ..earlier },
            None => Self { written: known(), since: now, due },
        }
    }
}

/// This executor's status, with the fields that only the control plane writes taken from the API server's.
pub fn with_fields_of_control_plane(mut ours: TaskActionStatus, server: &TaskActionStatus) -> TaskActionStatus {
    ours.signal_value = server.signal_value.clone();
    ours.signalled_by = server.signalled_by.clone();
    ours.signalled_at = server.signalled_at.clone();
    ours
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn status(phase: &str) -> TaskActionStatus {
        TaskActionStatus { plugin_phase: phase.into(), ..TaskActionStatus::default() }
    }

    #[test]
    fn a_newer_status_does_not_postpone_the_write_and_may_make_it_earlier() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let first = Unwritten::hold(None, || status("server"), at(0), at(10));
        let later = Unwritten::hold(Some(first), || status("held"), at(5), at(15));
        assert_eq!((later.since, later.due, later.written.plugin_phase.as_str()), (at(0), at(10), "server"));
        let sooner = Unwritten::hold(Some(later), || status("held"), at(6), at(7));
        assert_eq!((sooner.since, sooner.due), (at(0), at(7)));
    }

    #[test]
    fn a_signal_of_the_control_plane_stays() {
        let server = TaskActionStatus { signalled_by: "ada".into(), ..status("old") };
        let merged = with_fields_of_control_plane(status("new"), &server);
        assert_eq!((merged.plugin_phase.as_str(), merged.signalled_by.as_str()), ("new", "ada"));
    }
}
