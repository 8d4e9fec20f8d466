#![allow(clippy::unwrap_used)]

use super::*;

fn rules(kind: &str) -> Rules {
    Rules::builtin().into_iter().find(|rules| rules.kind == kind).unwrap()
}

fn object(outcome: &str, spec: &Value) -> Value {
    let annotations = json!({"simulate.aileron.dev/outcome": outcome});
    let uid = "0a1b2c3d-1111-2222-3333-444444444444";
    let metadata = json!({"name": "job-0", "namespace": "ns", "uid": uid, "annotations": annotations});
    json!({"metadata": metadata, "spec": spec})
}

/// Runs all stages of an object; a second passes with each stage.
fn run_all_stages(rules: &Rules, mut object: Value) -> (Vec<String>, Value) {
    let mut stages = Vec::new();
    while let Some(step) = rules.next(&object) {
        stages.push(step.stage.name.clone());
        assert!(stages.len() < 20, "{} has an endless loop of stages: {stages:?}", rules.kind);
        let now = Timestamp::from_second(i64::try_from(stages.len()).unwrap()).unwrap();
        object["status"] = rules.status_after(step.stage, &object, now).unwrap();
    }
    (stages, object["status"].clone())
}

#[test]
fn every_kind_reaches_every_outcome_of_its_rules() {
    for rules in Rules::builtin() {
        let spec = json!({
            "executor": {"instances": 1},
            "rayClusterSpec": {"workerGroupSpecs": [{"replicas": 1}, {"replicas": 2}]},
            "replicatedJobs": [{"name": "workers", "replicas": 1}],
        });
        let mut ends = Vec::new();
        for outcome in rules.outcomes().chain([HANG]) {
            let (stages, _) = run_all_stages(&rules, object(outcome, &spec));
            ends.push((stages.last().unwrap().clone(), outcome.to_owned()));
        }
        let hangs = ends.pop().unwrap().0;
        assert!(["running", "ready"].contains(&hangs.as_str()), "{} hangs in {hangs}", rules.kind);
        let (good, bad): (Vec<_>, Vec<_>) =
            ends.into_iter().partition(|(_, outcome)| [SUCCEED, "restart"].contains(&outcome.as_str()));
        assert!(good.iter().all(|(stage, _)| *stage == good[0].0 && *stage != hangs), "{}: {good:?}", rules.kind);
        assert!(bad.iter().all(|(stage, _)| *stage != good[0].0 && *stage != hangs), "{}: {bad:?}", rules.kind);
    }
}

#[test]
fn a_spark_application_goes_through_the_states_of_its_operator() {
    let (stages, status) =
        run_all_stages(&rules("SparkApplication"), object(SUCCEED, &json!({"executor": {"instances": 2}})));
    assert_eq!(stages, ["submitted", "running", "succeeding", "completed"]);
    assert_eq!(status["applicationState"]["state"], "COMPLETED");
    assert_eq!(status["executorState"], json!({"job-0-exec-1": "COMPLETED", "job-0-exec-2": "COMPLETED"}));
    assert_eq!(status["sparkApplicationId"], "spark-0a1b2c3d111122223333444444444444");
    assert_eq!(status["lastSubmissionAttemptTime"], "1970-01-01T00:00:01.000Z");
}

#[test]
fn conditions_change_as_those_of_the_training_operator() {
    let spec = json!({"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}});
    let (stages, status) = run_all_stages(&rules("PyTorchJob"), object("restart", &spec));
    assert_eq!(stages, ["created", "running", "restarting", "restarted", "succeeded"]);
    assert_eq!(status["replicaStatuses"], json!({"Worker": {"succeeded": 3}}));
    let conditions: Vec<_> = status["conditions"].as_array().unwrap().iter().collect();
    let shown: Vec<_> = conditions
        .iter()
        .map(|one| {
            format!("{}={}@{}", one["type"], one["status"], &one["lastTransitionTime"].as_str().unwrap()[17..19])
        })
        .collect();
    let wanted = ["Created=True@01", "Running=False@05", "Restarting=False@04", "Succeeded=True@05"];
    assert_eq!(shown.iter().map(|one| one.replace('"', "")).collect::<Vec<_>>(), wanted);
    assert_eq!(conditions[1]["reason"], "PyTorchJobRunning", "fields that a change does not mention are kept");
}

#[test]
fn a_failure_has_the_requested_message() {
    let failing = |message: &str| {
        let mut object = object("fail", &json!({}));
        object["metadata"]["annotations"]["simulate.aileron.dev/message"] = message.into();
        run_all_stages(&rules("RayJob"), object).1["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(failing("no such file"), "no such file");
    assert_eq!(failing(""), "Job entrypoint command failed with exit code 1");
}

#[test]
fn an_unknown_outcome_fails_and_names_the_known_ones() {
    let (_, status) = run_all_stages(&rules("RayJob"), object("explode", &json!({})));
    let wanted = "the simulation of RayJob does not know the outcome \"explode\"; it knows fail, hang, lose, succeed";
    assert_eq!((status["jobStatus"].as_str(), status["message"].as_str()), (Some("FAILED"), Some(wanted)));
}

#[test]
fn an_object_may_request_how_long_it_runs() {
    let rules = rules("DaskJob");
    let mut object = object(SUCCEED, &json!({}));
    object["metadata"]["annotations"]["simulate.aileron.dev/run-for"] = "90s".into();
    assert_eq!(rules.next(&object).unwrap().after, Duration::from_millis(50), "only the last stage is delayed");
    object["status"] = json!({"jobStatus": "Running"});
    assert_eq!(rules.next(&object).unwrap().after, Duration::from_secs(90));
    object["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
    assert!(rules.next(&object).is_none(), "an object that is being deleted has no next stage");
}
