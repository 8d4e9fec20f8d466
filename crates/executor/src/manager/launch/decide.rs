//! What the outcome of a launch means for the task. No I/O.

use std::time::Duration;

use aileron_action::object_identity::Found;
use aileron_kubekit::ApiError;
use aileron_machinery::{ExecutionError, Pending, PendingReason, PhaseInfo, PluginError};
use jiff::Timestamp;

use crate::manager::round::Round;

/// Code of a task whose request exceeds the whole quota, as in Flyte 1.
const NEVER_FITS: &str = "ResourceRequestsExceedLimits";

/// Code of a task that wants a token of a pool that is not configured.
const UNKNOWN_POOL: &str = "UnknownPool";

/// Code of a task whose name is taken by an object that does not belong to the attempt.
const FOREIGN_OBJECT: &str = "ForeignObject";

/// Objects of others are not watched, so their disappearance is not reported. The name is tried again after this pause.
const NAME_RETRY: Duration = Duration::from_secs(3);

/// The watch reports when a terminating object is gone. But it may have the executor's finalizer, and the request that removes
/// it may have failed: it is sent again after this pause.
const FINALIZER_RETRY: Duration = Duration::from_secs(10);

/// The reason while the object exists and its plugin has not read it yet; the control plane shows it.
const SUBMITTED: &str = "task submitted to K8s";

/// The result of a launch.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::manager) enum LaunchOutcome {
    /// The cluster does not serve the kind of object.
    KindMissing,
    /// The task needs a token of a pool that is not configured.
    UnknownPool(String),
    /// The task waits for a token, or admission makes it wait.
    Wait {
        /// For what.
        pending: Pending,
        /// When to ask again although nothing changed.
        until: Option<Timestamp>,
    },
    /// The request exceeds the whole quota.
    NeverAdmitted(String),
    /// An object with the attempt's name exists, or just existed.
    NameTaken {
        /// Whose it is.
        found: Found,
        /// When the API server was asked; `None` if the watch cache showed the object.
        asked_at: Option<Timestamp>,
    },
    /// The object was created.
    Created,
    /// The API server refused the create for a reason that does not go away by waiting.
    Refused(ApiError),
}

/// The phase after a launch, and when to launch again although nothing changed. A phase of `Queued` means that the object
/// exists; any other, that it does not.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::manager) struct Launched {
    pub(in crate::manager) phase: PhaseInfo,
    pub(in crate::manager) check_at: Option<Timestamp>,
}

impl From<PhaseInfo> for Launched {
    fn from(phase: PhaseInfo) -> Self {
        Self { phase, check_at: None }
    }
}

/// What the outcome of a launch means for the task.
///
/// # Differs from upstream
///
/// Upstream charges a missing kind to the platform, and fails the task after some tens of seconds. Here the task waits.
pub(in crate::manager) fn decide(round: &Round, outcome: LaunchOutcome) -> Result<Launched, PluginError> {
    let permanent = |error: ExecutionError| Ok(Launched::from(PhaseInfo::permanent_failure(error, round.info())));
    match outcome {
        LaunchOutcome::KindMissing => Ok(round.waiting_for_kind().into()),
        LaunchOutcome::UnknownPool(name) => {
            let message = format!("the task needs a token of pool {name:?}, which tasks.pools does not have");
            permanent(ExecutionError::user(UNKNOWN_POOL, message))
        }
        LaunchOutcome::Wait { pending, until } => Ok(Launched { phase: round.waiting(pending), check_at: until }),
        LaunchOutcome::NeverAdmitted(reason) => permanent(ExecutionError::user(NEVER_FITS, reason)),
        LaunchOutcome::NameTaken { found, asked_at } => resolve_name_conflict(round, found, asked_at),
        LaunchOutcome::Created => Ok(submitted(round).into()),
        LaunchOutcome::Refused(error) => refused(round, error),
    }
}

fn submitted(round: &Round) -> PhaseInfo {
    PhaseInfo::queued(SUBMITTED, round.info())
}

