use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::node::life::Waiting;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn life(policy: &str, init: usize, main: usize) -> Life {
    let named = |prefix: &str, count| -> Vec<Value> {
        (0..count).map(|number| json!({"name": format!("{prefix}{number}"), "image": "i"})).collect()
    };
    let (init, main) = (named("i", init), named("c", main));
    let spec = json!({"restartPolicy": policy, "initContainers": init, "containers": main});
    Life::new(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap(), Duration::from_secs(1))
}

fn ended(code: i32) -> State {
    let (reason, message) = ("Error".to_owned(), String::new());
    State::Ended(Ended { code, reason, message, started: at(1), finished: at(2), id: "id".to_owned() })
}

fn running() -> State {
    State::Running { since: at(1), id: "id".to_owned() }
}

/// A life in which the containers stand so; those that run or ended were made once.
fn standing(policy: &str, init: usize, states: &[State]) -> Life {
    let mut life = life(policy, init, states.len() - init);
    for (slot, state) in life.slots.iter_mut().zip(states) {
        slot.lives = u32::from(!matches!(state, State::Waiting(_)));
        slot.busy = matches!(state, State::Running { .. });
        slot.state = state.clone();
    }
    life
}

fn waits() -> State {
    State::Waiting(Waiting::new("ContainerCreating", ""))
}

#[test]
fn the_phase_follows_from_the_containers() {
    for (policy, states, expected) in [
        ("Never", vec![waits()], Phase::Pending),
        ("Never", vec![running()], Phase::Running),
        ("Never", vec![running(), waits()], Phase::Pending),
        ("Never", vec![running(), ended(1)], Phase::Running),
        ("Never", vec![ended(0), ended(0)], Phase::Succeeded),
        ("Never", vec![ended(0), ended(3)], Phase::Failed),
        ("OnFailure", vec![ended(0), ended(3)], Phase::Running),
        ("OnFailure", vec![ended(0)], Phase::Succeeded),
        ("Always", vec![ended(0)], Phase::Running),
    ] {
        assert_eq!(phase(&standing(policy, 0, &states), None), expected, "{policy} {states:?}");
    }
}

#[test]
fn the_phase_waits_for_init_containers() {
    for (policy, states, expected) in [
        ("Never", [running(), waits()], Phase::Pending),
        ("Never", [ended(0), waits()], Phase::Pending),
        ("Never", [ended(0), running()], Phase::Running),
        ("Never", [ended(1), waits()], Phase::Failed),
        ("OnFailure", [ended(1), waits()], Phase::Pending),
    ] {
        assert_eq!(phase(&standing(policy, 1, &states), None), expected, "{policy} {states:?}");
    }
}

#[test]
fn a_pod_is_not_over_while_something_runs() {
    let mut life = standing("Never", 1, &[running(), ended(0)]);
    life.slots[0].role = Role::Sidecar;
    assert_eq!(phase(&life, None), Phase::Running, "a sidecar still runs");
    life.slots[0].busy = false;
    life.slots[0].state = ended(143);
    assert_eq!(phase(&life, None), Phase::Succeeded, "how a sidecar ends does not matter");

    let verdict = Verdict { reason: "DeadlineExceeded".to_owned(), message: "m".to_owned() };
    assert_eq!(phase(&standing("Never", 0, &[running()]), Some(&verdict)), Phase::Running);
    assert_eq!(phase(&standing("Never", 0, &[ended(0)]), Some(&verdict)), Phase::Failed);
}

#[test]
fn a_deleted_pod_ends_as_its_containers_did() {
    for (states, expected) in
        [(vec![ended(0)], Phase::Succeeded), (vec![ended(143)], Phase::Failed), (vec![waits()], Phase::Failed)]
    {
        let mut life = standing("Always", 0, &states);
        life.end();
        assert_eq!(phase(&life, None), expected, "{states:?}");
    }
}

#[test]
fn a_container_between_two_lives_counts_as_stopped() {
    let mut life = standing("OnFailure", 0, &[ended(1)]);
    let State::Ended(last) = life.slots[0].state.clone() else { panic!("it ended") };
    life.slots[0].last = Some(last);
    life.slots[0].state = State::Waiting(Waiting::new("CrashLoopBackOff", "m"));
    assert_eq!(phase(&life, None), Phase::Running);
    let status = status(&life, None, &PodStatus::default(), at(5));
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
    let first = status(&standing("Never", 1, &[running(), waits()]), None, &PodStatus::default(), at(1));
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
    let second = status(&standing("Never", 1, &[ended(0), running()]), None, &first, at(2));
    assert_eq!(
        brief(&second),
        ["PodScheduled True - 1", "Initialized True - 2", "ContainersReady True - 2", "Ready True - 2",]
    );
    let third = status(&standing("Never", 1, &[ended(0), ended(0)]), None, &second, at(3));
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
