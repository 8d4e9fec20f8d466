//! A task of the plugin in a sandbox inside the test process. The test plays the operator.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use aileron::{Program, SandboxOptions};
use aileron_plugin_batch::{BatchJob, BatchPlugin};
use aileron_machinery::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use aileron_machinery::serde_json::json;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt, ResourceExt};

#[tokio::test(flavor = "multi_thread")]
async fn the_task_succeeds_when_the_operator_reports_success() {
    let program = Program::new().with_section(BatchPlugin::new);
    let sandbox = program.start_sandbox(SandboxOptions::default()).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(sandbox.client());
    definitions.create(&PostParams::default(), &BatchJob::crd()).await.unwrap();

    let task = sandbox.run_task(include_str!("../demo/task.yaml"));
    let (finished, job) = tokio::join!(task, operate(sandbox.client()));
    let (finished, job) = (finished.unwrap(), job.unwrap());
    assert!(finished.is_success(), "{:?}", finished.error());
    assert_eq!((job.spec.queue.as_str(), job.spec.parallelism), ("standard", 3));
    sandbox.stop().await.unwrap();
}

/// The operator: waits for one job, and reports that it runs and then that it has succeeded.
async fn operate(client: Client) -> kube::Result<BatchJob> {
    let jobs: Api<BatchJob> = Api::default_namespaced(client);
    let job = loop {
        match jobs.list(&ListParams::default()).await {
            Ok(found) if !found.items.is_empty() => break found.items[0].clone(),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    for phase in ["Running", "Succeeded"] {
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        jobs.patch_status(&job.name_any(), &PatchParams::default(), &status).await?;
    }
    Ok(job)
}
