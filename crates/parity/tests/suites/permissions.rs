//! The executor on a real API server that checks permissions, with the roles of the chart: it uses each of them, and needs no
//! other.

use std::time::{Duration, Instant};

use aileron_config::sections::executor::ExecutorConfig;
use aileron_executor::caches::readiness::Readiness;
use aileron_executor::serve::{Endpoints, install_recorder};
use aileron_parity::cluster::{AuditRecord, Authorization, User, create_namespace};
use aileron_parity::manifests::{Grants, apply, helm_template};
use aileron_parity::suite::{Bench, BenchOptions, Executor, POLL_INTERVAL, Space, StatusView, Task, WAIT_TIMEOUT};
use aileron_sandbox::install_definitions;
use anyhow::{Result, bail};
use kube::api::DeleteParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::operators::kinds::KINDS;

/// The executor, as the chart names it.
const EXECUTOR: User = User::ServiceAccount("flyte", "aileron");

/// The namespace in which the executor may write.
const PERMITTED: &str = "permitted";

/// A bench whose API server checks permissions, with the roles of the chart under these values.
async fn start(values: &Value) -> Result<(Bench, Grants)> {
    let audited = vec![EXECUTOR];
    let options = BenchOptions { authorization: Authorization::Rbac, audited, ..BenchOptions::default() };
    let bench = Bench::start(options).await?;
    let admin = bench.cluster.client(User::Admin).await?;
    create_namespace(&admin, PERMITTED).await?;
    let chart = helm_template(values)?;
    let is_role = |object: &Value| object["apiVersion"] == "rbac.authorization.k8s.io/v1";
    let roles: Vec<_> = chart.into_iter().filter(is_role).collect();
    apply(&admin, &roles).await?;
    let grants = Grants::of(&roles, EXECUTOR)?;
    grants.until_known(&admin, EXECUTOR).await?;
    Ok((bench, grants))
}

/// Requests of the executor, none of which the API server has refused for want of a permission.
fn permitted_requests(bench: &Bench) -> Result<Vec<AuditRecord>> {
    let requests = bench.cluster.requests(EXECUTOR)?;
    let forbidden: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert_eq!(forbidden, Vec::<&AuditRecord>::new(), "requests that the API server refused");
    Ok(requests)
}

/// Everything that the chart can switch on.
fn values() -> Value {
    let mut plugins: Vec<_> = KINDS.iter().map(|kind| kind.task_type).collect();
    plugins.push("pod");
    json!({
        "image": {"repository": "registry.test/aileron"},
        "plugins": plugins,
        "pools": {"enabled": true},
        "rbac": {"namespaces": [PERMITTED]},
    })
}

