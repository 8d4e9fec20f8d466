#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2009-11-10T23:00:00Z";

struct Given {
    metadata: ObjectMeta,
    replicas: ReplicaSpecs,
    status: Option<JobStatus>,
}

fn given(metadata: Value, status: Value) -> Given {
    Given {
        metadata: serde_json::from_value(metadata).unwrap(),
        replicas: ReplicaSpecs::new(),
        status: serde_json::from_value(status).unwrap(),
    }
}

impl Given {
    fn job(&self) -> Job<'_> {
        Job { framework: "mpi", metadata: &self.metadata, replicas: &self.replicas, status: self.status.as_ref() }
    }

    fn current(&self) -> Result<Option<String>, SilentJob> {
        let condition = self.job().current_condition(&KubeflowConfig::default(), NOW.parse().unwrap())?;
        Ok(condition.map(|condition| condition.type_.clone()))
    }
}

fn condition(kind: &str, status: &str, second: u8) -> Value {
    json!({"type": kind, "status": status, "lastTransitionTime": format!("2009-11-10T22:59:{second:02}Z")})
}

fn created(at: &str) -> Value {
    json!({"name": "j", "creationTimestamp": at})
}

#[test]
fn the_newest_condition_that_holds_counts() {
    let status = |conditions: Value| json!({"startTime": NOW, "conditions": conditions});
    let current = |conditions: Value| given(json!({}), status(conditions)).current().map(Option::unwrap_or_default);
    let (running, failed) = (condition("Running", "True", 10), condition("Failed", "False", 20));
    assert_eq!(current(json!([running, failed])).unwrap(), "Running");
    assert_eq!(current(json!([running, condition("Succeeded", "True", 5)])).unwrap(), "Running");
    assert_eq!(current(json!(null)).unwrap(), "");
    assert!(matches!(current(json!([])), Err(SilentJob::NoCurrentCondition { .. })));
    let untimed = json!({"type": "Created", "status": "True"});
    assert_eq!(current(json!([untimed, running])).unwrap(), "Running");
}

#[test]
fn the_operator_must_begin_within_a_minute() {
    let young = given(created("2009-11-10T22:59:00Z"), json!(null));
    assert_eq!(young.current(), Ok(None));
    let old = given(created("2009-11-10T22:58:59Z"), json!(null));
    let error = old.current().unwrap_err().to_string();
    assert!(error.contains("the mpi custom resource since creation time 2009-11-10 22:58:59 +0000 UTC"), "{error}");
    let begun = given(created("2009-11-10T22:58:59Z"), json!({"startTime": NOW}));
    assert_eq!(begun.current(), Ok(None));
    assert!(given(json!({}), json!(null)).current().is_err());
}

#[test]
fn a_job_ended_when_it_says_so_or_at_the_closest_known_time() {
    let metadata = || created("2009-11-10T22:00:00Z");
    let end = |status: Value| given(metadata(), status).job().ended().unwrap().at.unwrap().to_string();
    let conditions = json!([condition("Running", "True", 40), condition("Failed", "False", 20)]);
    let start = "2009-11-10T22:10:00Z";
    let all = json!({"completionTime": NOW, "conditions": conditions, "startTime": start});
    assert_eq!(end(all), NOW);
    assert_eq!(end(json!({"conditions": conditions, "startTime": start})), "2009-11-10T22:59:20Z");
    let untimed = json!([{"type": "Succeeded", "status": "True"}]);
    assert_eq!(end(json!({"conditions": untimed, "startTime": start})), start);
    assert_eq!(end(json!({"conditions": untimed})), "2009-11-10T22:00:00Z");
    assert!(given(metadata(), json!({"conditions": conditions})).job().ended().unwrap().failed);
    assert_eq!(given(metadata(), json!({"conditions": [condition("Running", "True", 1)]})).job().ended(), None);
}
