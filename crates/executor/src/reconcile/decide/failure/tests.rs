#![allow(clippy::unwrap_used, clippy::panic)]

use std::ops::ControlFlow;

use aileron_machinery::{Phase, code};
use jiff::SignedDuration;

use super::*;
use crate::reconcile::decide::tests::{
    Author, after, at, facts, info, permanent_failure, queued, record, running, settings, system_failure, user_failure,
};
use crate::reconcile::decide::{after_cache_update, after_plugin};

fn ran() -> TaskActionStatus {
    after(&[(&queued(), 1000), (&running(), 1005)])
}

/// What a round at this second makes of an answer of the plugin.
fn decided(author: Author, status: TaskActionStatus, answer: Result<PhaseInfo, PluginError>, now: i64) -> Decision {
    let (action, settings) = (author.action(status), settings());
    let facts = facts(&action, &settings, now);
    match after_plugin(&facts, answer.map(CoreStep::of), false) {
        ControlFlow::Break(decision) => decision,
        ControlFlow::Continue(step) => after_cache_update(&facts, &step, false),
    }
}

fn next_attempt(decision: Decision) -> NextAttempt {
    match decision {
        Decision::NextAttempt(next) => *next,
        other => panic!("no attempt follows: {other:?}"),
    }
}

fn system(decision: Decision) -> SystemFailure {
    match decision {
        Decision::SystemFailure(failure) => *failure,
        other => panic!("not a failure of the platform: {other:?}"),
    }
}

#[test]
fn a_failure_of_the_task_starts_the_next_attempt_at_once() {
    let author = Author { retries: 1, ..Author::default() };
    let failed = TaskActionStatus { system_failures: 2, ..ran() };
    let NextAttempt { failed, next: (status, phase), wake } =
        next_attempt(decided(author, failed, Ok(user_failure()), 1010));
    assert_eq!((status.attempts, phase.phase(), wake), (2, Phase::Queued, Wake::Now));
    assert_eq!((status.plugin_phase.as_str(), status.plugin_phase_version), ("PhaseQueued", 0));
    assert!(
        status.plugin_state.0.is_empty() && status.plugin_state_version == 0,
        "the plugin starts from the beginning"
    );
    assert_eq!(status.system_failures, 0, "the failures of the platform belong to the attempt before");
    assert!(!status.is_terminal());
    assert_eq!((failed.0.attempts, failed.1.phase()), (1, Phase::RetryableFailure), "the event of the failed attempt");
    assert_eq!(failed.0.error_state.unwrap().code, "Broken");
}

#[test]
fn without_an_attempt_left_a_failure_of_the_task_is_the_end() {
    for (retries, attempts) in [(0, 1), (2, 3), (2, 4)] {
        let author = Author { retries, ..Author::default() };
        let status = TaskActionStatus { attempts, ..ran() };
        let Record { status, phase, object, wake } = record(decided(author, status, Ok(user_failure()), 1010));
        assert_eq!((phase.phase(), wake, object), (Phase::PermanentFailure, Wake::OnChange, ObjectStep::Keep));
        assert_eq!((status.attempts, status.is_terminal()), (attempts, true));
        assert_eq!(status.error_state.unwrap().code, "Broken", "the error of the last attempt");
    }
    let author = Author { retries: 2, ..Author::default() };
    let status = TaskActionStatus { attempts: 2, ..ran() };
    assert_eq!(next_attempt(decided(author, status, Ok(user_failure()), 1010)).next.0.attempts, 3);
}

#[test]
fn the_object_of_the_last_attempt_is_deleted_only_if_its_phase_asks_for_it() {
    let object = |answer| record(decided(Author::default(), ran(), Ok(answer), 1010)).object;
    assert_eq!(object(user_failure()), ObjectStep::Keep);
    assert_eq!(object(user_failure().with_cleanup()), ObjectStep::DeleteAfterwards);
    let recorded = record(decided(Author::default(), ran(), Ok(user_failure().with_cleanup()), 1010));
    assert!(recorded.phase.cleanup_on_failure());
}

