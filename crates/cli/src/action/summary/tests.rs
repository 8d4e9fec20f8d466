#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use super::super::phase::split_words;
use super::*;

fn action(status: Value) -> TaskAction {
    serde_json::from_value(json!({
        "apiVersion": "flyte.org/v1",
        "kind": "TaskAction",
        "metadata": {"name": "a", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"runName": "r", "actionName": "a0", "project": "p", "domain": "d", "taskType": "container"},
        "status": status,
    }))
    .unwrap()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:01:30Z"})
}

#[test]
fn every_status_has_a_phase() {
    let progressing = |reason: &str| json!({"conditions": [condition("Progressing", "True", reason, "m")]});
    for (status, expected) in [
        (json!({}), DisplayPhase::Pending),
        (progressing("Queued"), DisplayPhase::Queued),
        (progressing("Initializing"), DisplayPhase::Initializing),
        (progressing("Executing"), DisplayPhase::Running),
        (progressing("RetryableFailure"), DisplayPhase::Retrying),
        (json!({"conditions": [condition("Succeeded", "True", "Completed", "")]}), DisplayPhase::Succeeded),
        (json!({"conditions": [condition("Failed", "True", "InvalidSpec", "")]}), DisplayPhase::Failed),
        (json!({"conditions": [condition("Failed", "True", "TimedOut", "")]}), DisplayPhase::TimedOut),
    ] {
        assert_eq!(Summary::new(&action(status.clone())).phase, expected, "{status}");
    }
    let mut waiting = progressing("Queued");
    waiting["pluginPhase"] = "PhaseWaitingForResources".into();
    assert_eq!(Summary::new(&action(waiting)).phase, DisplayPhase::Waiting);
    let mut deleted = action(progressing("Executing"));
    deleted.metadata.deletion_timestamp = deleted.metadata.creation_timestamp.clone();
    assert_eq!(Summary::new(&deleted).phase, DisplayPhase::Aborting);
}

#[test]
fn what_blocks_an_action_is_shown_with_its_code() {
    let blocked = |code: &str, message: &str| {
        Summary::new(&action(json!({"attempts": 1, "conditions": [
            condition("Progressing", "True", "Queued", "task submitted to K8s"),
            condition("Pending", "True", code, message),
        ]})))
    };
    let quota = blocked("Quota", "waiting for quota three-pods: requested pods=1, used pods=3, limited pods=3");
    assert_eq!(quota.phase, DisplayPhase::Waiting);
    assert_eq!(quota.explanation(), "Quota: three-pods: requested pods=1, used pods=3, limited pods=3");
    let json = quota.as_json(Timestamp::now());
    assert_eq!((&json["reason"], &json["pending"]["reason"]), (&json!("Quota"), &json!("Quota")));
    assert_eq!(json["pending"]["since"], "2026-01-01T00:01:30Z");
    assert_eq!(
        quota.aborted(Timestamp::now()).explanation(),
        "was Waiting: Quota: three-pods: requested pods=1, used \
        pods=3, limited pods=3"
    );
    assert_eq!(
        blocked("Pool", "pool matlab: all 2 tokens are taken").explanation(),
        "Pool: matlab: all 2 tokens are taken"
    );
    assert_eq!(blocked("Unschedulable", "no node takes pod p").explanation(), "Unschedulable: no node takes pod p");
    let retry = blocked("Retry", "waiting 5s before attempt 2 of 3, as the task asks for");
    assert_eq!(retry.phase, DisplayPhase::Waiting);
    assert_eq!(retry.explanation(), "Retry: waiting 5s before attempt 2 of 3, as the task asks for");
    assert_eq!(retry.as_json(Timestamp::now())["pending"]["reason"], "Retry");
    let starting = blocked("Starting", "nothing is known to be in its way");
    assert_eq!((starting.phase, starting.explanation().as_str()), (DisplayPhase::Queued, "task submitted to K8s"));
    assert_eq!(starting.as_json(Timestamp::now())["pending"]["reason"], "Starting");
}

