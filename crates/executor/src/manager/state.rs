//! What the manager stores between rounds, in the Go executor's encoding.

use aileron_machinery::{ObservedPhase, Phase, PhaseInfo, StateWrite, StoredState};

use crate::manager::gob::{self, GobError, K8sPluginState, PluginState};

/// The version that the Go executor writes. Both executors read only this one.
const VERSION: u8 = 1;

/// The stored state; nothing stored reads as "not started".
pub fn read(stored: &StoredState) -> Result<PluginState, GobError> {
    if stored.bytes.is_empty() { Ok(PluginState::default()) } else { gob::decode(&stored.bytes) }
}

/// The state as it is stored.
pub fn write(state: &PluginState) -> StateWrite {
    StateWrite { bytes: gob::encode(state), version: VERSION }
}

/// The state with this phase. Everything else stays.
pub(super) fn with_phase(state: &PluginState, phase: &PhaseInfo) -> PluginState {
    PluginState {
        k8s: K8sPluginState {
            phase: phase.phase().number(),
            phase_version: phase.version(),
            reason: phase.reason().into(),
        },
        ..state.clone()
    }
}

/// The part of the state that a plugin may read.
pub(super) fn prior(state: &PluginState) -> ObservedPhase {
    ObservedPhase {
        phase: Phase::from_number(state.k8s.phase).unwrap_or_default(),
        version: state.k8s.phase_version,
        reason: state.k8s.reason.clone(),
    }
}