/// What an object that already has the name means for the task.
fn resolve_name_conflict(round: &Round, found: Found, asked_at: Option<Timestamp>) -> Result<Launched, PluginError> {
    let object = &round.object;
    let waiting = |sentence: String| round.waiting(Pending::new(PendingReason::Terminating, sentence));
    let again = asked_at.and_then(|at| at.checked_add(NAME_RETRY).ok());
    match found {
        // It may have ended already, and an object that has ended never changes again. So it is read at once.
        Found::Ours => Ok(Launched { phase: submitted(round), check_at: Some(round.now) }),
        Found::Terminating => {
            let phase = waiting(format!("waiting for the terminating {object} to go away"));
            Ok(Launched { phase, check_at: again.or_else(|| round.now.checked_add(FINALIZER_RETRY).ok()) })
        }
        Found::Gone => {
            let phase = waiting(format!("waiting for the terminating {object}, which just went"));
            // The name is free, so the create is retried at once, but only one time.
            let repeated = round.prior.reason == phase.reason();
            Ok(Launched { phase, check_at: if repeated { again } else { asked_at } })
        }
        Found::Foreign => Err(PluginError::new(
            FOREIGN_OBJECT,
            format!(
                "{object} exists and does not belong to this attempt of the action; delete it to let the task start"
            ),
        )),
    }
}

/// What a refused create means for the task. Mirrors `PluginManager.launchResource`.
fn refused(round: &Round, error: ApiError) -> Result<Launched, PluginError> {
    if error.is_kind_not_served() {
        return Ok(round.waiting_for_kind().into());
    }
    let info = round.info();
    if error.is_forbidden() {
        let error = ExecutionError::user("RuntimeFailure", error.message);
        return Ok(PhaseInfo::retryable_failure(error, info).into());
    }
    // The same object would be refused the same way, so these end the task at once.
    let permanent = [
        (error.is_too_large(), "EntityTooLarge"),
        (error.is_invalid(), "InvalidResource"),
        (error.is_bad_request(), "BadRequest"),
    ];
    match permanent.into_iter().find(|(matches, _)| *matches) {
        Some((_, code)) => Ok(PhaseInfo::permanent_failure(ExecutionError::user(code, error.message), info).into()),
        None => Err(failed_to_create(error)),
    }
}

