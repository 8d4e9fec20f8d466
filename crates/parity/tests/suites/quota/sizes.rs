//! Quotas of other things than pods: what tasks ask for, and objects of operators.

use std::collections::BTreeSet;
use std::time::Duration;

use aileron_idl::flyteidl2::core::resources::ResourceName;
use aileron_idl::json_to_struct;
use aileron_parity::suite::{Bench, LOOK_EVERY, Server, Shown, Space, Task};
use anyhow::Result;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::quota::{SPARK, check, check_refused, container, limited, space_with, submit_all};

aileron_parity::on_both!(
    all_tasks_pass_quotas_of_what_they_ask_for,
    all_tasks_pass_a_quota_of_operator_objects,
    what_can_never_fit_fails_at_once_and_what_just_fits_waits
);

const ROOM: usize = 6;
const TASKS: usize = 18;
const LIFE: Duration = Duration::from_millis(700);
const LIMIT: Duration = Duration::from_secs(40);

async fn pass(bench: &Bench, namespace: &str, hard: Value, task: impl Fn(&str) -> Task) -> Result<()> {
    let space = space_with(bench, namespace, &hard).await?;
    submit_all(&space, TASKS, task).await?;
    check(&space.until_all_ended(TASKS, LIMIT).await?);
    check_refused(&space, "pods")?;
    // No more at a time than there is room for, and most of the room is used.
    let runs = space.runs();
    let alive = |at| runs.iter().filter(|run| run.at <= at && at < run.at + LIFE).count();
    let most = runs.iter().map(|run| alive(run.at)).max().unwrap_or_default();
    assert!(most <= ROOM && most > ROOM / 2, "{most} at a time in {namespace}");
    Ok(())
}

async fn all_tasks_pass_quotas_of_what_they_ask_for(on: Server) -> Result<()> {
    let bench = limited(on).await?;
    let task = |name: &str| container(name, LIFE);
    futures::future::try_join4(
        pass(bench, "by-cpu", json!({"requests.cpu": "3"}), |name| task(name).asking(ResourceName::Cpu, "500m")),
        pass(bench, "by-memory", json!({"limits.memory": "384Mi"}), |name| {
            task(name).asking(ResourceName::Memory, "64Mi")
        }),
        pass(bench, "by-gpu", json!({"requests.nvidia.com/gpu": "12"}), |name| {
            task(name).asking(ResourceName::Gpu, "2")
        }),
        pass(bench, "by-both", json!({"count/pods": "1000", "pods": "6", "requests.cpu": "100"}), |name| {
            task(name).asking(ResourceName::Cpu, "1")
        }),
    )
    .await?;
    Ok(())
}

/// Objects of operators count until they are deleted, also when they have ended.
async fn all_tasks_pass_a_quota_of_operator_objects(on: Server) -> Result<()> {
    let bench = limited(on).await?;
    let hard = json!({format!("count/{SPARK}"): ROOM.to_string()});
    let space = space_with(bench, "by-count", &hard).await?;
    let resource = ApiResource {
        group: "sparkoperator.k8s.io".into(),
        version: "v1beta2".into(),
        api_version: "sparkoperator.k8s.io/v1beta2".into(),
        kind: "SparkApplication".into(),
        plural: "sparkapplications".into(),
    };
    let jobs: Api<DynamicObject> = Api::namespaced_with(space.admin.clone(), &space.namespace, &resource);
    let tasks = |name: &str| {
        let mut task = Task::container(name).task_type("spark");
        task.template.custom = json_to_struct(&json!({"mainApplicationFile": "local:///main.py"})).ok();
        task.template.interface = None;
        task
    };
    submit_all(&space, TASKS, tasks).await?;
    let (ended, most) = tokio::select! {
        ended = space.until_all_ended(TASKS, LIMIT) => (ended?, None),
        most = tidy(&space, &jobs) => (Vec::new(), Some(most?)),
    };
    let ended = if ended.is_empty() { space.until_all_ended(TASKS, LIMIT).await? } else { ended };
    check(&ended);
    check_refused(&space, "sparkapplications")?;
    assert!(most.is_none_or(|most| most <= ROOM), "{most:?} at a time");
    Ok(())
}

/// Deletes the jobs of tasks that have ended, until all have. The answer is how many jobs there were at most.
async fn tidy(space: &Space<'_>, jobs: &Api<DynamicObject>) -> Result<usize> {
    let (mut gone, mut most) = (BTreeSet::new(), 0);
    while gone.len() < TASKS {
        most = most.max(jobs.list_metadata(&ListParams::default()).await?.items.len());
        for action in space.actions.list(&ListParams::default()).await?.items {
            let job = format!("{}-0", action.name_any());
            if action.is_labelled() && gone.insert(job.clone()) {
                jobs.delete(&job, &DeleteParams::default()).await?;
            }
        }
        tokio::time::sleep(LOOK_EVERY * 4).await;
    }
    Ok(most)
}

async fn what_can_never_fit_fails_at_once_and_what_just_fits_waits(on: Server) -> Result<()> {
    let bench = limited(on).await?;
    let space = space_with(bench, "sizes", &json!({"requests.cpu": "4"})).await?;
    let sized = |name: &str, cpu: &str| container(name, LIFE).asking(ResourceName::Cpu, cpu).retries(3);
    space.submit(&sized("small", "1")).await?;
    space.until_pods(&["small-0"]).await?;
    space.submit(&sized("whole", "4")).await?;
    space.submit(&sized("larger", "4001m")).await?;
    let larger = space.until_ended("larger").await?;
    assert_eq!((larger.outcome().unwrap().0.as_str(), larger.shown().attempts), ("Failed", 1), "{}", larger.summary());
    let error = larger.shown().error_state.unwrap();
    assert_eq!((error.code.as_str(), error.kind.as_str()), ("ResourceRequestsExceedLimits", "USER"));
    assert!(error.message.contains("quota team: requested requests.cpu=4001m"), "{}", error.message);
    check(&[space.until_ended("small").await?, space.until_ended("whole").await?]);
    check_refused(&space, "pods")?;
    assert_eq!(space.runs().iter().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["small-0", "whole-0"]);
    Ok(())
}
