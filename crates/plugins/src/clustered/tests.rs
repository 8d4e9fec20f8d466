#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use aileron_machinery::config::{LogConfig, LogTemplate};
use aileron_machinery::testing::{pod, task};
use aileron_machinery::{ErrorKind, ObservedPhase, Phase};
use k8s_openapi::api::core::v1::{EnvVar, Pod};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::any_settings;

fn built(custom: &Value) -> JobSet {
    ClusteredPlugin.build(&task(CLUSTERED_TASK, custom)).unwrap()
}

fn set(status: &Value) -> JobSet {
    let mut set = built(&json!({"replicas": 2, "nprocPerNode": 1, "failurePolicy": {"maxRestarts": 1}}));
    set.metadata.creation_timestamp = serde_json::from_value(json!("2009-11-10T22:00:00Z")).unwrap();
    set.status = Some(serde_json::from_value(status.clone()).unwrap());
    set
}

fn phase_after(prior: &ObservedPhase, custom: &Value, status: &Value, pods: &[Arc<Pod>]) -> PhaseInfo {
    let task = task(CLUSTERED_TASK, custom);
    let cx = PhaseContext::new(&task, prior).with_pods(pods);
    ClusteredPlugin.phase(&cx, &set(status)).unwrap()
}

fn phase_of(status: &Value, pods: &[Arc<Pod>]) -> PhaseInfo {
    phase_after(&ObservedPhase::default(), &json!({}), status, pods)
}

fn workers(restarts: i32, failed: i32) -> Value {
    json!({"restarts": restarts, "replicatedJobsStatus": [{"name": "workers", "failed": failed, "active": 1}]})
}

fn condition(kind: &str, time: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "R", "message": "M", "lastTransitionTime": time})
}

fn ended(name: &str, exit_code: i32) -> Arc<Pod> {
    let container = json!({"name": "run-a0-0", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": exit_code, "reason": "Error"}}});
    pod(name, "run-a0-0", &json!({"phase": "Failed", "containerStatuses": [container]}))
}

fn alive(name: &str) -> Arc<Pod> {
    pod(name, "run-a0-0", &json!({"phase": "Running"}))
}

const RANK_ZERO: &str = "run-a0-0-workers-0-0-abcde";

#[test]
fn names_leave_room_for_those_of_pods() {
    assert_eq!(NAME_MAX_LENGTH, 41);
    assert_eq!(LONGEST_POD_SUFFIX, format!("-{WORKERS}-0-{}-abcde", MAX_REPLICAS - 1));
    let mut long = task(CLUSTERED_TASK, &json!({"replicas": 1, "nprocPerNode": 1}));
    Arc::make_mut(&mut long.metadata).id.generated_name = "n".repeat(42);
    let set = ClusteredPlugin.build(&long).unwrap();
    let name = set.metadata.name.unwrap();
    assert!(name.len() <= NAME_MAX_LENGTH);
    let job = set.spec.replicated_jobs[0].template.spec.clone().unwrap();
    assert_eq!(job.template.spec.unwrap().subdomain, Some(name), "pods are found under the set's name");
}

#[test]
fn all_ranks_start_together_and_know_their_number() {
    let set = built(&json!({"replicas": 3, "nprocPerNode": 2, "runtime": {"torchrun": {"rdzvBackend": "C10D"}},
        "failurePolicy": {"maxRestarts": 4}, "ttlSecondsAfterFinished": 9}));
    assert_eq!(set.spec.failure_policy.unwrap().max_restarts, 4);
    assert_eq!(set.spec.ttl_seconds_after_finished, Some(9));
    let job = set.spec.replicated_jobs[0].template.spec.clone().unwrap();
    assert_eq!((job.parallelism, job.completions, job.backoff_limit), (Some(3), Some(3), Some(0)));
    let env = job.template.spec.unwrap().containers.remove(0).env.unwrap();
    let value = |name: &str| env.iter().find(|variable| variable.name == name).unwrap().value.clone().unwrap();
    let values = ["NNODES", "NPROC_PER_NODE", "RDZV_BACKEND", "JOBSET_MAX_RESTARTS"].map(value);
    assert_eq!(values, ["3", "2", "c10d", "4"]);
}

#[test]
fn the_launcher_owns_its_variables() {
    let mut task = task(CLUSTERED_TASK, &json!({"replicas": 1, "nprocPerNode": 1}));
    let metadata = Arc::make_mut(&mut task.metadata);
    metadata.env_vars = [("MASTER_PORT".to_owned(), "1".to_owned())].into();
    let set = ClusteredPlugin.build(&task).unwrap();
    let job = set.spec.replicated_jobs[0].template.spec.clone().unwrap();
    let env = job.template.spec.unwrap().containers.remove(0).env.unwrap();
    let ports: Vec<&EnvVar> = env.iter().filter(|variable| variable.name == "MASTER_PORT").collect();
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0].value.as_deref(), Some("29500"));
}

#[test]
fn settings_out_of_bounds_are_refused() {
    let base = json!({"replicas": 1, "nprocPerNode": 1});
    for (field, value) in [
        ("replicas", json!(0)),
        ("replicas", json!(100_001)),
        ("nprocPerNode", json!(0)),
        ("failurePolicy", json!({"maxRestarts": -1})),
        ("ttlSecondsAfterFinished", json!(3_000_000_000_u32)),
        ("runtime", json!("x")),
    ] {
        let mut custom = base.clone();
        custom[field] = value;
        let error = ClusteredPlugin.build(&task(CLUSTERED_TASK, &custom)).unwrap_err();
        assert_eq!(error.non_retryable_code(), Some("BadTaskSpecification"), "{error}");
    }
}