#[test]
fn the_pause_before_a_retry_is_kept_and_explained() {
    let author = Author { retries: 2, backoff: 20, ..Author::default() };
    let answer = PhaseInfo::retryable_failure(ExecutionError::user("Broken", "\nline one\nline two"), info(1010));
    let NextAttempt { next: (status, _), wake, .. } = next_attempt(decided(author, ran(), Ok(answer), 1010));
    assert_eq!(wake, Wake::At(at(1030)));
    let pending = status.pending().unwrap();
    assert_eq!(pending.reason, "Retry");
    let message =
        "waiting 20s before attempt 2 of 3, as the task asks for; the attempt before failed with Broken: line one";
    assert_eq!(pending.message, message);
    let long = "x".repeat(1000);
    let quoted = quoted(&ExecutionError::user("C", long));
    assert!(quoted.chars().count() < 200, "{quoted}");
}

#[test]
fn each_attempt_has_its_own_history_entry_where_its_queue_time_is_limited() {
    let queues = |queued_limit: i64| {
        let author = Author { retries: 1, queued: queued_limit, ..Author::default() };
        let status = after(&[(&queued(), 1000)]);
        let next = next_attempt(decided(author, status, Ok(user_failure()), 1002)).next.0;
        next.phase_history.iter().map(|entry| entry.occurred_at.0).collect::<Vec<_>>()
    };
    assert_eq!(queues(60), [at(1000), at(1002)]);
    assert_eq!(queues(0), [at(1000)]);
}

#[test]
fn a_failure_of_the_platform_uses_its_own_budget() {
    let SystemFailure { warning, stop_object, then } =
        system(decided(Author { retries: 0, ..Author::default() }, ran(), Ok(system_failure()), 1010));
    assert_eq!(warning, "Plugin \"pod\" system error: [Interrupted] node lost");
    assert!(stop_object, "the object has failed");
    let AfterSystemFailure::TryAgain { status, wake } = then else { panic!("{then:?}") };
    assert_eq!(wake, Wake::Retry(SignedDuration::from_secs(30)));
    assert_eq!((status.attempts, status.system_failures), (1, 1), "no attempt is used");
    assert!(status.plugin_state.0.is_empty() && status.plugin_state_version == 0);
    assert!(!status.is_terminal());
}

#[test]
fn an_error_of_the_plugin_call_keeps_object_and_state() {
    let SystemFailure { stop_object, then, .. } =
        system(decided(Author::default(), ran(), Err(PluginError::uncoded("the API server is away")), 1010));
    assert!(!stop_object, "nothing says that the object has failed");
    let AfterSystemFailure::TryAgain { status, .. } = then else { panic!("{then:?}") };
    assert_eq!((status.plugin_state.0.as_slice(), status.system_failures), (&b"state"[..], 1));
    assert_eq!(status.phase_history, ran().phase_history, "others see no change");
}

#[test]
fn beyond_its_budget_a_failure_of_the_platform_is_the_end() {
    for answer in [Ok(system_failure()), Err(PluginError::uncoded("away"))] {
        let is_phase = answer.is_ok();
        let survives = TaskActionStatus { system_failures: 1, ..ran() };
        let next = |status, answer| system(decided(Author { retries: 5, ..Author::default() }, status, answer, 1010));
        let again = |answer: &Result<PhaseInfo, PluginError>| match answer {
            Ok(phase) => Ok(phase.clone()),
            Err(error) => Err(PluginError::uncoded(error.to_string())),
        };
        assert!(matches!(next(survives, again(&answer)).then, AfterSystemFailure::TryAgain { .. }));
        let used_up = TaskActionStatus { system_failures: 2, ..ran() };
        let SystemFailure { stop_object, then, .. } = next(used_up, answer);
        assert_eq!(stop_object, is_phase);
        let AfterSystemFailure::Fail(end) = then else { panic!("{then:?}") };
        let Record { status, phase, object, wake } = *end;
        let error = phase.error().unwrap();
        assert_eq!((error.code.as_str(), error.kind), ("MaxSystemFailuresExceeded", ErrorKind::System));
        assert!(error.message.starts_with("plugin \"pod\" failed with system error 3 times: "), "{}", error.message);
        assert_eq!((status.is_terminal(), status.system_failures), (true, 3));
        assert_eq!((object, wake), (ObjectStep::Keep, Wake::Never));
    }
}

#[test]
fn a_budget_of_zero_means_the_default() {
    let unset = crate::reconcile::Settings { max_system_failures: 0, ..settings() };
    assert_eq!(unset.max_system_failures(), crate::reconcile::Settings::default().max_system_failures);
    let unset = crate::reconcile::Settings { requeue: SignedDuration::ZERO, ..settings() };
    assert_eq!(unset.requeue(), crate::reconcile::Settings::default().requeue);
}

