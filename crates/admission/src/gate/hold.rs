//! Whether free quota is held for the oldest waiting action of a namespace.
//!
//! A younger action may overtake an older one that does not fit. Without a limit, small create requests could keep a large
//! one waiting for ever. So after `hold-after` the quota that the oldest action needs is held for it, for `hold-for`. Then
//! the hold is released for `hold-after`, because the objects that use the quota may never end, and so on in turns.

use std::time::{Duration, Instant};

use super::settings::GateSettings;
use crate::time::after;

/// Whether quota is held now, and when this changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) is_active: bool,
    /// When `is_active` changes; `None` if it never does.
    pub(super) changes_at: Option<Instant>,
}

impl Hold {
    /// The hold for an action that has been waiting since this time.
    pub(super) fn at(waiting_since: Instant, settings: &GateSettings, now: Instant) -> Self {
        let waited = now.saturating_duration_since(waiting_since);
        let hold_after = settings.hold_after.as_nanos();
        let cycle = (settings.hold_after + settings.hold_for).as_nanos();
        let Some(in_cycle) = waited.as_nanos().checked_rem(cycle) else {
            return Self { is_active: false, changes_at: None };
        };
        let is_active = in_cycle >= hold_after;
        let change = if is_active { cycle } else { hold_after };
        let until_change = Duration::from_nanos_u128(change - in_cycle);
        Self { is_active, changes_at: Some(after(now, until_change)) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::time::testing::at_second as at;

    fn hold(hold_after: u64, hold_for: u64, now: i64) -> (bool, Option<u64>) {
        let (hold_after, hold_for) = (Duration::from_secs(hold_after), Duration::from_secs(hold_for));
        let settings = GateSettings { hold_after, hold_for, ..GateSettings::default() };
        let hold = Hold::at(at(0), &settings, at(now));
        (hold.is_active, hold.changes_at.map(|changes_at| changes_at.duration_since(at(0)).as_secs()))
    }

    #[test]
    fn a_hold_starts_after_a_while_ends_after_a_while_and_starts_again() {
        assert_eq!(hold(60, 600, 0), (false, Some(60)));
        assert_eq!(hold(60, 600, 59), (false, Some(60)));
        assert_eq!(hold(60, 600, 60), (true, Some(660)));
        assert_eq!(hold(60, 600, 660), (false, Some(720)));
        assert_eq!(hold(60, 600, 720), (true, Some(1320)));
    }

    #[test]
    fn a_hold_of_no_length_is_never_active() {
        assert_eq!(hold(0, 0, 5), (false, None));
        assert!((0..200).all(|now| !hold(60, 0, now).0));
    }

    #[test]
    fn a_time_before_the_start_of_the_wait_counts_as_no_wait() {
        assert_eq!(hold(60, 600, -5), (false, Some(55)));
    }
}
