//! Objects of operators under a quota, and tasks that are too large for one.

use std::collections::BTreeSet;
use std::time::Duration;

use aileron_idl::flyteidl2::core::resources::ResourceName;
use aileron_idl::json_to_struct;
use aileron_parity::suite::{POLL_INTERVAL, Server, Space, StatusView, Task};
use anyhow::Result;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams};
use serde_json::json;

use crate::quota::{SPARK, check, check_refused, container, quota_bench, space_with, submit_all};

aileron_parity::on_both!(
    all_tasks_pass_a_quota_of_operator_objects,
    a_task_larger_than_the_quota_fails_and_one_that_fits_waits
);

const QUOTA: usize = 6;
const TASKS: usize = 18;
const RUN_TIME: Duration = Duration::from_millis(700);

/// Objects of operators count until they are deleted, also when they have ended.
async fn all_tasks_pass_a_quota_of_operator_objects(on: Server) -> Result<()> {
    let bench = quota_bench(on).await?;
    let hard = json!({format!("count/{SPARK}"): QUOTA.to_string()});
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
    let (ended, most) =
        futures::future::try_join(space.until_all_ended(TASKS), delete_ended_jobs(&space, &jobs)).await?;
    check(&ended);
    check_refused(&space, "sparkapplications")?;
    assert!(most <= QUOTA && most > QUOTA / 2, "{most} at a time");
    Ok(())
}

/// Deletes the jobs of ended tasks until all tasks have ended. Returns the largest number of jobs at a time.
async fn delete_ended_jobs(space: &Space<'_>, jobs: &Api<DynamicObject>) -> Result<usize> {
    let (mut gone, mut most) = (BTreeSet::new(), 0);
    while gone.len() < TASKS {
        most = most.max(jobs.list_metadata(&ListParams::default()).await?.items.len());
        for action in space.actions.list(&ListParams::default()).await?.items {
            let job = format!("{}-0", action.name_any());
            if action.has_terminal_labels() && gone.insert(job.clone()) {
                jobs.delete(&job, &DeleteParams::default()).await?;
            }
        }
        tokio::time::sleep(POLL_INTERVAL * 4).await;
    }
    Ok(most)
}

async fn a_task_larger_than_the_quota_fails_and_one_that_fits_waits(on: Server) -> Result<()> {
    let bench = quota_bench(on).await?;
    let space = space_with(bench, "sizes", &json!({"requests.cpu": "4"})).await?;
    let sized = |name: &str, cpu: &str| container(name, RUN_TIME).with_resource(ResourceName::Cpu, cpu).retries(3);
    space.submit(&sized("small", "1")).await?;
    space.until_pods(&["small-0"]).await?;
    space.submit(&sized("whole", "4")).await?;
    space.submit(&sized("larger", "4001m")).await?;
    let larger = space.until_ended("larger").await?;
    assert_eq!(
        (larger.outcome().unwrap().0.as_str(), larger.status_or_default().attempts),
        ("Failed", 1),
        "{}",
        larger.summary()
    );
    let error = larger.status_or_default().error_state.unwrap();
    assert_eq!((error.code.as_str(), error.kind.as_str()), ("ResourceRequestsExceedLimits", "USER"));
    assert!(error.message.contains("quota team: requested requests.cpu=4001m"), "{}", error.message);
    check(&[space.until_ended("small").await?, space.until_ended("whole").await?]);
    check_refused(&space, "pods")?;
    assert_eq!(space.runs().iter().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["small-0", "whole-0"]);
    Ok(())
}
