//! What the answers of the gate and of the API server to a create request mean. No I/O.

use std::time::Duration;

use aileron_action::object_identity::Found;
use aileron_kubekit::ApiError;
use aileron_machinery::{Pending, PluginError};
use jiff::Timestamp;

use super::decide::{LaunchOutcome, failed_to_create};

/// What came of a create request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CreateAnswer {
    /// The API server created the object.
    Created,
    /// The request was not sent: the gate makes the task wait.
    NotSent(GateWait),
    /// The API server says that an object has the name, so it was asked for that object.
    AlreadyExists {
        /// Whose the object is, or why it could not be read.
        live: Result<Found, ApiError>,
        /// When the API server was asked.
        asked_at: Timestamp,
    },
    /// The API server refused the request for another reason.
    Refused {
        /// The reason.
        error: ApiError,
        /// What the gate makes of it.
        gate: GateAnswer,
    },
}

/// What the gate makes of a refused create request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum GateAnswer {
    /// The refusal is temporary.
    Wait(GateWait),
    /// The request can never fit. The text is for users.
    NeverFits(String),
    /// The refusal has nothing to do with quota or overload.
    NotItsConcern,
}

/// A wait that the gate imposes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GateWait {
    /// For what the task waits.
    pub(super) pending: Pending,
    /// When to ask again although nothing changed.
    pub(super) until: Option<Timestamp>,
}

impl GateWait {
    /// A wait that ends after this pause at the latest.
    pub(super) fn for_at_most(pause: Duration, pending: Pending, now: Timestamp) -> Self {
        Self { pending, until: now.checked_add(pause).ok() }
    }
}

impl From<GateWait> for LaunchOutcome {
    fn from(GateWait { pending, until }: GateWait) -> Self {
        Self::Wait { pending, until }
    }
}

/// The result of a launch whose create request was permitted.
///
/// # Errors
/// When the object that has the name cannot be read.
pub(super) fn after_create(answer: CreateAnswer) -> Result<LaunchOutcome, PluginError> {
    match answer {
        CreateAnswer::Created => Ok(LaunchOutcome::Created),
        CreateAnswer::NotSent(wait) | CreateAnswer::Refused { gate: GateAnswer::Wait(wait), .. } => Ok(wait.into()),
        CreateAnswer::Refused { gate: GateAnswer::NeverFits(reason), .. } => Ok(LaunchOutcome::NeverAdmitted(reason)),
        CreateAnswer::Refused { gate: GateAnswer::NotItsConcern, error } => Ok(LaunchOutcome::Refused(error)),
        CreateAnswer::AlreadyExists { live, asked_at } => {
            let found = match live {
                Ok(found) => found,
                // The kind went away after the create request.
                Err(error) if error.is_kind_not_served() => return Ok(LaunchOutcome::Refused(error)),
                Err(error) if error.is_not_found() => Found::Gone,
                Err(error) => return Err(failed_to_create(error)),
            };
            Ok(LaunchOutcome::NameTaken { found, asked_at: Some(asked_at) })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use aileron_kubekit::KIND_NOT_SERVED;
    use aileron_machinery::PendingReason;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn error(code: u16, reason: &str) -> ApiError {
        ApiError { code, reason: reason.into(), message: "m".into(), retry_after: None }
    }

    fn wait() -> GateWait {
        GateWait::for_at_most(Duration::from_secs(7), Pending::new(PendingReason::Quota, "quota"), NOW)
    }

    fn waiting() -> LaunchOutcome {
        let until = Some(Timestamp::from_second(7).unwrap());
        LaunchOutcome::Wait { pending: Pending::new(PendingReason::Quota, "quota"), until }
    }

    fn name_taken(live: Result<Found, ApiError>) -> Result<LaunchOutcome, PluginError> {
        after_create(CreateAnswer::AlreadyExists { live, asked_at: NOW })
    }

    #[test]
    fn a_created_object_is_created() {
        assert_eq!(after_create(CreateAnswer::Created).unwrap(), LaunchOutcome::Created);
    }

    #[test]
    fn a_task_waits_at_the_gate_whether_its_request_was_held_back_or_refused() {
        assert_eq!(after_create(CreateAnswer::NotSent(wait())).unwrap(), waiting());
        let refused = CreateAnswer::Refused { error: error(403, "Forbidden"), gate: GateAnswer::Wait(wait()) };
        assert_eq!(after_create(refused).unwrap(), waiting());
    }

    #[test]
    fn a_refusal_that_is_not_the_concern_of_the_gate_keeps_its_reason() {
        let refused = |gate| after_create(CreateAnswer::Refused { error: error(422, "Invalid"), gate }).unwrap();
        assert_eq!(refused(GateAnswer::NotItsConcern), LaunchOutcome::Refused(error(422, "Invalid")));
        assert_eq!(refused(GateAnswer::NeverFits("r".into())), LaunchOutcome::NeverAdmitted("r".into()));
    }

    #[test]
    fn the_object_that_has_the_name_is_the_one_that_the_api_server_shows() {
        for found in [Found::Ours, Found::Terminating, Found::Foreign] {
            let outcome = LaunchOutcome::NameTaken { found, asked_at: Some(NOW) };
            assert_eq!(name_taken(Ok(found)).unwrap(), outcome);
        }
        let gone = LaunchOutcome::NameTaken { found: Found::Gone, asked_at: Some(NOW) };
        assert_eq!(name_taken(Err(error(404, "NotFound"))).unwrap(), gone);
    }

    #[test]
    fn an_object_that_cannot_be_read_is_a_missing_kind_or_a_failed_create() {
        let not_served = error(404, KIND_NOT_SERVED);
        assert_eq!(name_taken(Err(not_served.clone())).unwrap(), LaunchOutcome::Refused(not_served));
        let failed = name_taken(Err(error(500, "InternalError"))).unwrap_err();
        assert_eq!(failed.code(), "InternalError");
        assert!(failed.to_string().contains("failed to create resource"), "{failed}");
    }
}
