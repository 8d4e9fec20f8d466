//! Tasks whose object belongs to an operator: their kind is watched as soon as the cluster serves it, and a change of
//! the object is seen at once. The operator is played by the test.

use std::time::{Duration, Instant};

use aileron_idl::json_to_struct;
use aileron_parity::cluster::install_crd;
use aileron_parity::suite::{LOOK_EVERY, PATIENCE, Shown, Space, Task, shared};
use anyhow::{Result, bail};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

/// Longer than any watch needs, far shorter than any look that is not caused by a change.
const AT_ONCE: Duration = Duration::from_secs(3);

fn pytorch_job() -> ApiResource {
    ApiResource {
        group: "kubeflow.org".into(),
        version: "v1".into(),
        api_version: "kubeflow.org/v1".into(),
        kind: "PyTorchJob".into(),
        plural: "pytorchjobs".into(),
    }
}

/// A definition that takes anything: what matters here is that the kind exists.
fn definition(resource: &ApiResource) -> Result<CustomResourceDefinition> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", resource.plural, resource.group)},
        "spec": {
            "group": resource.group,
            "names": {"kind": resource.kind, "plural": resource.plural},
            "scope": "Namespaced",
            "versions": [{
                "name": resource.version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    });
    Ok(serde_json::from_value(definition)?)
}

fn training(name: &str) -> Result<Task> {
    let mut task = Task::container(name).task_type("pytorch");
    task.template.task_type_version = 1;
    task.template.custom = Some(json_to_struct(&json!({"workerReplicas": {"replicas": 2}}))?);
    // The test plays the operator, not the workers, so nobody would write outputs.
    task.template.interface = None;
    Ok(task)
}

struct Operator {
    jobs: Api<DynamicObject>,
}

impl Operator {
    fn of(space: &Space<'_>) -> Self {
        Self { jobs: Api::namespaced_with(space.admin.clone(), &space.namespace, &pytorch_job()) }
    }

    async fn until_job(&self, name: &str) -> Result<DynamicObject> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(job) = self.jobs.get_opt(name).await? {
                return Ok(job);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        bail!("no PyTorchJob {name}")
    }

    async fn report(&self, name: &str, condition: &str) -> Result<()> {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = json!({
            "type": condition, "status": "True", "reason": condition, "message": "said the operator",
            "lastTransitionTime": now, "lastUpdateTime": now,
        });
        let status: Value = json!({"status": {"startTime": now, "conditions": [condition]}});
        self.jobs.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_job_of_a_kind_that_came_later_is_followed_without_polling() -> Result<()> {
    let space = shared().await?.space("operators").await?;
    install_crd(&space.admin, &definition(&pytorch_job())?).await?;
    let operator = Operator::of(&space);

    space.submit(&training("good")?).await?;
    let job = operator.until_job("good-0").await?;
    assert_eq!(job.metadata.owner_references.unwrap_or_default()[0].name, "good");
    operator.report("good-0", "Running").await?;
    space.within(AT_ONCE, "good", "running", |action| action.reason() == "Executing").await?;
    operator.report("good-0", "Succeeded").await?;
    let ended = space.within(AT_ONCE, "good", "ended", |action| action.outcome().is_some()).await?;
    assert_eq!(ended.outcome().unwrap().0, "Succeeded", "{}", ended.summary());

    space.submit(&training("retried")?.retries(1)).await?;
    operator.until_job("retried-0").await?;
    operator.report("retried-0", "Failed").await?;
    operator.until_job("retried-1").await?;
    operator.report("retried-1", "Failed").await?;
    let ended = space.within(AT_ONCE, "retried", "ended", |action| action.outcome().is_some()).await?;
    assert_eq!((ended.outcome().unwrap().0.as_str(), ended.shown().attempts), ("Failed", 2), "{}", ended.summary());

    space.submit(&training("aborted")?).await?;
    operator.until_job("aborted-0").await?;
    space.delete("aborted").await?;
    space.until_gone("aborted").await?;
    assert!(operator.jobs.get_opt("aborted-0").await?.is_none());
    Ok(())
}