#[test]
fn a_failure_shows_its_code_and_how_long_it_took() {
    let status = json!({
        "attempts": 3,
        "errorState": {"code": "OOMKilled", "kind": "USER", "message": "too\nmuch"},
        "conditions": [condition("Failed", "True", "PermanentFailure", "too\nmuch")],
    });
    let summary = Summary::new(&action(status));
    assert_eq!(summary.explanation(), "[OOMKilled] too much");
    assert_eq!(summary.duration(Timestamp::now()), Duration::from_secs(90));
    let json = summary.as_json(Timestamp::now());
    assert_eq!((&json["outcome"], &json["attempt"]), (&json!("Failed"), &json!(3)));
}

#[test]
fn an_exceeded_time_limit_is_an_outcome_of_its_own() {
    let message = "attempt 2 ran for 2s, the longest that the task allows, and was stopped";
    let status = json!({
        "attempts": 2,
        "errorState": {"code": "MAX_RUNTIME_EXCEEDED", "kind": "USER", "message": message},
        "conditions": [condition("Progressing", "False", "TimedOut", message), condition("Failed", "True", "TimedOut", message)],
    });
    let summary = Summary::new(&action(status));
    assert_eq!(summary.explanation(), format!("[MAX_RUNTIME_EXCEEDED] {message}"));
    let json = summary.as_json(Timestamp::now());
    assert_eq!((&json["phase"], &json["outcome"]), (&json!("TimedOut"), &json!("TimedOut")));
    assert_eq!(json["reason"], "MAX_RUNTIME_EXCEEDED");
    let word = summary.phase.as_str();
    assert_eq!((split_words(word, '-'), split_words(word, ' ')), ("timed-out".into(), "timed out".into()));
    assert!(Outcome::TimedOut.is_failure());
}

#[test]
fn a_new_attempt_shows_why_the_one_before_failed() {
    let status = json!({
        "attempts": 2,
        "errorState": {"code": "Error", "message": "exit code 3"},
        "conditions": [condition("Progressing", "True", "Executing", "")],
    });
    let summary = Summary::new(&action(status.clone()));
    assert_eq!(
        (summary.phase, summary.explanation().as_str()),
        (DisplayPhase::Running, "attempt 1: [Error] exit code 3")
    );
    let mut queued = status;
    queued["conditions"] = json!([condition("Progressing", "True", "Queued", RESTARTING)]);
    let summary = Summary::new(&action(queued));
    assert_eq!(
        (summary.phase, summary.explanation().as_str()),
        (DisplayPhase::Queued, "attempt 1: [Error] exit code 3")
    );
    let remembered = json!({
        "attempts": 2,
        "phaseHistory": [{"phase": "RetryableFailure", "occurredAt": "2026-01-01T00:00:00Z", "message": "exit code 3"}],
        "conditions": [condition("Progressing", "True", "Queued", RESTARTING)],
    });
    assert_eq!(Summary::new(&action(remembered)).explanation(), "attempt 1: exit code 3");
    let first = json!({"attempts": 1, "conditions": [condition("Progressing", "True", "Executing", "")]});
    assert_eq!(Summary::new(&action(first)).explanation(), "");
}

#[test]
fn an_action_that_has_ended_keeps_its_outcome() {
    let ended = Summary::new(&action(json!({"conditions": [condition("Succeeded", "True", "Completed", "")]})));
    assert_eq!(ended.clone().aborted(Timestamp::now()), ended);
    let running = Summary::new(&action(json!({}))).aborted(Timestamp::UNIX_EPOCH);
    assert_eq!((running.phase, running.ended), (DisplayPhase::Aborted, Some(Timestamp::UNIX_EPOCH)));
    assert_eq!(running.explanation(), "was Pending");
    let mut going = action(json!({"conditions": [condition("Progressing", "True", "Queued", "no node is free")]}));
    going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
    let going = Summary::new(&going);
    assert_eq!((going.phase, going.explanation().as_str()), (DisplayPhase::Aborting, "was Queued: no node is free"));
    assert_eq!(going.aborted(Timestamp::now()).explanation(), "was Queued: no node is free");
}