/// Waits until something holds.
async fn until(what: &str, is_done: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    while !is_done().await? {
        if begin.elapsed() > WAIT_TIMEOUT {
            bail!("not within {WAIT_TIMEOUT:?}: {what}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Tasks of all kinds that succeed. Their objects have a finalizer, and are deleted afterwards.
async fn succeed(space: &Space<'_>) -> Result<()> {
    space.submit(&Task::container("good")).await?;
    space.submit(&Task::container("again").retries(1).attempts(&["fail:1", "succeed"])).await?;
    for kind in KINDS {
        let (name, jobs) = (format!("good-{}", kind.task_type), kind.objects(space));
        space.submit(&kind.task(&name)).await?;
        jobs.until(&format!("{name}-0")).await?;
        jobs.report(&format!("{name}-0"), &kind.running()).await?;
        jobs.report(&format!("{name}-0"), &kind.done()).await?;
        assert_eq!(space.until_ended(&name).await?.outcome().unwrap().0, "Succeeded", "{}", space.dump(&name).await);
        until("the object is deleted", async || Ok(!jobs.exists(&format!("{name}-0")).await?)).await?;
    }
    for name in ["good", "again"] {
        assert_eq!(space.until_ended(name).await?.outcome().unwrap().0, "Succeeded", "{}", space.dump(name).await);
    }
    space.until_pods(&[]).await
}

/// Tasks of all kinds that are aborted, and a task whose pod is lost twice.
async fn abort(space: &Space<'_>) -> Result<()> {
    for kind in KINDS {
        let (name, jobs) = (format!("aborted-{}", kind.task_type), kind.objects(space));
        space.submit(&kind.task(&name)).await?;
        jobs.until(&format!("{name}-0")).await?;
        space.delete(&name).await?;
        space.until_gone(&name).await?;
    }
    space.submit(&Task::container("lost").attempts(&["run"])).await?;
    for starts in 1..=2 {
        let running = async || Ok(space.runs().iter().filter(|run| run.name == "lost-0").count() == starts);
        until("the pod runs", running).await?;
        space.until("lost", "running", |action| action.reason() == "Executing").await?;
        space.pods.delete("lost-0", &DeleteParams::default()).await?;
    }
    until("the pod runs again", async || Ok(space.runs().iter().filter(|run| run.name == "lost-0").count() == 3))
        .await?;
    space.delete("lost").await?;
    space.until_gone("lost").await?;
    space.until_pods(&[]).await
}

/// Reads metrics as the admin. The metrics server asks the API server about its clients.
async fn read_metrics(bench: &Bench) -> Result<()> {
    let config = ExecutorConfig {
        health_probe_bind_address: "0".to_owned(),
        metrics_bind_address: "127.0.0.1:0".to_owned(),
        metrics_secure: true,
        ..ExecutorConfig::default()
    };
    let client = bench.cluster.client(EXECUTOR).await?;
    let endpoints = Endpoints::bind(&config, Readiness::new(), install_recorder()?, client).await?;
    let url = format!("https://{}", endpoints.metrics_address().unwrap());
    let stop = CancellationToken::new();
    let serving = tokio::spawn(endpoints.run(stop.clone()));
    let kubeconfig = Kubeconfig::read_from(bench.cluster.kubeconfig(User::Admin))?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.cluster_url = url.parse()?;
    config.accept_invalid_certs = true; // it is self-signed
    config.root_cert = None;
    Client::try_from(config)?.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
    stop.cancel();
    Ok(serving.await?)
}

/// An action in another namespace: the executor sees it, and may not work on it.
async fn is_refused_elsewhere(bench: &Bench) -> Result<()> {
    let space = bench.space("elsewhere").await?;
    space.submit(&Task::container("task")).await?;
    let refused = async || {
        let requests = bench.cluster.requests(EXECUTOR)?;
        Ok(requests.iter().any(|request| request.namespace == "elsewhere" && request.code == 403))
    };
    until("a request is refused", refused).await?;
    assert_eq!(space.actions.get("task").await?.metadata.finalizers, None);
    assert_eq!(space.pod_names().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn the_executor_uses_all_permissions_of_the_chart_and_needs_no_others() -> Result<()> {
    let (bench, grants) = start(&values()).await?;
    let space = bench.space(PERMITTED).await?;
    install_definitions(&space.admin, &KINDS.map(|kind| kind.rules())).await?;

    let pools = json!({"licences": {"quota": 2, "task-types": ["container"]}});
    let settings = bench.settings().with(&["executor", "leaderElect"], true).with(&["tasks", "pools"], pools);
    let settings = settings.with(&["plugins", "k8s", "delete-finished"], "on-success");
    let with_finalizer = settings.clone().with(&["plugins", "k8s", "inject-finalizer"], true);
    let executor = Executor::start_with(bench.cluster.client(EXECUTOR).await?, &with_finalizer, |all| all).await?;
    succeed(&space).await?;
    executor.stop().await?;

    let collecting = json!({"interval": "1s", "maxTTL": "0s"});
    let settings = settings.with(&["executor", "gc"], collecting);
    let executor = Executor::start_with(bench.cluster.client(EXECUTOR).await?, &settings, |all| all).await?;
    abort(&space).await?;
    space.until_gone("good").await?;

    read_metrics(&bench).await?;

    let requests = permitted_requests(&bench)?;
    assert_eq!(grants.ungranted(&requests), Vec::<&AuditRecord>::new(), "requests that no role of the chart allows");
    assert_eq!(grants.unused(&requests), Vec::<String>::new(), "permissions that the executor does not use");

    is_refused_elsewhere(&bench).await?;
    tokio::time::timeout(Duration::from_secs(60), executor.stop()).await??;
    Ok(())
}

/// The default values of the chart: pods in all namespaces.
#[tokio::test]
async fn an_executor_for_pods_gets_along_with_the_permissions_for_pods() -> Result<()> {
    let (bench, grants) = start(&json!({"image": {"repository": "registry.test/aileron"}})).await?;
    let plugins = ["core-sleep", "container", "sidecar", "pod"];
    let settings = bench.settings().with(&["executor", "leaderElect"], true);
    let settings = settings.with(&["tasks", "task-plugins"], json!({"enabled-plugins": plugins}));
    let executor = Executor::start_with(bench.cluster.client(EXECUTOR).await?, &settings, |all| all).await?;
    let space = bench.space("any").await?;
    space.submit(&Task::container("again").retries(1).attempts(&["fail:1", "succeed"])).await?;
    assert_eq!(space.until_ended("again").await?.outcome().unwrap().0, "Succeeded", "{}", space.dump("again").await);
    space.submit(&Task::container("aborted").attempts(&["run"])).await?;
    space.until("aborted", "running", |action| action.reason() == "Executing").await?;
    space.delete("aborted").await?;
    space.until_gone("aborted").await?;
    executor.stop().await?;
    assert_eq!(grants.ungranted(&permitted_requests(&bench)?), Vec::<&AuditRecord>::new());
    Ok(())
}
