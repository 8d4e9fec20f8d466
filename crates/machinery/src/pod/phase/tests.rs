#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
use aileron_kubekit::duration::GoDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{ErrorKind, Phase};

const NOW: &str = "2009-11-10T23:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn container(name: &str, state: Value) -> Value {
    json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

fn ended(exit_code: i32, reason: &str) -> Value {
    json!({"terminated": {"exitCode": exit_code, "reason": reason, "message": "m"}})
}

fn pod(annotations: Value, status: Value) -> Pod {
    let spec = json!({"containers": [{"name": "main"}, {"name": "side"}]});
    serde_json::from_value(
        json!({"metadata": {"name": "p", "annotations": annotations}, "spec": spec, "status": status}),
    )
    .unwrap()
}

fn phase_of(pod: &Pod, config: &K8sConfig) -> PhaseInfo {
    pod_phase(pod, config, now(), TaskInfo::at(now()))
}

fn primary() -> Value {
    json!({"primary_container_name": "main"})
}

fn failed(reason: Option<&str>, containers: &[Value]) -> (Phase, ErrorKind, String) {
    let status = json!({"phase": "Failed", "reason": reason, "containerStatuses": containers});
    let phase = phase_of(&pod(primary(), status), &K8sConfig::default());
    let error = phase.error().unwrap();
    (phase.phase(), error.kind, error.code.clone())
}

#[test]
fn a_crash_is_charged_to_the_task_also_once_the_pod_has_failed() {
    for exit_code in [1, 3, 139, 255] {
        let crash = container("main", ended(exit_code, "Error"));
        let expected = (Phase::RetryableFailure, ErrorKind::User, "Error".to_owned());
        assert_eq!(failed(None, std::slice::from_ref(&crash)), expected);
        let running = pod(primary(), json!({"phase": "Running", "containerStatuses": [crash]}));
        let phase = phase_of(&running, &K8sConfig::default());
        let error = phase.error().unwrap();
        assert_eq!((phase.phase(), error.kind, error.code.clone()), expected);
    }
    let side = [container("side", ended(1, "SideError")), container("main", ended(2, "MainError"))];
    assert_eq!(failed(None, &side).2, "MainError");
    assert_eq!(failed(None, &[container("main", ended(2, ""))]).2, "UnknownError");
}

#[test]
fn an_interruption_is_charged_to_the_platform() {
    let expected = (Phase::RetryableFailure, ErrorKind::System, "Interrupted".to_owned());
    assert_eq!(failed(None, &[]), expected);
    assert_eq!(failed(None, &[container("main", ended(137, "Error"))]), expected);
    assert_eq!(failed(None, &[container("main", ended(0, "Completed"))]), expected);
    for reason in ["Shutdown", "Terminated", "NodeShutdown", "NodeAffinity"] {
        assert_eq!(failed(Some(reason), &[container("main", ended(1, "Error"))]), expected);
    }
}

#[test]
fn what_the_pod_says_itself_comes_first() {
    let user = |code: &str| (Phase::RetryableFailure, ErrorKind::User, code.to_owned());
    assert_eq!(failed(Some("Evicted"), &[container("main", ended(1, "Error"))]), user("Evicted"));
    assert_eq!(failed(Some("Evicted"), &[container("main", ended(137, "OOMKilled"))]), user("OOMKilled"));
    assert_eq!(failed(None, &[container("side", ended(137, "Error"))]), user("Interrupted"));
}

#[test]
fn trouble_gets_a_grace_period_and_then_asks_for_cleanup() {
    let config = K8sConfig { image_pull_backoff_grace_period: GoDuration::from_secs(60), ..K8sConfig::default() };
    let waiting = |since: &str, message: &str| {
        let state = json!({"waiting": {"reason": "ImagePullBackOff", "message": message}});
        let condition =
            json!({"type": "Ready", "status": "False", "reason": "R", "message": "M", "lastTransitionTime": since});
        let status =
            json!({"phase": "Pending", "conditions": [condition], "containerStatuses": [container("main", state)]});
        phase_of(&pod(primary(), status), &config)
    };
    let young = waiting("2009-11-10T22:59:01Z", "no");
    assert_eq!((young.phase(), young.reason()), (Phase::Initializing, "[R|ImagePullBackOff]: M|no"));
    let old = waiting("2009-11-10T22:59:00Z", "no");
    assert_eq!((old.phase(), old.cleanup_on_failure()), (Phase::RetryableFailure, true));
    let error = old.error().unwrap();
    assert_eq!((error.kind, error.code.as_str()), (ErrorKind::User, "R|ImagePullBackOff"));
    assert_eq!(error.message, "Grace period [1m0s] exceeded|M|no");
    let limited = waiting("2009-11-10T22:59:00Z", "429 Too Many Requests");
    assert_eq!(limited.error().unwrap().kind, ErrorKind::System);
}

