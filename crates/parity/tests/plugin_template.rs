//! `examples/plugin-template/deploy` on a real API server that checks permissions: it accepts every object, and executor and
//! operator get exactly the permissions that they use.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use aileron_idl::json_to_struct;
use aileron_parity::cluster::{AuditRecord, Authorization, User};
use aileron_parity::manifests::{Grants, apply, kustomize};
use aileron_parity::suite::{Bench, BenchOptions, Executor, POLL_INTERVAL, Space, StatusView, Task, WAIT_TIMEOUT};
use aileron_plugin_batch::{BatchConfig, BatchJob, BatchPlugin};
use anyhow::{Context, Result, bail};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::json;

/// The executor, as `deploy/executor-permissions.yaml` names it.
const EXECUTOR: User = User::ServiceAccount("flyte", "aileron");
/// The operator, as `deploy/operator.yaml` names it.
const OPERATOR: User = User::ServiceAccount("batch-operator", "batch-operator");

/// The flag that enables plugins.
const ENABLED: &str = "--tasks.task-plugins.enabled-plugins=";

/// The kind of the template.
const GROUP: &str = "compute.example.org";

/// The definitions of kinds.
const DEFINITIONS: &str = "apiextensions.k8s.io/v1/customresourcedefinitions";

/// A plugin of the API server that some distributions enable. It refuses owner references that block the deletion of their
/// owner, unless the user may change the finalizers of the owner. Neither executor nor operator writes such references.
const ADMISSION_FLAG: &str = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A task whose job has two pods.
fn task(name: &str) -> Task {
    let mut task = Task::container(name).task_type("batch");
    task.template.custom = Some(json_to_struct(&json!({"parallelism": 2})).unwrap());
    task
}

