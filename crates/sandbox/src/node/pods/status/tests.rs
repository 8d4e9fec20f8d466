use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::node::containers::state::Waiting;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn lifecycle(policy: &str, init: usize, main: usize) -> Lifecycle {
    let named = |prefix: &str, count| -> Vec<Value> {
        (0..count).map(|number| json!({"name": format!("{prefix}{number}"), "image": "i"})).collect()
    };
    let (init, main) = (named("i", init), named("c", main));
    let spec = json!({"restartPolicy": policy, "initContainers": init, "containers": main});
    Lifecycle::new(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap(), Duration::from_secs(1))
}

fn terminated_with(code: i32) -> RunState {
    let (reason, message) = ("Error".to_owned(), String::new());
    RunState::Terminated(Termination { code, reason, message, started: at(1), finished: at(2), id: "id".to_owned() })
}

fn running() -> RunState {
    RunState::Running { since: at(1), id: "id".to_owned() }
}

/// A pod whose containers have these states. Containers that run or have terminated were created once.
fn with_states(policy: &str, init: usize, states: &[RunState]) -> Lifecycle {
    let mut lifecycle = lifecycle(policy, init, states.len() - init);
    for (container, state) in lifecycle.containers.iter_mut().zip(states) {
        container.creations = u32::from(!matches!(state, RunState::Waiting(_)));
        container.active = matches!(state, RunState::Running { .. });
        container.state = state.clone();
    }
    lifecycle
}

fn waiting() -> RunState {
    RunState::Waiting(Waiting::new("ContainerCreating", ""))
}

#[test]
fn the_phase_follows_from_the_containers() {
    for (policy, states, expected) in [
        ("Never", vec![waiting()], PodPhase::Pending),
        ("Never", vec![running()], PodPhase::Running),
        ("Never", vec![running(), waiting()], PodPhase::Pending),
        ("Never", vec![running(), terminated_with(1)], PodPhase::Running),
        ("Never", vec![terminated_with(0), terminated_with(0)], PodPhase::Succeeded),
        ("Never", vec![terminated_with(0), terminated_with(3)], PodPhase::Failed),
        ("OnFailure", vec![terminated_with(0), terminated_with(3)], PodPhase::Running),
        ("OnFailure", vec![terminated_with(0)], PodPhase::Succeeded),
        ("Always", vec![terminated_with(0)], PodPhase::Running),
    ] {
        assert_eq!(phase(&with_states(policy, 0, &states), None), expected, "{policy} {states:?}");
    }
}

#[test]
fn the_phase_waits_for_init_containers() {
    for (policy, states, expected) in [
        ("Never", [running(), waiting()], PodPhase::Pending),
        ("Never", [terminated_with(0), waiting()], PodPhase::Pending),
        ("Never", [terminated_with(0), running()], PodPhase::Running),
        ("Never", [terminated_with(1), waiting()], PodPhase::Failed),
        ("OnFailure", [terminated_with(1), waiting()], PodPhase::Pending),
    ] {
        assert_eq!(phase(&with_states(policy, 1, &states), None), expected, "{policy} {states:?}");
    }
}

#[test]
fn a_pod_has_not_ended_while_a_container_runs() {
    let mut lifecycle = with_states("Never", 1, &[running(), terminated_with(0)]);
    lifecycle.containers[0].role = Role::Sidecar;
    assert_eq!(phase(&lifecycle, None), PodPhase::Running, "a sidecar still runs");
    lifecycle.containers[0].active = false;
    lifecycle.containers[0].state = terminated_with(143);
    assert_eq!(phase(&lifecycle, None), PodPhase::Succeeded, "the exit code of a sidecar does not matter");

    let failure = PodFailure { reason: "DeadlineExceeded".to_owned(), message: "m".to_owned() };
    assert_eq!(phase(&with_states("Never", 0, &[running()]), Some(&failure)), PodPhase::Running);
    assert_eq!(phase(&with_states("Never", 0, &[terminated_with(0)]), Some(&failure)), PodPhase::Failed);
}

#[test]
fn the_phase_of_a_deleted_pod_follows_from_its_containers() {
    for (states, expected) in [
        (vec![terminated_with(0)], PodPhase::Succeeded),
        (vec![terminated_with(143)], PodPhase::Failed),
        (vec![waiting()], PodPhase::Failed),
    ] {
        let mut lifecycle = with_states("Always", 0, &states);
        lifecycle.end();
        assert_eq!(phase(&lifecycle, None), expected, "{states:?}");
    }
}

#[test]
fn a_container_that_waits_for_a_restart_counts_as_terminated() {
    let mut lifecycle = with_states("OnFailure", 0, &[terminated_with(1)]);
    let RunState::Terminated(last) = lifecycle.containers[0].state.clone() else { panic!("it has terminated") };
    lifecycle.containers[0].last = Some(last);
    lifecycle.containers[0].state = RunState::Waiting(Waiting::new("CrashLoopBackOff", "m"));
    assert_eq!(phase(&lifecycle, None), PodPhase::Running);
    let status = status(&lifecycle, None, &PodStatus::default(), at(5));
    let status = serde_json::to_value(&status.container_statuses.unwrap()[0]).unwrap();
    assert_eq!(status["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
}

#[test]
fn conditions_keep_the_time_of_their_last_change() {
    let brief = |status: &PodStatus| -> Vec<String> {
        let conditions = status.conditions.as_ref().unwrap();
        let one = |known: &PodCondition| {
            let reason = known.reason.as_deref().unwrap_or("-");
            let time = known.last_transition_time.as_ref().unwrap().0.as_second() - 1_000_000;
            format!("{} {} {reason} {time}", known.type_, known.status)
        };
        conditions.iter().map(one).collect()
    };
    let first = status(&with_states("Never", 1, &[running(), waiting()]), None, &PodStatus::default(), at(1));
    assert_eq!(
        brief(&first),
        [
            "PodScheduled True - 1",
            "Initialized False ContainersNotInitialized 1",
            "ContainersReady False ContainersNotReady 1",
            "Ready False ContainersNotReady 1",
        ]
    );
    let message = first.conditions.as_ref().unwrap()[1].message.as_deref();
    assert_eq!(message, Some("containers with incomplete status: [i0]"));
    let second = status(&with_states("Never", 1, &[terminated_with(0), running()]), None, &first, at(2));
    assert_eq!(
        brief(&second),
        ["PodScheduled True - 1", "Initialized True - 2", "ContainersReady True - 2", "Ready True - 2",]
    );
    let third = status(&with_states("Never", 1, &[terminated_with(0), terminated_with(0)]), None, &second, at(3));
    assert_eq!(
        brief(&third),
        [
            "PodScheduled True - 1",
            "Initialized True PodCompleted 2",
            "ContainersReady False PodCompleted 3",
            "Ready False PodCompleted 3",
        ]
    );
    assert_eq!(third.start_time, first.start_time);
}