#[test]
fn an_error_that_would_come_back_ends_the_action_at_once() {
    let wrapped = PluginError::caused_by("Outer", "x", PluginError::bad_task_specification("no image"));
    for error in [PluginError::bad_task_specification("no image"), wrapped] {
        let author = Author { retries: 5, ..Author::default() };
        let Record { status, phase, wake, .. } = record(decided(author, ran(), Err(error), 1010));
        let error = phase.error().unwrap();
        assert_eq!((error.code.as_str(), error.kind), (code::BAD_TASK_SPECIFICATION, ErrorKind::User));
        assert_eq!((status.is_terminal(), status.system_failures, wake), (true, 0, Wake::Never));
    }
}

#[test]
fn an_attempt_that_ran_too_long_is_retried_if_an_attempt_is_left() {
    let author = Author { retries: 1, run: 10, ..Author::default() };
    let NextAttempt { failed, next, .. } = next_attempt(decided(author, ran(), Ok(running()), 1016));
    assert!(failed.1.is_out_of_time());
    assert_eq!((failed.1.error().unwrap().code.as_str(), next.0.attempts), ("MAX_RUNTIME_EXCEEDED", 2));
    let last = TaskActionStatus { attempts: 2, ..ran() };
    let Record { status, phase, object, wake } = record(decided(author, last, Ok(running()), 1016));
    assert!(phase.is_out_of_time() && status.is_terminal());
    assert_eq!((object, wake), (ObjectStep::StopFirst, Wake::OnChange), "it still runs");
    assert_eq!(status.conditions[0].reason, "TimedOut");
}

#[test]
fn the_deadline_of_the_action_leaves_no_further_attempt() {
    let author = Author { retries: 5, deadline: 10, ..Author::default() };
    for answer in [Ok(running()), Ok(user_failure()), Ok(system_failure()), Err(PluginError::uncoded("away"))] {
        let Record { status, phase, object, .. } = record(decided(author, ran(), answer, 1011));
        assert_eq!((phase.error().unwrap().code.as_str(), phase.is_out_of_time()), ("DEADLINE_EXCEEDED", true));
        assert_eq!((object, status.attempts), (ObjectStep::StopFirst, 1));
    }
}

#[test]
fn an_attempt_that_ended_by_itself_is_not_out_of_time() {
    for author in [Author { run: 5, ..Author::default() }, Author { deadline: 5, ..Author::default() }] {
        let success = record(decided(author, ran(), Ok(PhaseInfo::success(info(1100))), 1100));
        assert!(success.phase.phase().is_success());
        let failure = record(decided(author, ran(), Ok(permanent_failure()), 1100));
        assert_eq!(failure.phase.error().unwrap().code, "Hopeless");
        assert_eq!(failure.object, ObjectStep::Keep);
    }
    let author = Author { retries: 1, run: 5, ..Author::default() };
    let failed = next_attempt(decided(author, ran(), Ok(user_failure()), 1100)).failed.1;
    assert_eq!(failed.error().unwrap().code, "Broken", "it failed before it was stopped");
    let failed = next_attempt(decided(author, ran(), Ok(system_failure()), 1100)).failed.1;
    assert_eq!(failed.error().unwrap().code, "MAX_RUNTIME_EXCEEDED", "a relaunch would have no time left");
    let failed = next_attempt(decided(author, ran(), Err(PluginError::uncoded("away")), 1100)).failed.1;
    assert_eq!(failed.error().unwrap().code, "MAX_RUNTIME_EXCEEDED", "nothing is charged to the platform");
}

#[test]
fn an_action_without_a_usable_context_ends_with_the_reason_and_keeps_the_rest_of_its_status() {
    let author = Author { retries: 5, ..Author::default() };
    for before in [TaskActionStatus::default(), ran()] {
        let (action, settings) = (author.action(before.clone()), settings());
        let facts = facts(&action, &settings, 1010);
        let error = ExecutionError::user(code::BAD_TASK_SPECIFICATION, "no template");
        let Record { status, phase, object, wake } = record(without_task_context(&facts, error.clone()));
        assert_eq!((phase.phase(), phase.error()), (Phase::PermanentFailure, Some(&error)));
        assert_eq!(status.plugin_phase, "PhasePermanentFailure");
        assert_eq!((status.attempts, &status.plugin_state), (before.attempts, &before.plugin_state));
        assert!(status.is_terminal());
        assert_eq!((object, wake), (ObjectStep::Keep, Wake::Never), "no object can be stopped without a context");
    }
}
