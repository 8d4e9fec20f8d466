//! The version of a phase. The manager assigns it, not the plugin.

use aileron_machinery::{ObservedPhase, PhaseInfo};

/// The phase with its version. Within one phase a new reason raises the version, so that readers see the reason; and a
/// version never goes back.
pub fn assign_version(phase: PhaseInfo, prior: &ObservedPhase) -> PhaseInfo {
    let phase = phase.newer_than(prior);
    if phase.phase() == prior.phase && phase.version() < prior.version {
        return phase.with_version(prior.version);
    }
    phase
}

#[cfg(test)]
mod tests {
    use aileron_machinery::{Phase, TaskInfo};
    use jiff::Timestamp;

    use super::*;

    fn version(phase: Phase, version: u32, reason: &str) -> u32 {
        let info = TaskInfo::at(Timestamp::UNIX_EPOCH);
        let queued = PhaseInfo::queued("now", info).with_version(version);
        assign_version(queued, &ObservedPhase { phase, version: 4, reason: reason.into() }).version()
    }

    #[test]
    fn a_version_is_raised_by_news_and_never_goes_back() {
        assert_eq!(version(Phase::Queued, 0, "before"), 5);
        assert_eq!(version(Phase::Queued, 0, "now"), 4);
        assert_eq!(version(Phase::Queued, 7, "before"), 7);
        assert_eq!(version(Phase::Running, 0, "before"), 0, "another phase begins anew");
    }
}