#[test]
fn waiting_for_a_node_ends_with_the_pending_timeout() {
    let config = K8sConfig { pod_pending_timeout: GoDuration::from_secs(60), ..K8sConfig::default() };
    let pending = |since: &str, config: &K8sConfig| {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full",
            "lastTransitionTime": since});
        phase_of(&pod(json!({}), json!({"phase": "Pending", "conditions": [condition]})), config)
    };
    assert_eq!(pending("2009-11-10T22:00:00Z", &K8sConfig::default()).phase(), Phase::Queued);
    assert_eq!(pending("2009-11-10T22:59:30Z", &config).reason(), "Unschedulable:full");
    let late = pending("2009-11-10T22:00:00Z", &config);
    let error = late.error().unwrap();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("PodPendingTimeout", "Unschedulable:full"));
    assert!(late.cleanup_on_failure());
}

#[test]
fn without_a_primary_container_all_must_end_well() {
    let status = |side: Value| {
        let containers = [container("main", ended(0, "Completed")), container("side", side)];
        json!({"phase": "Running", "containerStatuses": containers})
    };
    let config = K8sConfig::default();
    assert_eq!(phase_of(&pod(json!({}), status(json!({"running": {}}))), &config).phase(), Phase::Running);
    assert_eq!(phase_of(&pod(json!({}), status(ended(1, "Error"))), &config).phase(), Phase::Running);
    assert_eq!(phase_of(&pod(json!({}), status(ended(0, "Completed"))), &config).phase(), Phase::Success);
    assert_eq!(phase_of(&pod(primary(), status(json!({"running": {}}))), &config).phase(), Phase::Success);
}

fn any_text() -> impl Strategy<Value = Value> {
    let texts = [
        "",
        "Error",
        "OOMKilled",
        "ImagePullBackOff",
        "CreateContainerError",
        "PodInitializing",
        "Evicted",
        "Shutdown",
    ];
    prop_oneof![Just(Value::Null), prop::sample::select(texts.to_vec()).prop_map(|text| json!(text))]
}

fn any_time() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (0..4_000_000_000_i64).prop_map(|s| json!(Timestamp::from_second(s).unwrap().to_string()))
    ]
}

fn any_state() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        (any_text(), any_text())
            .prop_map(|(reason, message)| json!({"waiting": {"reason": reason, "message": message}})),
        any_time().prop_map(|at| json!({"running": {"startedAt": at}})),
        (prop::sample::select(vec![0, 1, 137, 247, -9, i32::MIN]), any_text(), any_time(), any_time()).prop_map(
            |(code, reason, start, end)| {
                json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": start, "finishedAt": end}})
            }
        ),
    ]
}

fn any_containers() -> impl Strategy<Value = Value> {
    let one = (prop::sample::select(vec!["main", "side", ""]), any::<bool>(), any_state(), any_state()).prop_map(
        |(name, ready, state, last)| {
            json!({"name": name, "image": "", "imageID": "", "ready": ready, "restartCount": 0, "state": state,
                "lastState": last})
        },
    );
    prop::collection::vec(one, 0..3).prop_map(Value::from)
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let condition = (
        prop::sample::select(vec!["PodScheduled", "Ready", "Unschedulable", "Initialized", ""]),
        prop::sample::select(vec!["True", "False", "Unknown"]),
        any_text(),
        any_time(),
    )
        .prop_map(|(kind, status, reason, at)| {
            json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": at})
        });
    let phases = vec!["Pending", "Running", "Succeeded", "Failed", "Unknown", "Unschedulable", ""];
    (
        prop::sample::select(phases),
        prop::collection::vec(condition, 0..4),
        any_containers(),
        any_containers(),
        any_containers(),
        any_text(),
        prop::sample::select(vec![json!({}), json!({"primary_container_name": "main"})]),
    )
        .prop_map(|(phase, conditions, init, main, ephemeral, reason, annotations)| {
            pod(
                annotations,
                json!({"phase": phase, "reason": reason, "conditions": conditions, "initContainerStatuses": init,
                    "containerStatuses": main, "ephemeralContainerStatuses": ephemeral}),
            )
        })
}

proptest! {
    /// Whatever a cluster says about a pod, there is an answer, and it is sound.
    #[test]
    fn every_status_has_a_phase(pod in any_pod(), timeout in 0..100_i64) {
        let config = K8sConfig { pod_pending_timeout: GoDuration::from_secs(timeout), ..K8sConfig::default() };
        let phase = phase_of(&pod, &config);
        prop_assert_eq!(phase.error().is_some(), phase.phase().is_failure());
        prop_assert_eq!(phase.info().is_none(), phase.phase() == Phase::Undefined);
        prop_assert!(!phase.cleanup_on_failure() || phase.phase().is_failure());
        prop_assert!(!is_terminal(&pod) || phase.phase().is_terminal());
        // Only what never started has to be cleaned up; what ran ends by itself.
        let pending = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending");
        prop_assert!(!phase.cleanup_on_failure() || pending);
        let _ = (is_ready(&pod), super::super::times::completed_at(&pod), super::super::log_context::log_context(&pod));
    }
}