/// Waits until something holds that concerns an action.
async fn until(space: &Space<'_>, name: &str, what: &str, is_done: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    while !is_done().await? {
        if begin.elapsed() > WAIT_TIMEOUT {
            bail!("{name} was not {what} within {WAIT_TIMEOUT:?}\n{}", space.dump(name).await);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Waits until both pods of the first attempt run, and the action too. Returns their UIDs, none of which is among `other_than`.
async fn until_running(space: &Space<'_>, name: &str, other_than: &[String]) -> Result<Vec<String>> {
    let running = async || {
        let mut uids = Vec::new();
        for pod in [format!("{name}-0-0"), format!("{name}-0-1")] {
            let found = space.pods.get_opt(&pod).await?.unwrap_or_default();
            let phase = found.status.as_ref().and_then(|status| status.phase.as_deref());
            uids.extend(found.uid().filter(|uid| phase == Some("Running") && !other_than.contains(uid)));
        }
        anyhow::Ok(uids)
    };
    until(space, name, "running", async || Ok(running().await?.len() == 2)).await?;
    space.until(name, "running", |action| action.status_or_default().plugin_phase == "PhaseRunning").await?;
    running().await
}

/// Waits until the pods of an action are gone.
async fn until_stopped(space: &Space<'_>, name: &str) -> Result<()> {
    let gone = async || Ok(!space.pod_names().await?.iter().any(|pod| pod.starts_with(name)));
    until(space, name, "stopped", gone).await
}

/// Runs tasks to every end that makes the executor send other requests for their jobs.
async fn run_tasks(space: &Space<'_>) -> Result<()> {
    let jobs: Api<BatchJob> = Api::namespaced(space.admin.clone(), &space.namespace);

    // Success. The configuration deletes the job afterwards.
    space.submit(&task("good")).await?;
    let good = space.until_ended("good").await?;
    assert_eq!(good.outcome().unwrap().0, "Succeeded", "{}", space.dump("good").await);
    until(space, "good", "deleted", async || Ok(jobs.get_opt("good-0").await?.is_none())).await?;

    // A failure, and a second attempt.
    space.submit(&task("again").retries(1).attempts(&["fail:1", "succeed"])).await?;
    let again = space.until_ended("again").await?;
    assert_eq!((again.outcome().unwrap().0.as_str(), again.status_or_default().attempts), ("Succeeded", 2));

    // A task that takes too long: its job is suspended and stays, and the operator stops its pods.
    let mut slow = task("slow").attempts(&["run"]);
    let limit = prost_types::Duration { seconds: 2, nanos: 0 };
    slow.template.metadata.get_or_insert_default().timeout = Some(limit);
    space.submit(&slow).await?;
    assert_eq!(space.until_ended("slow").await?.outcome().unwrap().1, "TimedOut");
    assert!(jobs.get("slow-0").await?.spec.suspend);
    until_stopped(space, "slow").await?;

    // A job that somebody else deletes: the attempt is started again.
    space.submit(&task("lost").attempts(&["run"])).await?;
    let first = until_running(space, "lost", &[]).await?;
    jobs.delete("lost-0", &DeleteParams::default()).await?;
    // As the garbage collector would.
    for pod in ["lost-0-0", "lost-0-1"] {
        space.pods.delete(pod, &DeleteParams::default()).await?;
    }
    until_running(space, "lost", &first).await?;
    space.complete_pod("lost-0-0").await?;
    space.complete_pod("lost-0-1").await?;
    assert_eq!(space.until_ended("lost").await?.outcome().unwrap().0, "Succeeded");

    // A user aborts a task.
    space.submit(&task("aborted").attempts(&["run"])).await?;
    until_running(space, "aborted", &[]).await?;
    space.delete("aborted").await?;
    space.until_gone("aborted").await?;
    assert!(jobs.get("aborted-0").await?.spec.suspend);
    until_stopped(space, "aborted").await
}

/// Aileron's kustomization with the component of the template.
#[test]
fn the_component_lets_an_installed_executor_run_the_plugin() -> Result<()> {
    let folder = root().join("target/plugin-overlay");
    std::fs::create_dir_all(&folder)?;
    let overlay = "resources: [../../deploy/kustomize]\ncomponents: [../../examples/plugin-template/deploy/executor]\n";
    std::fs::write(folder.join("kustomization.yaml"), overlay)?;
    let objects = kustomize(&folder)?;
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").context("no Deployment")?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "example.org/aileron-batch:0.1.0");
    let arguments = container["args"].as_array().context("no arguments")?;
    // A flag that is given twice adds to a list.
    let enabled: Vec<_> = arguments.iter().filter_map(|it| it.as_str()?.strip_prefix(ENABLED)).collect();
    assert_eq!(enabled, ["core-sleep,container,sidecar,pod", "batch"]);
    Ok(())
}

/// A request that the API server refused because a permission is missing.
fn assert_nothing_was_forbidden(bench: &Bench, user: User) -> Result<()> {
    let requests = bench.cluster.requests(user)?;
    assert!(!requests.is_empty(), "{} has sent no requests", user.username());
    let refused: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(refused.is_empty(), "{} was refused: {refused:#?}", user.username());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn executor_and_operator_have_exactly_the_permissions_that_they_use() -> Result<()> {
    let options = BenchOptions {
        authorization: Authorization::Rbac,
        audited: vec![EXECUTOR, OPERATOR],
        apiserver_flags: vec![ADMISSION_FLAG.to_owned()],
        ..BenchOptions::default()
    };
    let bench = Bench::start(options).await?;
    let admin = bench.cluster.client(User::Admin).await?;
    // Of an executor that runs pods only: what the plugin needs beyond it must be in the template.
    let mut base = kustomize(&root().join("deploy/kustomize"))?;
    base.retain(|object| object["apiVersion"] == "rbac.authorization.k8s.io/v1");
    let deploy = kustomize(&root().join("examples/plugin-template/deploy"))?;
    apply(&admin, &base).await?;
    apply(&admin, &deploy).await?;
    // Applied again, nothing is refused: nothing in it can be set only once.
    apply(&admin, &deploy).await?;

    Grants::of(&base, EXECUTOR)?.until_known(&admin, EXECUTOR).await?;
    let (for_executor, for_operator) = (Grants::of(&deploy, EXECUTOR)?, Grants::of(&deploy, OPERATOR)?);
    for_executor.until_known(&admin, EXECUTOR).await?;
    for_operator.until_known(&admin, OPERATOR).await?;

    let space = bench.space("tasks").await?;
    let operator = tokio::spawn(batch_operator::run(bench.cluster.client(OPERATOR).await?));
    let settings = bench.settings().with(&["plugins", "k8s", "delete-finished"], "on-success");
    let with_plugin = |plugins: aileron_machinery::PluginSet| plugins.with(BatchPlugin::new(BatchConfig::default()));
    let client = bench.cluster.client(EXECUTOR).await?;
    let executor = Executor::start_with(client, &settings, with_plugin).await?;
    run_tasks(&space).await?;
    executor.stop().await?;
    operator.abort();

    assert_nothing_was_forbidden(&bench, EXECUTOR)?;
    assert_nothing_was_forbidden(&bench, OPERATOR)?;
    let (of_executor, of_operator) = (bench.cluster.requests(EXECUTOR)?, bench.cluster.requests(OPERATOR)?);
    let is_for_plugin = |request: &AuditRecord| [GROUP, DEFINITIONS].iter().any(|part| request.uri.contains(part));
    let of_kind: Vec<_> = of_executor.into_iter().filter(is_for_plugin).collect();
    assert_eq!(for_executor.ungranted(&of_kind), Vec::<&AuditRecord>::new(), "the executor has no role for these");
    assert_eq!(for_executor.unused(&of_kind), Vec::<String>::new(), "the executor does not need these");
    assert_eq!(for_operator.ungranted(&of_operator), Vec::<&AuditRecord>::new(), "the operator has no role for these");
    assert_eq!(for_operator.unused(&of_operator), Vec::<String>::new(), "the operator does not need these");
    Ok(())
}
