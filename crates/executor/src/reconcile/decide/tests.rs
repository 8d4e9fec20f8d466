#![allow(clippy::unwrap_used, clippy::panic)]

use aileron_action::TaskAction;
use aileron_idl::flyteidl2::core::{RetryStrategy, TaskTemplate, TimeoutStrategy};
use aileron_machinery::{ExecutionError, PendingReason, StateWrite, StorageOutage, TaskInfo};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use prost::Message;

use super::*;
use crate::registry::Why;
use crate::services::cache::CatalogError;
use crate::storage::StorageError;

/// The second at which every action here was created and queued.
const START: i64 = 1000;

pub(in crate::reconcile) fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

/// An action with all the fields that a task needs.
pub(in crate::reconcile) fn valid_object() -> TaskAction {
    let mut object = TaskAction::new("a", Default::default());
    object.metadata.namespace = Some("ns".into());
    object.metadata.creation_timestamp = Some(Time(at(START)));
    let spec = &mut object.spec;
    for field in [&mut spec.run_name, &mut spec.project, &mut spec.domain, &mut spec.action_name, &mut spec.task_type] {
        *field = "t".into();
    }
    spec.input_uri = "s3://b/in".into();
    spec.run_output_base = "s3://b/out".into();
    spec.task_template.0 = TaskTemplate { r#type: "t".into(), ..Default::default() }.encode_to_vec();
    object
}

/// A task with this many retries and these limits, in seconds; 0 for none.
#[derive(Clone, Copy, Default)]
pub(in crate::reconcile) struct Author {
    pub(in crate::reconcile) retries: u32,
    pub(in crate::reconcile) backoff: i64,
    pub(in crate::reconcile) run: i64,
    pub(in crate::reconcile) queued: i64,
    pub(in crate::reconcile) deadline: i64,
}

impl Author {
    pub(in crate::reconcile) fn action(self, status: TaskActionStatus) -> Action {
        let backoff =
            aileron_idl::flyteidl2::core::Backoff { base: Some(seconds(self.backoff)), factor: None, cap: None };
        let metadata = TaskMetadata {
            retries: Some(RetryStrategy { retries: self.retries, backoff: Some(backoff) }),
            timeout: Some(seconds(self.run)),
            timeouts: Some(TimeoutStrategy {
                queued_timeout: Some(seconds(self.queued)),
                deadline: Some(seconds(self.deadline)),
            }),
            ..TaskMetadata::default()
        };
        let mut object = valid_object();
        object.spec.task_template.0 =
            TaskTemplate { metadata: Some(metadata), ..TaskTemplate::default() }.encode_to_vec();
        object.status = Some(status);
        Action::new(object, None)
    }
}

/// The facts of a round at this second.
pub(in crate::reconcile) fn facts<'a>(action: &'a Action, settings: &'a Settings, now: i64) -> Facts<'a> {
    Facts::gather(action, ChosenPlugin { id: "pod".into(), why: Why::Declared }, settings, at(now))
}

pub(in crate::reconcile) fn settings() -> Settings {
    Settings { max_system_failures: 2, requeue: SignedDuration::from_secs(30), ..Settings::default() }
}

pub(in crate::reconcile) fn info(second: i64) -> TaskInfo {
    TaskInfo::at(at(second))
}

/// The status of a first attempt after these phases, each at its second.
pub(in crate::reconcile) fn after(phases: &[(&PhaseInfo, i64)]) -> TaskActionStatus {
    let mut status = TaskActionStatus { attempts: 1, ..TaskActionStatus::default() };
    status.plugin_state.0 = b"state".to_vec();
    status.plugin_state_version = 1;
    for (phase, second) in phases {
        status.show_phase(phase, at(*second));
        status.plugin_phase = phase.phase().as_str().into();
    }
    status
}

pub(in crate::reconcile) fn queued() -> PhaseInfo {
    PhaseInfo::queued("task submitted to K8s", info(START))
}

pub(in crate::reconcile) fn running() -> PhaseInfo {
    PhaseInfo::running(info(START))
}

pub(in crate::reconcile) fn user_failure() -> PhaseInfo {
    PhaseInfo::retryable_failure(ExecutionError::user("Broken", "it broke"), info(START))
}

pub(in crate::reconcile) fn system_failure() -> PhaseInfo {
    PhaseInfo::retryable_failure(ExecutionError::system("Interrupted", "node lost"), info(START))
}

pub(in crate::reconcile) fn permanent_failure() -> PhaseInfo {
    PhaseInfo::permanent_failure(ExecutionError::user("Hopeless", "never"), info(START))
}

pub(in crate::reconcile) fn record(decision: Decision) -> Record {
    match decision {
        Decision::Record(record) => *record,
        other => panic!("not a record: {other:?}"),
    }
}

/// What a round at this second makes of an answer of the plugin.
fn answered(facts: &Facts<'_>, result: Result<CoreStep, PluginError>, reserved: bool) -> Decision {
    match after_plugin(facts, result, reserved) {
        ControlFlow::Break(decision) => decision,
        ControlFlow::Continue(step) => after_cache_update(facts, &step, reserved),
    }
}

fn phase(facts: &Facts<'_>, phase: PhaseInfo) -> Decision {
    answered(facts, Ok(CoreStep::of(phase)), false)
}

#[test]
fn a_phase_is_recorded_with_the_state_that_came_with_it() {
    let action = Author::default().action(after(&[(&queued(), START)]));
    let settings = settings();
    let step =
        CoreStep { phase: running(), state: Some(StateWrite { bytes: vec![7], version: 3 }), wake_at: Some(at(1500)) };
    let Record { status, phase, object, wake } = record(answered(&facts(&action, &settings, 1100), Ok(step), false));
    assert_eq!((status.plugin_state.0.as_slice(), status.plugin_state_version), (&[7_u8][..], 3));
    assert_eq!((status.plugin_phase.as_str(), phase.phase()), ("PhaseRunning", Phase::Running));
    assert_eq!(status.phase_history.last().unwrap().occurred_at.0, at(1100));
    assert_eq!((object, wake), (ObjectStep::Keep, Wake::At(at(1500))));
    let summary: serde_json::Value = serde_json::from_str(&status.state_json).unwrap();
    assert_eq!(summary, json!({"phase": "PhaseRunning", "actionId": "t/t", "timestamp": "1970-01-01T00:18:20Z"}));

    let kept = record(phase_of(&action, running(), 1100)).status;
    assert_eq!(kept.plugin_state.0, b"state", "without new state the stored one stays");
}

fn phase_of(action: &Action, answer: PhaseInfo, now: i64) -> Decision {
    let settings = settings();
    let facts = facts(action, &settings, now);
    phase(&facts, answer)
}

#[test]
fn an_answer_that_says_nothing_changes_nothing() {
    let action = Author { run: 60, ..Author::default() }.action(after(&[(&running(), START)]));
    let settings = settings();
    let facts = facts(&action, &settings, 1010);
    let limit = at(1060) + SignedDuration::from_millis(999);
    assert_eq!(phase(&facts, PhaseInfo::undefined()), Decision::Wait(Wake::At(limit)));
    let step = CoreStep { phase: PhaseInfo::undefined(), state: None, wake_at: Some(at(1020)) };
    assert_eq!(answered(&facts, Ok(step), false), Decision::Wait(Wake::At(at(1020))), "the earlier timer");
    let unlimited = Author::default().action(after(&[(&running(), START)]));
    assert_eq!(phase_of(&unlimited, PhaseInfo::undefined(), 1010), Decision::Wait(Wake::OnChange));
}

#[test]
fn an_end_waits_for_nothing_but_a_change() {
    let action = Author { run: 60, deadline: 90, ..Author::default() }.action(after(&[(&running(), START)]));
    for answer in [PhaseInfo::success(info(1010)), permanent_failure()] {
        let Record { status, object, wake, .. } = record(phase_of(&action, answer, 1010));
        assert!(status.is_terminal());
        assert_eq!((object, wake), (ObjectStep::Keep, Wake::OnChange));
    }
}

#[test]
fn a_permanent_failure_is_the_end_also_with_attempts_left() {
    let action = Author { retries: 5, ..Author::default() }.action(after(&[(&running(), START)]));
    let Record { status, phase, .. } = record(phase_of(&action, permanent_failure(), 1010));
    assert_eq!((phase.phase(), status.attempts, status.is_terminal()), (Phase::PermanentFailure, 1, true));
    assert_eq!(status.error_state.unwrap().code, "Hopeless");
}

#[test]
fn an_object_that_can_never_run_is_deleted_after_the_end_is_recorded() {
    let action = Author::default().action(after(&[(&queued(), START)]));
    let object = |answer: PhaseInfo| record(phase_of(&action, answer, 1010)).object;
    assert_eq!(object(permanent_failure().with_cleanup()), ObjectStep::DeleteAfterwards);
    assert_eq!(object(permanent_failure()), ObjectStep::Keep, "its logs may still be wanted");
    assert_eq!(object(PhaseInfo::success(info(1010)).with_cleanup()), ObjectStep::Keep);
    assert_eq!(object(running().with_cleanup()), ObjectStep::Keep);
}

#[test]
fn progress_resets_the_count_of_system_failures_and_a_relaunch_does_not() {
    let failed_twice = |phases: &[(&PhaseInfo, i64)]| TaskActionStatus { system_failures: 2, ..after(phases) };
    let initializing = PhaseInfo::initializing("pulling", info(START));
    let count = |phases: &[(&PhaseInfo, i64)], answer: PhaseInfo| {
        record(phase_of(&Author::default().action(failed_twice(phases)), answer, 1010)).status.system_failures
    };
    let ran = [(&queued(), START), (&running(), START)];
    assert_eq!(count(&[(&queued(), START)], queued()), 2, "it is queued again after a relaunch");
    assert_eq!(count(&[(&queued(), START)], initializing.clone()), 0);
    assert_eq!(count(&[(&queued(), START), (&initializing, START)], initializing.clone()), 2);
    assert_eq!(count(&[(&queued(), START)], running()), 0);
    assert_eq!(count(&ran, running()), 2, "it ran before and failed there");
    assert_eq!(count(&ran, PhaseInfo::success(info(1010))), 0);
}

#[test]
fn the_plugin_is_named_with_the_first_phase_only() {
    let settings = settings();
    let chosen = || ChosenPlugin { id: "pod".into(), why: Why::Default };
    let named = |status: TaskActionStatus| {
        let action = Author::default().action(status);
        let facts = Facts::gather(&action, chosen(), &settings, at(1010));
        let status = record(phase(&facts, running())).status;
        status.conditions.iter().any(|condition| condition.type_ == PLUGIN_CHOSEN)
    };
    assert!(named(TaskActionStatus::default()));
    assert!(!named(after(&[(&queued(), START)])));
}

#[test]
fn a_task_that_waits_for_a_missing_kind_fails_at_its_deadline() {
    let waiting = PhaseInfo::waiting_for_resources("no such kind", info(START)).because(PendingReason::MissingKind);
    let action = Author::default().action(after(&[(&waiting, START)]));
    let minute = Settings { missing_kind_timeout: SignedDuration::from_secs(60), ..settings() };
    let decided = |now: i64| record(phase(&facts(&action, &minute, now), waiting.clone()));
    assert_eq!(decided(1059).wake, Wake::At(at(1060)));
    let Record { status, phase: end, object, wake } = decided(1060);
    assert_eq!((end.error().unwrap().code.as_str(), status.is_terminal()), ("KindNotServed", true));
    assert_eq!((object, wake), (ObjectStep::Keep, Wake::Never));
    let step = CoreStep { phase: waiting.clone(), state: None, wake_at: Some(at(1030)) };
    let sooner = record(answered(&facts(&action, &minute, 1020), Ok(step), false));
    assert_eq!(sooner.wake, Wake::At(at(1030)), "the earlier timer");
}

#[test]
fn a_reservation_is_extended_while_the_task_runs() {
    let settings = settings();
    let action = Author { run: 60, ..Author::default() }.action(after(&[(&queued(), START)]));
    let wake = |now: i64, answer: PhaseInfo, reserved: bool| {
        let facts = facts(&action, &settings, now);
        match answered(&facts, Ok(CoreStep::of(answer)), reserved) {
            Decision::Wait(wake) => wake,
            other => record(other).wake,
        }
    };
    let requeue = Wake::Retry(SignedDuration::from_secs(30));
    assert_eq!(wake(1010, running(), true), requeue);
    assert_eq!(wake(1010, PhaseInfo::undefined(), true), requeue);
    assert_eq!(wake(1010, PhaseInfo::success(info(1010)), true), Wake::OnChange, "it has ended");
    let waiting = PhaseInfo::waiting_for_cache("owner", info(1010));
    assert_eq!(record(after_cache(&facts(&action, &settings, 1010), waiting)).wake, requeue);

    // A timer that expires sooner than the next extension counts.
    let running = Author { run: 60, ..Author::default() }.action(after(&[(&running(), START)]));
    let facts = facts(&running, &settings, 1050);
    let decided = answered(&facts, Ok(CoreStep::of(PhaseInfo::undefined())), true);
    assert_eq!(decided, Decision::Wait(Wake::Retry(SignedDuration::from_millis(10_999))));
}

#[test]
fn the_answer_of_the_cache_decides_whether_the_plugin_works() {
    let settings = settings();
    let hit = || CacheAnswer::Hit(PhaseInfo::success(info(1010)));
    let decided = |status: TaskActionStatus, answer| {
        let action = Author::default().action(status);
        before_plugin(&facts(&action, &settings, 1010), answer)
    };
    let with_object = after(&[(&queued(), START)]);
    let use_cache = |object_is_superfluous| {
        let phase = Box::new(PhaseInfo::success(info(1010)));
        ControlFlow::Continue(BeforePlugin::UseCache { phase, object_is_superfluous })
    };
    assert_eq!(decided(with_object.clone(), Ok(hit())), use_cache(true));
    assert_eq!(decided(TaskActionStatus::default(), Ok(hit())), use_cache(false), "nothing was created");
    let wait = PhaseInfo::waiting_for_cache("owner", info(1010));
    let decision = decided(with_object.clone(), Ok(CacheAnswer::WaitForOwner(wait.clone())));
    let expected = BeforePlugin::UseCache { phase: Box::new(wait), object_is_superfluous: false };
    assert_eq!(decision, ControlFlow::Continue(expected), "the object may still be needed");
    for reserved in [false, true] {
        let expected = ControlFlow::Continue(BeforePlugin::CallPlugin { reserved });
        assert_eq!(decided(with_object.clone(), Ok(CacheAnswer::Run { reserved })), expected);
    }
}

#[test]
fn a_cache_that_fails_is_asked_again_and_one_that_can_never_work_ends_the_action() {
    let settings = settings();
    let action = Author::default().action(after(&[(&queued(), START)]));
    let facts = facts(&action, &settings, 1010);
    let down = CacheStageError::Outputs(StorageError::BadReference { uri: "s3://b/x".into(), detail: "d".into() });
    let retry = Decision::Wait(Wake::Retry(SignedDuration::from_secs(30)));
    assert_eq!(before_plugin(&facts, Err(down)), ControlFlow::Break(retry));
    let never = CacheStageError::Unusable(ExecutionError::user("BadTaskSpecification", "no id"));
    let ControlFlow::Break(decision) = before_plugin(&facts, Err(never)) else { panic!("the plugin works") };
    let Record { status, wake, .. } = record(decision);
    assert_eq!((status.error_state.clone().unwrap().code.as_str(), wake), ("BadTaskSpecification", Wake::Never));
    assert!(status.is_terminal());
}

fn no_reservation() -> CacheStageError {
    CacheStageError::Reservation(Box::new(CatalogError::Malformed("no owner")))
}

#[test]
fn a_started_task_goes_on_without_the_cache_and_another_waits_for_its_reservation() {
    let settings = settings();
    let decided = |status: TaskActionStatus| {
        let action = Author::default().action(status);
        before_plugin(&facts(&action, &settings, 1010), Err(no_reservation()))
    };
    let goes_on = ControlFlow::Continue(BeforePlugin::CallPlugin { reserved: true });
    assert_eq!(decided(after(&[(&running(), START)])), goes_on, "its end must be seen");
    assert_eq!(decided(after(&[(&queued(), START)])), goes_on, "its object exists");
    let next_attempt = TaskActionStatus { plugin_state: ByteString::default(), ..after(&[(&queued(), START)]) };
    for not_started in [TaskActionStatus::default(), next_attempt] {
        let ControlFlow::Break(decision) = decided(not_started) else { panic!("the plugin works") };
        let Record { status, wake, .. } = record(decision);
        assert_eq!(status.pending().unwrap().reason, "Cache");
        assert!(matches!(wake, Wake::At(again) if again <= at(1015)), "{wake:?}");
    }
}

#[test]
fn an_outage_of_the_storage_is_not_charged_to_the_task() {
    let settings = settings();
    let action = Author::default().action(after(&[(&running(), START)]));
    let facts = facts(&action, &settings, 1010);
    let error = PluginError::from(StorageOutage::new("connection refused"));
    let ControlFlow::Break(decision) = after_plugin(&facts, Err(error), false) else { panic!("there is a step") };
    let Record { status, .. } = record(decision);
    assert_eq!((status.system_failures, status.pending().unwrap().reason.as_str()), (0, "Storage"));

    let source = std::io::Error::from(std::io::ErrorKind::TimedOut);
    let unwritten = StorageError::Files { action: "write", uri: "file:///x".into(), source };
    let ControlFlow::Break(decision) = before_plugin(&facts, Err(CacheStageError::Outputs(unwritten))) else {
        panic!("the plugin works")
    };
    assert_eq!(record(decision).status.pending().unwrap().reason, "Storage");
}

#[test]
fn a_cache_hit_ends_the_action_even_if_its_time_is_over() {
    let settings = settings();
    let action = Author { run: 5, ..Author::default() }.action(after(&[(&running(), START)]));
    let facts = facts(&action, &settings, 1100);
    assert!(facts.limit_check.exceeded().is_some());
    let end = record(after_cache(&facts, PhaseInfo::success(info(1100))));
    assert_eq!(end.phase.phase(), Phase::Success);
    let waiting = PhaseInfo::waiting_for_cache("owner", info(1100));
    let end = record(after_cache(&facts, waiting));
    assert_eq!(end.phase.error().unwrap().code, "MAX_RUNTIME_EXCEEDED", "waiting does not stop the clock");
}

#[test]
fn before_the_cache_is_asked_a_queued_attempt_may_be_out_of_time() {
    let settings = settings();
    let action = Author { queued: 10, ..Author::default() }.action(after(&[(&queued(), START)]));
    assert_eq!(before_cache(&facts(&action, &settings, 1010)), None);
    let Record { phase, object, .. } = record(before_cache(&facts(&action, &settings, 1011)).unwrap());
    assert_eq!(phase.error().unwrap().code, "QUEUED_TIMEOUT_EXCEEDED");
    assert_eq!(object, ObjectStep::StopFirst);
    let running = Author { run: 10, ..Author::default() }.action(after(&[(&running(), START)]));
    assert_eq!(before_cache(&facts(&running, &settings, 1100)), None, "it may have ended: the plugin tells");
}

#[test]
fn before_the_cache_is_asked_the_pause_before_a_retry_is_kept() {
    let settings = settings();
    let waiting = queued().because(PendingReason::Retry);
    let status = TaskActionStatus { attempts: 2, ..after(&[(&waiting, START)]) };
    let author = Author { retries: 3, backoff: 60, ..Author::default() };
    let action = author.action(status.clone());
    let end = at(1060) + SignedDuration::from_millis(999);
    assert_eq!(before_cache(&facts(&action, &settings, 1030)), Some(Decision::Wait(Wake::At(end))));
    assert_eq!(before_cache(&facts(&action, &settings, 1061)), None);
    let action = Author { deadline: 40, ..author }.action(status);
    let deadline = at(1040) + SignedDuration::from_millis(999);
    assert_eq!(before_cache(&facts(&action, &settings, 1030)), Some(Decision::Wait(Wake::At(deadline))));
}
