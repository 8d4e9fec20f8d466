use serde_json::{Value, json};

use super::*;

const BASE: Duration = Duration::from_secs(10);

fn lifecycle(policy: &str, init: &Value, main: &[&str]) -> Lifecycle {
    let main: Vec<_> = main.iter().map(|name| json!({"name": name})).collect();
    let spec = json!({"restartPolicy": policy, "initContainers": init, "containers": main});
    let metadata = json!({"name": "p", "namespace": "ns", "uid": "u"});
    Lifecycle::new(&serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap(), BASE)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn start(life: &mut Lifecycle, index: usize) {
    life.containers[index].active = true;
    life.containers[index].created();
    life.containers[index].started(at(0), "id".to_owned());
}

fn end(life: &mut Lifecycle, index: usize, code: i32, second: i64) {
    let (reason, id) = ("Error".to_owned(), "id".to_owned());
    life.terminated(
        index,
        Termination { code, reason, message: String::new(), started: at(0), finished: at(second), id },
    );
}

fn starts(life: &Lifecycle) -> Vec<usize> {
    life.next_actions(at(0)).start
}

#[test]
fn init_containers_run_in_order_before_the_main_containers() {
    let mut life = lifecycle("Never", &json!([{"name": "a"}, {"name": "b"}]), &["c", "d"]);
    assert_eq!(starts(&life), [0]);
    start(&mut life, 0);
    assert_eq!(life.next_actions(at(0)), Actions::default());
    end(&mut life, 0, 0, 1);
    assert_eq!(starts(&life), [1]);
    start(&mut life, 1);
    end(&mut life, 1, 0, 1);
    assert!(life.is_initialized());
    assert_eq!(starts(&life), [2, 3]);
}

#[test]
fn a_sidecar_lets_the_next_container_start_once_it_runs_and_stops_last() {
    let sidecars = json!([{"name": "s", "restartPolicy": "Always"}, {"name": "t", "restartPolicy": "Always"}]);
    let mut life = lifecycle("Never", &sidecars, &["c"]);
    assert_eq!(starts(&life), [0]);
    life.containers[0].active = true;
    assert_eq!(starts(&life), Vec::<usize>::new(), "the sidecar does not run yet");
    start(&mut life, 0);
    start(&mut life, 1);
    assert_eq!(starts(&life), [2]);
    start(&mut life, 2);
    end(&mut life, 0, 1, 1);
    assert_eq!(starts(&life), [0], "a sidecar is restarted under every policy");
    start(&mut life, 0);
    end(&mut life, 2, 0, 1);
    assert_eq!(life.next_actions(at(0)), Actions { stop: vec![1], ..Actions::default() }, "in reverse order");
    life.containers[1].stopping = true;
    assert_eq!(life.next_actions(at(0)), Actions::default());
    end(&mut life, 1, 143, 1);
    assert_eq!(life.next_actions(at(0)).stop, [0]);
    life.containers[0].stopping = true;
    end(&mut life, 0, 143, 1);
    assert!(life.next_actions(at(0)).finished);
}

#[test]
fn the_restart_policy_decides_whether_a_container_starts_again() {
    for (policy, code, again) in [
        ("Never", 0, false),
        ("Never", 1, false),
        ("OnFailure", 0, false),
        ("OnFailure", 1, true),
        ("Always", 0, true),
        ("Always", 1, true),
    ] {
        let mut life = lifecycle(policy, &Value::Null, &["c"]);
        start(&mut life, 0);
        end(&mut life, 0, code, 1);
        let actions = life.next_actions(at(1));
        assert_eq!((!actions.start.is_empty(), actions.finished), (again, !again), "{policy} {code}");
    }
}

#[test]
fn delays_double_from_the_second_restart_on() {
    let mut life = lifecycle("Always", &Value::Null, &["c"]);
    start(&mut life, 0);
    end(&mut life, 0, 1, 0);
    assert_eq!(life.next_actions(at(0)).start, [0], "no delay after the first crash");
    start(&mut life, 0);
    end(&mut life, 0, 1, 0);
    assert_eq!(life.next_actions(at(0)), Actions { wake_at: Some(at(10)), ..Actions::default() });
    let RunState::Waiting(waiting) = &life.containers[0].state else { panic!("{:?}", life.containers[0].state) };
    assert_eq!(waiting.message, "back-off 10s restarting failed container=c pod=p_ns(u)");
    assert_eq!(life.next_actions(at(10)).start, [0]);
    start(&mut life, 0);
    end(&mut life, 0, 1, 10);
    assert_eq!(life.next_actions(at(10)).wake_at, Some(at(30)));
    start(&mut life, 0);
    end(&mut life, 0, 1, 3_600);
    assert_eq!(life.next_actions(at(3_600)).start, [0], "the crash count is reset after a long run");
}

#[test]
fn a_failed_init_container_ends_the_pod_unless_it_may_restart() {
    let mut never = lifecycle("Never", &json!([{"name": "s", "restartPolicy": "Always"}, {"name": "a"}]), &["c"]);
    start(&mut never, 0);
    start(&mut never, 1);
    end(&mut never, 1, 1, 1);
    assert_eq!(never.next_actions(at(1)), Actions { stop: vec![0], ..Actions::default() });
    let mut on_failure = lifecycle("OnFailure", &json!([{"name": "a"}]), &["c"]);
    start(&mut on_failure, 0);
    end(&mut on_failure, 0, 1, 1);
    assert_eq!(on_failure.next_actions(at(1)).start, [0]);
}

#[test]
fn a_container_that_could_not_be_created_is_retried() {
    let mut life = lifecycle("Never", &Value::Null, &["c"]);
    life.containers[0].active = true;
    life.not_created(0, Waiting::new("ErrImagePull", "m"), Some(Waiting::new("ImagePullBackOff", "n")), at(0));
    assert_eq!(life.next_actions(at(0)).wake_at, Some(at(5)));
    assert_eq!(life.begin_due_backoffs(at(5)), [0]);
    assert_eq!(life.containers[0].state, RunState::Waiting(Waiting::new("ImagePullBackOff", "n")));
    assert_eq!(life.next_actions(at(5)).wake_at, Some(at(10)));
    assert_eq!(life.next_actions(at(10)).start, [0]);
}

#[test]
fn when_the_pod_ends_all_containers_stop_and_none_starts() {
    let mut life = lifecycle("Always", &Value::Null, &["c", "d"]);
    start(&mut life, 0);
    life.end();
    assert_eq!(life.next_actions(at(0)), Actions { stop: vec![0], ..Actions::default() });
    life.containers[0].stopping = true;
    end(&mut life, 0, 143, 1);
    assert!(life.next_actions(at(1)).finished);
}
