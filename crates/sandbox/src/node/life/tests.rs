use serde_json::{Value, json};

use super::*;

const BASE: Duration = Duration::from_secs(10);

fn life(policy: &str, init: &Value, main: &[&str]) -> Life {
    let main: Vec<_> = main.iter().map(|name| json!({"name": name})).collect();
    let spec = json!({"restartPolicy": policy, "initContainers": init, "containers": main});
    let metadata = json!({"name": "p", "namespace": "ns", "uid": "u"});
    Life::new(&serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap(), BASE)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn start(life: &mut Life, index: usize) {
    life.slots[index].busy = true;
    life.slots[index].created();
    life.slots[index].runs(at(0), "id".to_owned());
}

fn end(life: &mut Life, index: usize, code: i32, second: i64) {
    let (reason, id) = ("Error".to_owned(), "id".to_owned());
    life.ended(index, Ended { code, reason, message: String::new(), started: at(0), finished: at(second), id });
}

fn starts(life: &Life) -> Vec<usize> {
    life.plan(at(0)).start
}

#[test]
fn init_containers_run_in_order_before_the_others() {
    let mut life = life("Never", &json!([{"name": "a"}, {"name": "b"}]), &["c", "d"]);
    assert_eq!(starts(&life), [0]);
    start(&mut life, 0);
    assert_eq!(life.plan(at(0)), Plan::default());
    end(&mut life, 0, 0, 1);
    assert_eq!(starts(&life), [1]);
    start(&mut life, 1);
    end(&mut life, 1, 0, 1);
    assert!(life.is_initialized());
    assert_eq!(starts(&life), [2, 3]);
}

#[test]
fn a_sidecar_lets_the_next_start_once_it_runs_and_goes_last() {
    let sidecars = json!([{"name": "s", "restartPolicy": "Always"}, {"name": "t", "restartPolicy": "Always"}]);
    let mut life = life("Never", &sidecars, &["c"]);
    assert_eq!(starts(&life), [0]);
    life.slots[0].busy = true;
    assert_eq!(starts(&life), Vec::<usize>::new(), "it does not run yet");
    start(&mut life, 0);
    start(&mut life, 1);
    assert_eq!(starts(&life), [2]);
    start(&mut life, 2);
    end(&mut life, 0, 1, 1);
    assert_eq!(starts(&life), [0], "a sidecar is started again whatever the policy");
    start(&mut life, 0);
    end(&mut life, 2, 0, 1);
    assert_eq!(life.plan(at(0)), Plan { stop: vec![1], ..Plan::default() }, "in reverse order");
    life.slots[1].stopping = true;
    assert_eq!(life.plan(at(0)), Plan::default());
    end(&mut life, 1, 143, 1);
    assert_eq!(life.plan(at(0)).stop, [0]);
    life.slots[0].stopping = true;
    end(&mut life, 0, 143, 1);
    assert!(life.plan(at(0)).finished);
}

#[test]
fn policies_decide_who_starts_again() {
    for (policy, code, again) in [
        ("Never", 0, false),
        ("Never", 1, false),
        ("OnFailure", 0, false),
        ("OnFailure", 1, true),
        ("Always", 0, true),
        ("Always", 1, true),
    ] {
        let mut life = life(policy, &Value::Null, &["c"]);
        start(&mut life, 0);
        end(&mut life, 0, code, 1);
        let plan = life.plan(at(1));
        assert_eq!((!plan.start.is_empty(), plan.finished), (again, !again), "{policy} {code}");
    }
}

#[test]
fn pauses_double_from_the_second_restart_on() {
    let mut life = life("Always", &Value::Null, &["c"]);
    start(&mut life, 0);
    end(&mut life, 0, 1, 0);
    assert_eq!(life.plan(at(0)).start, [0], "the first time at once");
    start(&mut life, 0);
    end(&mut life, 0, 1, 0);
    assert_eq!(life.plan(at(0)), Plan { wake: Some(at(10)), ..Plan::default() });
    let State::Waiting(waiting) = &life.slots[0].state else { panic!("{:?}", life.slots[0].state) };
    assert_eq!(waiting.message, "back-off 10s restarting failed container=c pod=p_ns(u)");
    assert_eq!(life.plan(at(10)).start, [0]);
    start(&mut life, 0);
    end(&mut life, 0, 1, 10);
    assert_eq!(life.plan(at(10)).wake, Some(at(30)));
    start(&mut life, 0);
    end(&mut life, 0, 1, 3_600);
    assert_eq!(life.plan(at(3_600)).start, [0], "after a long run all is forgiven");
}

#[test]
fn an_init_container_that_failed_ends_the_pod_if_nothing_may_restart() {
    let mut never = life("Never", &json!([{"name": "s", "restartPolicy": "Always"}, {"name": "a"}]), &["c"]);
    start(&mut never, 0);
    start(&mut never, 1);
    end(&mut never, 1, 1, 1);
    assert_eq!(never.plan(at(1)), Plan { stop: vec![0], ..Plan::default() });
    let mut on_failure = life("OnFailure", &json!([{"name": "a"}]), &["c"]);
    start(&mut on_failure, 0);
    end(&mut on_failure, 0, 1, 1);
    assert_eq!(on_failure.plan(at(1)).start, [0]);
}

#[test]
fn what_cannot_be_made_is_tried_again_later() {
    let mut life = life("Never", &Value::Null, &["c"]);
    life.slots[0].busy = true;
    life.held_up(0, Waiting::new("ErrImagePull", "m"), Some(Waiting::new("ImagePullBackOff", "n")), at(0));
    assert_eq!(life.plan(at(0)).wake, Some(at(5)));
    assert_eq!(life.turn(at(5)), [0]);
    assert_eq!(life.slots[0].state, State::Waiting(Waiting::new("ImagePullBackOff", "n")));
    assert_eq!(life.plan(at(5)).wake, Some(at(10)));
    assert_eq!(life.plan(at(10)).start, [0]);
}

#[test]
fn at_the_end_all_is_stopped_and_nothing_started() {
    let mut life = life("Always", &Value::Null, &["c", "d"]);
    start(&mut life, 0);
    life.end();
    assert_eq!(life.plan(at(0)), Plan { stop: vec![0], ..Plan::default() });
    life.slots[0].stopping = true;
    end(&mut life, 0, 143, 1);
    assert!(life.plan(at(1)).finished);
}
