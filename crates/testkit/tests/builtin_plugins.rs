//! Every built-in plugin keeps what the executor expects of a plugin.
//!
//! To keep `make test` short, each plugin meets every n-th fault at every n-th place; `AILERON_CONFORMANCE_EVERY=1` tries all.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use aileron_idl::flyteidl2::core::{
    Literal, LiteralMap, LiteralType, Primitive, Scalar, SimpleType, TaskTemplate, TypedInterface, Variable,
    VariableEntry, VariableMap, literal, literal_type, primitive, scalar,
};
use aileron_machinery::serde_json::{Value, json};
use aileron_machinery::{ObjectPlugin, Phase, SectionValues, TaskContext};
use aileron_testkit::{Conformance, Life, NOW, task};

/// Divides the number of faults. It has no common factor with the number of faults at a place, so that all kinds of faults
/// are met.
const EVERY: usize = 41;

fn every() -> usize {
    std::env::var("AILERON_CONFORMANCE_EVERY").ok().and_then(|text| text.parse().ok()).unwrap_or(EVERY)
}

fn plugin(id: &str) -> Arc<dyn ObjectPlugin> {
    let plugins = aileron_plugins::builtin().build(&SectionValues::default()).unwrap();
    plugins.k8s().iter().find(|plugin| &*plugin.entry().id == id).unwrap().clone()
}

/// A task whose settings have the form of this version of the task type.
fn versioned(task_type: &str, version: i32, custom: &Value) -> TaskContext {
    let mut task = task(task_type, custom);
    let template = TaskTemplate { task_type_version: version, ..(*task.template).clone() };
    task.template = template.into();
    task
}

fn check(id: &str, task: TaskContext, lives: impl IntoIterator<Item = Life>) {
    let conformance = Conformance::of_object_plugin(plugin(id)).task(task).every(every());
    let report = lives.into_iter().fold(conformance, Conformance::life).check();
    println!("{report}");
    report.assert_passed();
}

#[test]
fn pods() {
    check("pod", task("container", &Value::Null), [Life::pod_succeeds(), Life::pod_fails()]);
}

#[test]
fn spark() {
    let custom = json!({"applicationType": "PYTHON", "mainApplicationFile": "local:///app/main.py"});
    let state = |state: &str| json!({"applicationState": {"state": state, "errorMessage": "m"}});
    let started = |name: &str| {
        Life::new(name).status(state("SUBMITTED"), Phase::Initializing).status(state("RUNNING"), Phase::Running)
    };
    let succeeds = started("succeeds").status(state("SUCCEEDING"), Phase::Running);
    let succeeds = succeeds.status(state("COMPLETED"), Phase::Success);
    let fails = started("fails").status(state("FAILED"), Phase::RetryableFailure);
    check("spark", task("spark", &custom), [succeeds, fails]);
}

#[test]
fn ray() {
    let custom = json!({"rayCluster": {"headGroupSpec": {}, "workerGroupSpec": [{"groupName": "g", "replicas": 2}]}});
    let status = |state: &str, reason: &str| json!({"jobDeploymentStatus": state, "rayClusterName": "c", "jobId": "j", "reason": reason, "message": "m"});
    let started = |name: &str| {
        let life = Life::new(name).status(status("Initializing", ""), Phase::Initializing);
        life.status(status("Running", ""), Phase::Running)
    };
    let succeeds = started("succeeds").status(status("Complete", ""), Phase::Success);
    let fails = started("fails").status(status("Failed", "AppFailed"), Phase::PermanentFailure);
    let lost = status("Failed", "JobDeploymentStatusTransitionGracePeriodExceeded");
    let lost = started("the operator loses the job").status(lost, Phase::RetryableFailure);
    check("ray", task("ray", &custom), [succeeds, fails, lost]);
}

#[test]
fn dask() {
    let started = |name: &str| {
        Life::new(name)
            .status(json!({"jobStatus": "JobCreated"}), Phase::Initializing)
            .status(json!({"jobStatus": "ClusterCreated"}), Phase::Initializing)
            .status(json!({"jobStatus": "Running", "jobRunnerPodName": "r"}), Phase::Running)
    };
    let succeeds = started("succeeds").status(json!({"jobStatus": "Successful"}), Phase::Success);
    let fails = started("fails").status(json!({"jobStatus": "Failed"}), Phase::RetryableFailure);
    check("dask", task("dask", &json!({"workers": {"numberOfWorkers": 2}})), [succeeds, fails]);
}

