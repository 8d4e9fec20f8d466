//! The version of a phase. The manager assigns it, not the plugin.

use aileron_machinery::{ObservedPhase, PhaseInfo};

/// The phase with its version: that of [`version_after`], but within one phase never lower than the version before.
pub fn assign_version(phase: PhaseInfo, prior: &ObservedPhase) -> PhaseInfo {
    let lowest = if phase.phase() == prior.phase { prior.version } else { 0 };
    let version = version_after(&phase, prior).max(lowest);
    phase.with_version(version)
}

/// The version of a phase after the phase of the round before. A phase starts with 0, or with 1 if it says more than
/// that the task has reached it. Within one phase a new reason raises the version, so that readers see the reason.
///
/// Mirrors `k8s.MaybeUpdatePhaseVersion`.
pub fn version_after(phase: &PhaseInfo, prior: &ObservedPhase) -> u32 {
    let version = u32::from(phase.has_news());
    let same_phase = phase.phase() == prior.phase && version <= prior.version;
    if same_phase && phase.reason() != prior.reason && !phase.has_quiet_reason() {
        return prior.version.saturating_add(1);
    }
    version
}

#[cfg(test)]
mod tests {
    use aileron_machinery::{Phase, TaskInfo};
    use jiff::Timestamp;

    use super::*;

    fn queued() -> PhaseInfo {
        PhaseInfo::queued("now", TaskInfo::at(Timestamp::UNIX_EPOCH))
    }

    fn before(phase: Phase, version: u32, reason: &str) -> ObservedPhase {
        ObservedPhase { phase, version, reason: reason.into() }
    }

    #[test]
    fn a_version_is_raised_by_another_reason_and_never_goes_back() {
        let version = |phase: PhaseInfo, prior: &ObservedPhase| assign_version(phase, prior).version();
        assert_eq!(version(queued(), &before(Phase::Queued, 4, "before")), 5);
        assert_eq!(version(queued(), &before(Phase::Queued, 4, "now")), 4);
        assert_eq!(version(queued().with_quiet_reason(), &before(Phase::Queued, 4, "before")), 4);
        assert_eq!(version(queued(), &before(Phase::Running, 4, "before")), 0, "another phase begins anew");
        assert_eq!(version(queued().with_version(7), &before(Phase::Queued, 4, "now")), 4, "the plugin has no say");
    }

    #[test]
    fn news_make_a_version_higher_than_that_of_the_bare_phase() {
        let version = |prior: &ObservedPhase| assign_version(queued().with_news(), prior).version();
        assert_eq!(version(&before(Phase::Queued, 0, "now")), 1);
        assert_eq!(version(&before(Phase::Queued, 1, "now")), 1);
        assert_eq!(version(&before(Phase::Queued, 0, "before")), 1);
        assert_eq!(version(&before(Phase::NotReady, 3, "before")), 1);
    }
}
