//! The rules of the task cache, on plain values.

use aileron_idl::flyteidl2::core::{CatalogCacheStatus, LiteralMap};
use aileron_machinery::{ExternalResource, Phase, PhaseInfo, ReasonInfo, TaskInfo};
use jiff::Timestamp;

use super::CacheAnswer;

/// The name of the cache among the external resources of an action.
const EXTERNAL_ID: &str = "cache";

/// What a round does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BeforeLookup {
    /// Look for outputs in the cache.
    LookUp,
    /// Extend the reservation.
    Reserve,
    /// Nothing: the task runs.
    Run,
}

/// What a lookup found.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lookup {
    Hit(LiteralMap),
    Miss,
    /// The cache service did not answer.
    Unavailable,
}

/// What a round does after a lookup.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AfterLookup {
    /// Store these outputs as the action's own.
    UseOutputs(LiteralMap),
    /// Ask for the right to compute the outputs.
    Reserve,
    /// Run the task without a reservation.
    Run,
}

/// What happens to the cache after a round of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AtEnd {
    pub(super) store_outputs: bool,
    pub(super) release: bool,
}

/// A task that runs is past the lookup: it only extends its reservation.
pub(super) fn before_lookup(phase: Option<Phase>, serial: bool) -> BeforeLookup {
    match phase {
        Some(Phase::Running) if serial => BeforeLookup::Reserve,
        Some(Phase::Running) => BeforeLookup::Run,
        _ => BeforeLookup::LookUp,
    }
}

/// A cache service that is down makes tasks slower, not impossible: the task runs, without a reservation.
pub(super) fn after_lookup(lookup: Lookup, serial: bool) -> AfterLookup {
    match lookup {
        Lookup::Hit(outputs) => AfterLookup::UseOutputs(outputs),
        Lookup::Miss if serial => AfterLookup::Reserve,
        Lookup::Miss | Lookup::Unavailable => AfterLookup::Run,
    }
}

/// The task runs if the reservation is its own, else it waits for the owner. A task that runs already goes on: its
/// reservation expired while the cache service could not be reached, and what it computes is of use.
///
/// # Differs from upstream
///
/// Upstream lets the running task wait for the new owner of the reservation, and does not see its end.
pub(super) fn after_reserve(
    owner: &str,
    own: &str,
    is_running: bool,
    phase_version: u32,
    now: Timestamp,
) -> CacheAnswer {
    if owner == own || is_running {
        return CacheAnswer::Run { reserved: true };
    }
    let info = cache_info(CatalogCacheStatus::CacheMiss, "waiting for serialized cache owner", now);
    let reason = format!("waiting for cache to be populated by reservation owner {owner:?}");
    CacheAnswer::WaitForOwner(PhaseInfo::waiting_for_cache(reason, info).with_version(phase_version))
}

/// Outputs are stored after a success; a reservation is released after any end of the attempt.
pub(super) fn at_end(phase: Phase) -> AtEnd {
    AtEnd { store_outputs: phase.is_success(), release: phase.is_terminal() }
}

/// The phase of an action whose outputs were in the cache.
pub(super) fn hit(now: Timestamp) -> PhaseInfo {
    PhaseInfo::success(cache_info(CatalogCacheStatus::CacheHit, "cache hit", now))
}

/// The cache as an external resource of the action, with what it answered.
pub(super) fn external(cache_status: CatalogCacheStatus) -> ExternalResource {
    ExternalResource { external_id: EXTERNAL_ID.into(), cache_status, ..ExternalResource::default() }
}

fn cache_info(status: CatalogCacheStatus, reason: &str, now: Timestamp) -> TaskInfo {
    TaskInfo {
        external_resources: vec![external(status)],
        additional_reasons: vec![ReasonInfo { reason: reason.into(), occurred_at: Some(now) }],
        ..TaskInfo::at(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_task_is_not_looked_up_again() {
        for phase in [None, Some(Phase::Queued), Some(Phase::WaitingForCache), Some(Phase::Initializing)] {
            assert_eq!(before_lookup(phase, false), BeforeLookup::LookUp);
            assert_eq!(before_lookup(phase, true), BeforeLookup::LookUp);
        }
        assert_eq!(before_lookup(Some(Phase::Running), true), BeforeLookup::Reserve);
        assert_eq!(before_lookup(Some(Phase::Running), false), BeforeLookup::Run);
    }

    #[test]
    fn a_miss_reserves_only_where_one_action_at_a_time_may_compute() {
        assert_eq!(after_lookup(Lookup::Miss, true), AfterLookup::Reserve);
        assert_eq!(after_lookup(Lookup::Miss, false), AfterLookup::Run);
        for serial in [false, true] {
            let outputs = LiteralMap::default();
            assert_eq!(after_lookup(Lookup::Hit(outputs.clone()), serial), AfterLookup::UseOutputs(outputs));
            assert_eq!(
                after_lookup(Lookup::Unavailable, serial),
                AfterLookup::Run,
                "a cache that is down stops no task"
            );
        }
    }

    #[test]
    fn only_the_owner_of_the_reservation_runs() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(after_reserve("ns/a", "ns/a", false, 3, now), CacheAnswer::Run { reserved: true });
        let CacheAnswer::WaitForOwner(phase) = after_reserve("ns/b", "ns/a", false, 3, now) else { unreachable!() };
        assert_eq!((phase.phase(), phase.version()), (Phase::WaitingForCache, 3), "the version stays: it is no news");
        assert!(phase.reason().ends_with("reservation owner \"ns/b\""), "{}", phase.reason());
        let info = phase.info().map(|info| info.external_resources.clone()).unwrap_or_default();
        assert_eq!(info, [external(CatalogCacheStatus::CacheMiss)]);
    }

    #[test]
    fn a_running_task_goes_on_when_another_got_its_expired_reservation() {
        let answer = after_reserve("ns/b", "ns/a", true, 3, Timestamp::UNIX_EPOCH);
        assert_eq!(answer, CacheAnswer::Run { reserved: true });
    }

    #[test]
    fn outputs_are_stored_after_success_and_the_reservation_is_released_after_any_end() {
        for phase in Phase::ALL {
            let end = at_end(phase);
            assert_eq!(end.store_outputs, phase == Phase::Success, "{phase}");
            let ended = [Phase::Success, Phase::RetryableFailure, Phase::PermanentFailure, Phase::Aborted];
            assert_eq!(end.release, ended.contains(&phase), "{phase}");
        }
    }

    #[test]
    fn a_hit_is_a_success_that_says_where_it_comes_from() {
        let phase = hit(Timestamp::UNIX_EPOCH);
        assert!(phase.phase().is_success());
        let info = phase.info().map(|info| info.external_resources.clone()).unwrap_or_default();
        assert_eq!(info, [external(CatalogCacheStatus::CacheHit)]);
    }
}