/// The error of a create request that failed for a reason which says nothing about the object.
pub(super) fn failed_to_create(error: ApiError) -> PluginError {
    PluginError::caused_by(error.reason.clone(), "failed to create resource", error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use aileron_kubekit::KIND_NOT_SERVED;
    use aileron_machinery::{ObjectRef, ObservedPhase, Phase, ResourceKind};
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn round(reason: &str) -> Round {
        Round {
            now: Timestamp::UNIX_EPOCH,
            prior: ObservedPhase { phase: Phase::WaitingForResources, version: 3, reason: reason.into() },
            object: ObjectRef::new(ResourceKind::of::<Pod>(), "ns", "r1-a0-0"),
        }
    }

    fn name_taken(found: Found, asked_at: Option<i64>) -> LaunchOutcome {
        LaunchOutcome::NameTaken { found, asked_at: asked_at.map(|second| Timestamp::from_second(second).unwrap()) }
    }

    fn check_second(launched: &Launched) -> Option<i64> {
        launched.check_at.map(Timestamp::as_second)
    }

    #[test]
    fn a_created_object_means_queued_until_the_watch_shows_it() {
        let launched = decide(&round(""), LaunchOutcome::Created).unwrap();
        assert_eq!((launched.phase.phase(), launched.phase.reason()), (Phase::Queued, SUBMITTED));
        assert_eq!(launched.check_at, None);
    }

    #[test]
    fn an_adopted_object_is_read_at_once_because_it_may_have_ended() {
        for outcome in [name_taken(Found::Ours, Some(5)), name_taken(Found::Ours, None)] {
            let launched = decide(&round(""), outcome).unwrap();
            assert_eq!((launched.phase.phase(), launched.phase.reason()), (Phase::Queued, SUBMITTED));
            assert_eq!(launched.check_at, Some(round("").now));
        }
    }

    #[test]
    fn a_missing_kind_is_waited_for_whether_the_cache_or_the_server_tells() {
        let not_served = ApiError { code: 404, reason: KIND_NOT_SERVED.into(), ..ApiError::default() };
        for outcome in [LaunchOutcome::KindMissing, LaunchOutcome::Refused(not_served)] {
            let phase = decide(&round(""), outcome).unwrap().phase;
            assert_eq!(phase.phase(), Phase::WaitingForResources);
            assert_eq!(phase.pending().unwrap().reason, PendingReason::MissingKind);
            assert_eq!(phase.version(), 4, "another reason than before is news");
        }
    }

    #[test]
    fn a_wait_for_the_same_reason_keeps_its_version() {
        let pending = Pending::new(PendingReason::Quota, "quota");
        let launched = decide(&round("quota"), LaunchOutcome::Wait { pending, until: None }).unwrap();
        assert_eq!((launched.phase.version(), launched.phase.reason()), (3, "quota"));
    }

    #[test]
    fn a_terminating_object_is_checked_again_later_where_the_watch_tells() {
        let live = decide(&round(""), name_taken(Found::Terminating, Some(10))).unwrap();
        assert_eq!(check_second(&live), Some(13));
        assert_eq!(live.phase.pending().unwrap().reason, PendingReason::Terminating);
        let cached = decide(&round(""), name_taken(Found::Terminating, None)).unwrap();
        assert_eq!(check_second(&cached), Some(10), "the request that removes our finalizer may have failed");
    }

    #[test]
    fn a_name_that_became_free_is_tried_at_once_and_then_slowly() {
        let first = decide(&round(""), name_taken(Found::Gone, Some(10))).unwrap();
        assert_eq!(check_second(&first), Some(10));
        let again = decide(&round(first.phase.reason()), name_taken(Found::Gone, Some(10))).unwrap();
        assert_eq!(check_second(&again), Some(13));
    }

    #[test]
    fn an_object_of_another_owner_is_an_error_that_names_it() {
        let error = decide(&round(""), name_taken(Found::Foreign, Some(1))).unwrap_err();
        assert_eq!(error.code(), FOREIGN_OBJECT);
        assert!(error.to_string().contains("Pod [ns/r1-a0-0] exists"), "{error}");
    }

    #[test]
    fn a_refused_create_ends_the_task_if_the_same_object_would_be_refused_again() {
        let refused = |code: u16, reason: &str| {
            let error = ApiError { code, reason: reason.into(), message: "m".into(), retry_after: None };
            decide(&round(""), LaunchOutcome::Refused(error))
        };
        let ended = |code, reason| {
            let phase = refused(code, reason).unwrap().phase;
            (phase.phase(), phase.error().unwrap().code.clone())
        };
        assert_eq!(ended(413, ""), (Phase::PermanentFailure, "EntityTooLarge".to_owned()));
        assert_eq!(ended(422, "Invalid"), (Phase::PermanentFailure, "InvalidResource".to_owned()));
        assert_eq!(ended(400, "BadRequest"), (Phase::PermanentFailure, "BadRequest".to_owned()));
        assert_eq!(ended(403, "Forbidden"), (Phase::RetryableFailure, "RuntimeFailure".to_owned()));
        assert_eq!(refused(500, "InternalError").unwrap_err().code(), "InternalError");
    }

    #[test]
    fn what_can_never_be_granted_fails_for_good() {
        let code = |outcome| decide(&round(""), outcome).unwrap().phase.error().unwrap().code.clone();
        assert_eq!(code(LaunchOutcome::NeverAdmitted("r".into())), NEVER_FITS);
        assert_eq!(code(LaunchOutcome::UnknownPool("licences".into())), UNKNOWN_POOL);
    }
}
