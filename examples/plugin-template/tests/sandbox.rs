//! Tasks of the plugin in a sandbox inside the test process, with the real operator and with a simulated one.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use aileron::{OperatorRules, Program, Sandbox, SandboxOptions};
use aileron_machinery::k8s_openapi::api::core::v1::Pod;
use aileron_plugin_batch::{BatchJob, BatchPlugin};
use kube::CustomResourceExt;
use kube::api::{Api, ListParams};

/// A cluster with the kind of the plugin.
async fn sandbox(operators: Vec<OperatorRules>) -> Sandbox {
    let options = SandboxOptions { definitions: vec![BatchJob::crd()], operators, ..SandboxOptions::default() };
    Program::new().with_section(BatchPlugin::new).start_sandbox(options).await.unwrap()
}

/// A task whose two pods run this command. (`aileron io write`, which writes outputs, is not there: on the path of a pod,
/// `aileron` is the program that started the sandbox, and here that is this test.)
fn task(command: &str) -> String {
    format!(
        "{{name: count, type: batch, image: debian:stable-slim, command: [sh, -ec, '{command}'], \
         resources: {{cpu: 100m, memory: 64Mi}}, custom: {{parallelism: 2}}}}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_in_the_pods_of_the_operator() {
    let sandbox = sandbox(Vec::new()).await;
    let operator = tokio::spawn(batch_operator::run(sandbox.client()));
    let finished = sandbox.run_task(&task("echo done")).await.unwrap();
    assert!(finished.is_success(), "{:?}", finished.error());
    let pods: Api<Pod> = Api::default_namespaced(sandbox.client());
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 2, "one for each copy");
    operator.abort();
    sandbox.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_of_a_task_that_takes_too_long_is_suspended_and_its_pods_stop() {
    let sandbox = sandbox(Vec::new()).await;
    let operator = tokio::spawn(batch_operator::run(sandbox.client()));
    let finished =
        sandbox.run_task(&task("sleep 600").replace("type: batch", "type: batch, timeout: 3s")).await.unwrap();
    assert!(!finished.is_success());
    let jobs: Api<BatchJob> = Api::default_namespaced(sandbox.client());
    let jobs = jobs.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(jobs.iter().map(|job| job.spec.suspend).collect::<Vec<_>>(), [true]);
    let pods: Api<Pod> = Api::default_namespaced(sandbox.client());
    // Longer than a busy machine needs.
    for _ in 0..600 {
        if pods.list(&ListParams::default()).await.unwrap().items.is_empty() {
            operator.abort();
            return sandbox.stop().await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the pods of a suspended job must go");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_of_the_simulated_operator_is_repeated() {
    let rules = OperatorRules::read(include_str!("../demo/operator-rules.yaml")).unwrap();
    let sandbox = sandbox(vec![rules]).await;
    let finished = sandbox.run_task(include_str!("../demo/simulated.yaml")).await.unwrap();
    assert!(finished.is_success(), "{:?}", finished.error());
    assert_eq!(finished.attempts(), 2);
    sandbox.stop().await.unwrap();
}