#[test]
fn pytorch() {
    let custom = json!({"masterReplicas": {"replicas": 1}, "workerReplicas": {"replicas": 2}});
    check("pytorch", versioned("pytorch", 1, &custom), training_lives());
}

#[test]
fn tensorflow() {
    let custom = json!({"chiefReplicas": {"replicas": 1}, "workerReplicas": {"replicas": 2}});
    check("tensorflow", versioned("tensorflow", 1, &custom), training_lives());
}

#[test]
fn mpi() {
    let custom = json!({"launcherReplicas": {"replicas": 1}, "workerReplicas": {"replicas": 2}});
    check("mpi", versioned("mpi", 1, &custom), training_lives());
}

/// What the training operator reports of its jobs.
fn training_lives() -> [Life; 2] {
    let condition = |kind: &str, status: &str, second: u8| {
        json!({"type": kind, "status": status, "reason": "R", "message": "m",
            "lastTransitionTime": format!("2009-11-10T22:59:{second:02}Z")})
    };
    let created = condition("Created", "True", 1);
    let running = json!({"startTime": NOW, "conditions": [created, condition("Running", "True", 2)]});
    let ended = |kind: &str| {
        let conditions = [created.clone(), condition("Running", "False", 3), condition(kind, "True", 3)];
        json!({"startTime": NOW, "completionTime": NOW, "conditions": conditions})
    };
    let started = |name: &str| {
        let life = Life::new(name).status(json!({"startTime": NOW, "conditions": [created.clone()]}), Phase::Queued);
        life.status(running.clone(), Phase::Running)
    };
    [
        started("succeeds").status(ended("Succeeded"), Phase::Success),
        started("fails").status(ended("Failed"), Phase::RetryableFailure),
    ]
}

#[test]
fn clustered() {
    let custom = json!({"nprocPerNode": 4, "replicas": 2, "failurePolicy": {"maxRestarts": 1}});
    let jobs = |active: u8| json!([{"name": "workers", "ready": active, "active": active}]);
    let condition = |kind: &str, second: u8| {
        json!({"type": kind, "status": "True", "reason": "R", "message": "m",
            "lastTransitionTime": format!("2009-11-10T22:59:{second:02}Z")})
    };
    let started = |name: &str| {
        let life = Life::new(name).status(json!({"replicatedJobsStatus": jobs(0)}), Phase::Initializing);
        let life = life.status(json!({"replicatedJobsStatus": jobs(2)}), Phase::Running);
        life.status(json!({"restarts": 1, "replicatedJobsStatus": jobs(2)}), Phase::Running)
    };
    let ended =
        |kind: &str| json!({"restarts": 1, "replicatedJobsStatus": jobs(0), "conditions": [condition(kind, 5)]});
    let succeeds = started("succeeds after a restart").status(ended("Completed"), Phase::Success);
    let fails = started("fails").status(ended("Failed"), Phase::RetryableFailure);
    check("clustered-task", task("clustered-task", &custom), [succeeds, fails]);
}

#[test]
fn sleep() {
    let plugins = aileron_plugins::builtin().build(&SectionValues::default()).unwrap();
    let plugin = plugins.core().first().unwrap().clone();
    let mut task = task("core-sleep", &Value::Null);
    let duration = literal_type::Type::Simple(SimpleType::Duration.into());
    let variable = Variable {
        r#type: Some(LiteralType { r#type: Some(duration), ..LiteralType::default() }),
        ..Variable::default()
    };
    let inputs = VariableMap { variables: vec![VariableEntry { key: "duration".to_owned(), value: Some(variable) }] };
    task.template = TaskTemplate {
        target: None,
        interface: Some(TypedInterface { inputs: Some(inputs), outputs: None }),
        ..(*task.template).clone()
    }
    .into();
    let value = Primitive { value: Some(primitive::Value::Duration(prost_types::Duration { seconds: 4, nanos: 0 })) };
    let scalar = Scalar { value: Some(scalar::Value::Primitive(value)) };
    let literal = Literal { value: Some(literal::Value::Scalar(Box::new(scalar))), ..Literal::default() };
    task.inputs = Some(Arc::new(LiteralMap { literals: [("duration".to_owned(), literal)].into() }));
    let report = Conformance::of_core_plugin(plugin).task(task).every(every()).check();
    println!("{report}");
    report.assert_passed();
}
