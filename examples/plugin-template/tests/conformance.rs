//! Everything that the executor expects of a plugin, checked by Aileron's test kit: the functions of the plugin, and tasks of
//! it in a simulated cluster in which the executor is killed, requests fail and objects disappear.
#![allow(clippy::unwrap_used)]

use aileron_machinery::Phase;
use aileron_machinery::serde_json::{Value, json};
use aileron_plugin_batch::{BatchConfig, BatchJob, BatchPlugin};
use aileron_testkit::{Conformance, Life, task};
use kube::CustomResourceExt;

/// Every n-th fault at every n-th place. With 1 the test tries all of them, which takes minutes.
const EVERY: usize = 25;

fn state(phase: &str) -> Value {
    json!({"phase": phase, "message": "4 of 4 pods"})
}

// TODO(plugin): 5b. What your operator does to a job, in the order in which it happens.
#[test]
fn the_plugin_keeps_what_the_executor_expects() {
    let started = |name: &str| Life::new(name).status(state("Running"), Phase::Running);
    let report = Conformance::of(BatchPlugin::new(BatchConfig::default()))
        .definition(BatchJob::crd())
        .task(task("batch", &json!({"parallelism": 4, "queue": "urgent"})))
        .life(started("succeeds").status(state("Succeeded"), Phase::Success))
        .life(started("fails").status(state("Failed"), Phase::RetryableFailure))
        .every(EVERY)
        .check();
    println!("{report}");
    report.assert_passed();
}
