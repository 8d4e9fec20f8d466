//! The facts of one round that every decision of the manager uses.

use aileron_action::plugin_choice::MissingKind;
use aileron_machinery::{ObjectRef, ObservedPhase, Pending, PendingReason, PhaseInfo, TaskInfo};
use jiff::Timestamp;

use super::version::assign_version;

/// One round of one attempt, as plain values.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// The time of the round.
    pub(super) now: Timestamp,
    /// The state that the previous round stored.
    pub(super) prior: ObservedPhase,
    /// The attempt's object, which may not exist.
    pub(super) object: ObjectRef,
}

impl Round {
    /// The information of a phase that the manager itself reports.
    pub(super) fn info(&self) -> TaskInfo {
        TaskInfo::at(self.now)
    }

    /// The phase of a task that waits before its object is created.
    pub(super) fn waiting(&self, pending: Pending) -> PhaseInfo {
        let Pending { reason, message } = pending;
        let phase = PhaseInfo::waiting_for_resources(message, self.info()).because(reason);
        assign_version(phase, &self.prior)
    }

    /// The phase of a task whose kind of object the cluster does not serve. The reconciler bounds how long it may last.
    pub(super) fn waiting_for_kind(&self) -> PhaseInfo {
        let reason = MissingKind(self.object.kind.clone()).to_string();
        self.waiting(Pending::new(PendingReason::MissingKind, reason))
    }
}