#[test]
fn the_newest_condition_counts() {
    let (earlier, later) = ("2009-11-10T22:58:00Z", "2009-11-10T22:59:00Z");
    let both = |failed, completed| {
        phase_of(&json!({"conditions": [condition("Failed", failed), condition("Completed", completed)]}), &[]).phase()
    };
    assert_eq!(both(earlier, later), Phase::Success);
    assert_eq!(both(later, earlier), Phase::RetryableFailure);
    let completed = set(&json!({"conditions": [condition("Completed", later)]}));
    assert_eq!(ClusteredPlugin.ended(&completed), Some(Ended::new(Some(later.parse().unwrap()), false)));
    assert_eq!(ClusteredPlugin.ended(&set(&json!({}))), None);
}

#[test]
fn a_set_that_has_not_started_is_being_prepared_and_one_that_ran_runs() {
    assert_eq!(phase_of(&json!({}), &[]).phase(), Phase::Initializing);
    assert_eq!(phase_of(&workers(0, 0), &[]).reason(), "running (restart attempt 0)");
    let prior = ObservedPhase { phase: Phase::Running, version: 2, reason: "running (restart attempt 0)".into() };
    let restarted = phase_after(&prior, &json!({}), &json!({"restarts": 1}), &[]);
    assert_eq!((restarted.phase(), restarted.reason()), (Phase::Running, "running (restart attempt 1)"));
}

#[test]
fn a_crash_of_rank_zero_counts_when_no_restart_is_left() {
    let crashed = [ended(RANK_ZERO, 1)];
    assert_eq!(phase_of(&workers(0, 1), &crashed).phase(), Phase::Running);
    let failed = phase_of(&workers(1, 1), &crashed);
    assert_eq!((failed.phase(), failed.error().unwrap().kind), (Phase::RetryableFailure, ErrorKind::User));
    let replaced = [ended(RANK_ZERO, 1), alive("run-a0-0-workers-0-0-zzzzz")];
    assert_eq!(phase_of(&workers(1, 1), &replaced).phase(), Phase::Running, "the one that is alive counts");
    assert_eq!(phase_of(&workers(1, 1), &[ended("run-a0-0-workers-0-1-abcde", 1)]).phase(), Phase::Running);
}

#[test]
fn only_a_lost_node_is_maintenance() {
    let failed = json!({"conditions": [condition("Failed", "2009-11-10T22:59:00Z")]});
    let with = |restart: bool, exit_code: i32| {
        let custom = json!({"failurePolicy": {"restartOnHostMaintenance": restart}});
        let phase = phase_after(&ObservedPhase::default(), &custom, &failed, &[ended(RANK_ZERO, exit_code)]);
        (phase.error().unwrap().code.clone(), phase.error().unwrap().kind, phase.cleanup_on_failure())
    };
    assert_eq!(with(true, 137), ("HostMaintenance".to_owned(), ErrorKind::System, true));
    assert_eq!(with(false, 137), ("R".to_owned(), ErrorKind::User, false));
    assert_eq!(with(true, 1), ("R".to_owned(), ErrorKind::User, false));
}

#[test]
fn logs_are_those_of_every_rank_and_rank_zero_comes_first() {
    let template =
        LogTemplate { template_uris: vec!["{{.podName}}/{{.containerName}}".into()], ..LogTemplate::default() };
    let mut task = task(CLUSTERED_TASK, &Value::Null);
    task.platform.logs = Arc::new(LogConfig { templates: vec![template], ..LogConfig::default() });
    let (prior, pods) = (ObservedPhase::default(), [alive(RANK_ZERO), alive("run-a0-0-workers-0-1-abcde")]);
    let cx = PhaseContext::new(&task, &prior).with_pods(&pods);
    let phase = ClusteredPlugin.phase(&cx, &set(&workers(0, 0))).unwrap();
    let info = phase.info().unwrap();
    let links: Vec<_> = info.logs.iter().map(|link| (link.name.as_str(), link.uri.as_str())).collect();
    let expected = [("rank-0", "run-a0-0-workers-0-0/run-a0-0"), ("rank-1", "run-a0-0-workers-0-1/run-a0-0")];
    assert_eq!(links, expected);
    let context = info.log_context.clone().unwrap();
    assert_eq!((context.primary_pod_name.as_str(), context.pods.len()), (RANK_ZERO, 2));
    let without = phase_of(&workers(0, 0), &[alive("run-a0-0-workers-0-1-abcde")]);
    let context = without.info().unwrap().log_context.clone().unwrap();
    assert_eq!(context.primary_pod_name, "run-a0-0-workers-0-1-abcde");
    assert_eq!(phase_of(&workers(0, 0), &[]).info().unwrap().log_context, None);
}

proptest! {
    #[test]
    fn settings_never_crash_the_builder(mut custom in any_settings(&[
        "replicas", "nprocPerNode", "runtime", "torchrun", "rdzvBackend", "interconnect", "failurePolicy",
        "maxRestarts", "ttlSecondsAfterFinished",
    ]), valid in any::<bool>()) {
        if valid {
            custom["replicas"] = json!(2);
            custom["nprocPerNode"] = json!(2);
        }
        let _ = ClusteredPlugin.build(&task(CLUSTERED_TASK, &custom));
    }
}
