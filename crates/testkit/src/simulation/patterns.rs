//! Systematic disturbances: the same run again, disturbed at one place after the other.
//!
//! The patterns are those of Sieve: *intermediate states* (a crash before or after each write, or an answer that is
//! lost), *unobserved states* (a watch misses a change and everything until its next list) and *stale states* (one watch
//! is behind while everything else goes on).

use serde::{Deserialize, Serialize};

/// The disturbance of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pattern {
    /// None.
    #[default]
    None,
    /// The executor dies before this write reaches the API server.
    CrashBefore(u64),
    /// The executor dies after this write was carried out, before it knows.
    CrashAfter(u64),
    /// The answer to this write is lost.
    LostAnswer(u64),
    /// The API server refuses this write with this status code. 403 is a quota that is used up.
    Refused(u64, u16),
    /// The watch that delivers this change delivers nothing for a while, and then must list again.
    Unobserved(u64),
    /// The watch that delivers this change is behind for a while.
    Late(u64),
}

/// What happens at one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// See [`Pattern::CrashBefore`].
    CrashBefore,
    /// See [`Pattern::CrashAfter`].
    CrashAfter,
    /// See [`Pattern::LostAnswer`].
    LostAnswer,
    /// See [`Pattern::Refused`].
    Refused(u16),
    /// See [`Pattern::Unobserved`].
    Unobserved,
    /// See [`Pattern::Late`].
    Late,
}

impl Pattern {
    /// All patterns for a run that had this many writes and watched changes without disturbance.
    #[must_use]
    pub fn all(writes: u64, changes: u64) -> Vec<Self> {
        let at_writes = [Self::CrashBefore, Self::CrashAfter, Self::LostAnswer];
        let at_changes = [Self::Unobserved, Self::Late];
        let writes = (0..writes).flat_map(|number| at_writes.map(|pattern| pattern(number)));
        writes.chain((0..changes).flat_map(|number| at_changes.map(|pattern| pattern(number)))).collect()
    }

    pub(crate) fn at_write(self, number: u64) -> Option<Disturbance> {
        match self {
            Self::CrashBefore(at) if at == number => Some(Disturbance::CrashBefore),
            Self::CrashAfter(at) if at == number => Some(Disturbance::CrashAfter),
            Self::LostAnswer(at) if at == number => Some(Disturbance::LostAnswer),
            Self::Refused(at, code) if at == number => Some(Disturbance::Refused(code)),
            _ => None,
        }
    }

    pub(crate) fn at_change(self, number: u64) -> Option<Disturbance> {
        match self {
            Self::Unobserved(at) if at == number => Some(Disturbance::Unobserved),
            Self::Late(at) if at == number => Some(Disturbance::Late),
            _ => None,
        }
    }
}
