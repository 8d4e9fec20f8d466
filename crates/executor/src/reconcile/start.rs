//! The first decision of a round: what kind of work an action needs.

use aileron_action::{ACTION_TYPE_CONDITION, Action, TaskActionStatus};

use super::has_finalizer;
use super::validate::{Invalid, validate};
use crate::registry::{NoPlugin, Why};

/// What a round does with an action. `P` is its plugin.
#[derive(Debug)]
pub(super) enum Start<P> {
    /// The action is being deleted: its task is stopped.
    Abort,
    /// The action has ended. It only needs its labels; its status is never changed again.
    Label,
    /// The action waits for a signal.
    Condition,
    /// The action can never work. It gets no finalizer, so it can be deleted at once.
    Reject(Invalid),
    /// The action is valid and not yet owned: our finalizer is added before anything is created for it.
    TakeOver { plugin: P, why: Why },
    /// The plugin works on the action.
    Drive { plugin: P, why: Why },
}

/// Decides from an action and the plugin that the registry chooses for it.
pub(super) fn decide_start<P>(action: &Action, plugin: Result<(P, Why), NoPlugin>) -> Start<P> {
    let object = &action.object;
    if object.metadata.deletion_timestamp.is_some() {
        return Start::Abort;
    }
    if object.status.as_ref().is_some_and(TaskActionStatus::is_terminal) {
        return Start::Label;
    }
    if let Some(message) = &action.malformed {
        return Start::Reject(Invalid::Malformed(message.to_string()));
    }
    if object.spec.action_type == ACTION_TYPE_CONDITION {
        return Start::Condition;
    }
    match validate(action, plugin) {
        Err(invalid) => Start::Reject(invalid),
        Ok((plugin, why)) if has_finalizer(action) => Start::Drive { plugin, why },
        Ok((plugin, why)) => Start::TakeOver { plugin, why },
    }
}

#[cfg(test)]
mod tests {
    use aileron_action::ACTION_FINALIZER;
    use aileron_machinery::{ExecutionError, PhaseInfo, TaskInfo};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::reconcile::decide::tests::valid_object;

    fn start(change: impl FnOnce(&mut aileron_action::TaskAction)) -> Start<()> {
        let mut object = valid_object();
        change(&mut object);
        decide_start(&Action::new(object, None), Ok(((), Why::Declared)))
    }

    #[test]
    fn an_action_is_taken_over_before_it_is_worked_on() {
        assert!(matches!(start(|_| {}), Start::TakeOver { why: Why::Declared, .. }));
        let others = |object: &mut aileron_action::TaskAction| object.metadata.finalizers = Some(vec!["other".into()]);
        assert!(matches!(start(others), Start::TakeOver { .. }), "the finalizer of others is not ours");
        let ours =
            |object: &mut aileron_action::TaskAction| object.metadata.finalizers = Some(vec![ACTION_FINALIZER.into()]);
        assert!(matches!(start(ours), Start::Drive { .. }));
    }

    #[test]
    fn an_ended_action_is_never_worked_on_again() {
        let now = Timestamp::UNIX_EPOCH;
        let error = ExecutionError::user("c", "m");
        let ends = [
            PhaseInfo::success(TaskInfo::at(now)),
            PhaseInfo::permanent_failure(error, TaskInfo::at(now)),
            PhaseInfo::aborted("", TaskInfo::at(now)),
        ];
        for phase in ends {
            let ended = |object: &mut aileron_action::TaskAction| {
                object.metadata.finalizers = Some(vec![ACTION_FINALIZER.into()]);
                object.status.get_or_insert_default().show_phase(&phase, now);
            };
            assert!(matches!(start(ended), Start::Label), "{phase:?}");
        }
        let failing = |object: &mut aileron_action::TaskAction| {
            object.metadata.finalizers = Some(vec![ACTION_FINALIZER.into()]);
            let phase = PhaseInfo::retryable_failure(ExecutionError::user("c", "m"), TaskInfo::at(now));
            object.status.get_or_insert_default().show_phase(&phase, now);
        };
        assert!(matches!(start(failing), Start::Drive { .. }), "another attempt may follow");
    }

    #[test]
    fn deletion_comes_before_everything_else() {
        let deleted = |object: &mut aileron_action::TaskAction| {
            object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            object.spec.action_type = ACTION_TYPE_CONDITION.into();
            object.spec.run_name.clear();
            let phase = PhaseInfo::success(TaskInfo::at(Timestamp::UNIX_EPOCH));
            object.status.get_or_insert_default().show_phase(&phase, Timestamp::UNIX_EPOCH);
        };
        assert!(matches!(start(deleted), Start::Abort));
    }

    #[test]
    fn a_condition_needs_neither_task_nor_plugin() {
        let mut object = valid_object();
        object.spec = Default::default();
        object.spec.action_type = ACTION_TYPE_CONDITION.into();
        let no_plugin = Err::<((), Why), _>(NoPlugin::NoDefault(String::new()));
        assert!(matches!(decide_start(&Action::new(object, None), no_plugin), Start::Condition));
    }

    #[test]
    fn a_malformed_action_is_rejected_unless_it_has_ended_or_is_being_deleted() {
        use aileron_action::salvage::Salvaged;
        let mut object = valid_object();
        object.spec.action_type = ACTION_TYPE_CONDITION.into();
        let start = |object: &aileron_action::TaskAction| {
            let malformed = Salvaged { object: object.clone(), message: "spec.group (odd)".into() };
            decide_start(&Action::malformed(malformed), Ok(((), Why::Declared)))
        };
        assert!(matches!(start(&object), Start::Reject(Invalid::Malformed(message)) if message == "spec.group (odd)"));
        let mut status = TaskActionStatus::default();
        status.set_condition("Failed", true, "InvalidSpec", "m", Timestamp::UNIX_EPOCH);
        object.status = Some(status);
        assert!(matches!(start(&object), Start::Label));
        object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(matches!(start(&object), Start::Abort));
    }

    #[test]
    fn an_invalid_action_is_rejected_also_if_it_is_owned() {
        let broken = |object: &mut aileron_action::TaskAction| {
            object.metadata.finalizers = Some(vec![ACTION_FINALIZER.into()]);
            object.spec.run_name.clear();
        };
        assert!(matches!(start(broken), Start::Reject(Invalid::MissingFields(_))));
        let no_plugin = Err::<((), Why), _>(NoPlugin::NoDefault("t".into()));
        let rejected = decide_start(&Action::new(valid_object(), None), no_plugin);
        assert!(matches!(rejected, Start::Reject(Invalid::NoPlugin { .. })));
    }
}
