//! What a launch does before the create request, and in which order. No I/O.

use aileron_action::object_identity::Found;

use super::decide::LaunchOutcome;

/// What the last step of a launch found out. `O` is the object that the plugin built.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known<O> {
    /// Whether the cluster serves the kind of object.
    Kind {
        /// It does not.
        is_missing: bool,
    },
    /// The task asked for its tokens.
    Tokens {
        /// Why it does not have all of them; `None` if it has.
        lacking: Option<LaunchOutcome>,
    },
    /// The object is built, and the watch cache was asked for its name.
    Built {
        /// The object.
        object: O,
        /// Whose object has the name already, if there is one.
        name_taken_by: Option<Found>,
    },
}

/// The next step of a launch.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum BeforeCreate<O> {
    /// Take the tokens that the task needs.
    TakeTokens,
    /// Build the object, remove what the attempt before left, and look the name up in the watch cache.
    Build,
    /// Ask the gate for permission to create this object.
    AskGate(O),
    /// The object is not created in this round.
    End(LaunchOutcome),
}

/// The step that follows from what the last one found out. Each step costs more than the one before, so that a task which
/// cannot start takes no token, and a task without its tokens reads no inputs.
pub(super) fn before_create<O>(known: Known<O>) -> BeforeCreate<O> {
    match known {
        Known::Kind { is_missing: true } => BeforeCreate::End(LaunchOutcome::KindMissing),
        Known::Kind { is_missing: false } => BeforeCreate::TakeTokens,
        Known::Tokens { lacking: Some(outcome) } => BeforeCreate::End(outcome),
        Known::Tokens { lacking: None } => BeforeCreate::Build,
        // The watch cache may know the answer of the API server already, for example after a restart.
        Known::Built { name_taken_by: Some(found), .. } => {
            BeforeCreate::End(LaunchOutcome::NameTaken { found, asked_at: None })
        }
        Known::Built { object, name_taken_by: None } => BeforeCreate::AskGate(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(known: Known<&'static str>) -> BeforeCreate<&'static str> {
        before_create(known)
    }

    #[test]
    fn a_launch_that_nothing_prevents_asks_for_tokens_then_builds_then_asks_the_gate() {
        assert_eq!(next(Known::Kind { is_missing: false }), BeforeCreate::TakeTokens);
        assert_eq!(next(Known::Tokens { lacking: None }), BeforeCreate::Build);
        let built = Known::Built { object: "pod", name_taken_by: None };
        assert_eq!(next(built), BeforeCreate::AskGate("pod"));
    }

    #[test]
    fn a_task_whose_kind_is_missing_takes_no_token() {
        assert_eq!(next(Known::Kind { is_missing: true }), BeforeCreate::End(LaunchOutcome::KindMissing));
    }

    #[test]
    fn a_task_without_its_tokens_builds_nothing() {
        let lacking = LaunchOutcome::UnknownPool("licences".into());
        assert_eq!(next(Known::Tokens { lacking: Some(lacking.clone()) }), BeforeCreate::End(lacking));
    }

    #[test]
    fn a_name_that_the_watch_cache_shows_is_not_created_again() {
        for found in [Found::Ours, Found::Terminating, Found::Foreign] {
            let outcome = LaunchOutcome::NameTaken { found, asked_at: None };
            let built = Known::Built { object: "pod", name_taken_by: Some(found) };
            assert_eq!(next(built), BeforeCreate::End(outcome), "the API server was not asked");
        }
    }
}
