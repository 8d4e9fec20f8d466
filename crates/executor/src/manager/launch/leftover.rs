//! What is done about an object that a crash of the executor left behind. No I/O.

use aileron_action::object_identity::OBJECT_FINALIZER;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What is done about an object that was left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftoverStep {
    /// It is not ours, or it goes away by itself.
    Nothing,
    /// Delete it.
    Delete,
    /// It is being deleted and waits for us: remove our finalizer.
    RemoveFinalizer,
}

/// What is done about this object. `is_ours` says that it was created for the attempt in question.
pub(super) fn leftover_step(found: &ObjectMeta, is_ours: bool) -> LeftoverStep {
    let has_finalizer = found.finalizers.iter().flatten().any(|finalizer| finalizer == OBJECT_FINALIZER);
    match found.deletion_timestamp {
        None if is_ours => LeftoverStep::Delete,
        Some(_) if is_ours && has_finalizer => LeftoverStep::RemoveFinalizer,
        _ => LeftoverStep::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn object(is_terminating: bool, finalizers: &[&str]) -> ObjectMeta {
        ObjectMeta {
            deletion_timestamp: is_terminating.then_some(Time(Timestamp::UNIX_EPOCH)),
            finalizers: Some(finalizers.iter().map(|&finalizer| finalizer.to_owned()).collect()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn an_object_of_ours_is_deleted_and_then_released() {
        for finalizers in [&[][..], &[OBJECT_FINALIZER]] {
            assert_eq!(leftover_step(&object(false, finalizers), true), LeftoverStep::Delete);
        }
        let terminating = object(true, &["other", OBJECT_FINALIZER]);
        assert_eq!(leftover_step(&terminating, true), LeftoverStep::RemoveFinalizer);
    }

    #[test]
    fn a_terminating_object_without_our_finalizer_goes_away_by_itself() {
        for finalizers in [&[][..], &["other"]] {
            assert_eq!(leftover_step(&object(true, finalizers), true), LeftoverStep::Nothing);
        }
    }

    #[test]
    fn an_object_of_another_owner_is_left_alone() {
        for is_terminating in [false, true] {
            let found = object(is_terminating, &[OBJECT_FINALIZER]);
            assert_eq!(leftover_step(&found, false), LeftoverStep::Nothing);
        }
    }
}
