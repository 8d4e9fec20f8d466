//! What operators of an installation see: metrics, `aileron get`, `aileron pools`.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::Instant;

use aileron_action::TaskAction;
use aileron_parity::cluster::{Proxy, RefusalRule, User};
use aileron_parity::suite::{
    Bench, POLL_INTERVAL, Program, Server, Settings, Space, StatusView, Task, WAIT_TIMEOUT, binary,
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::operators::kinds::Kind;

aileron_parity::on_both!(waiting_and_running_tasks_are_shown_until_they_end);

/// `Retry-After` in seconds: the update interval of gauges, 10 s, and time for the commands on a busy machine.
const RETRY_AFTER: u32 = 30;

/// The metrics page of a program.
struct Page {
    client: Client,
}

/// One waiting task per pending reason, each in its own namespace.
struct Waiting<'a> {
    quota: Space<'a>,
    busy: Space<'a>,
    pool: Space<'a>,
    kind: Space<'a>,
}

impl Page {
    /// Chooses a free port for the page.
    fn choose(settings: Settings) -> Result<(Self, Settings)> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.to_string();
        let client = Client::try_from(Config::new(format!("http://{address}").parse()?))?;
        let settings =
            settings.with(&["executor", "metricsBindAddress"], address).with(&["executor", "metricsSecure"], false);
        Ok((Self { client }, settings))
    }

    async fn read(&self) -> Result<String> {
        Ok(self.client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?)
    }

    /// Waits until each of these lines has been on the page, not necessarily all at the same time.
    async fn until_seen(&self, lines: &[&str]) -> Result<()> {
        let begin = Instant::now();
        let mut missing = lines.to_vec();
        loop {
            let page = self.read().await?;
            missing.retain(|line| !page.lines().any(|found| found == *line));
            if missing.is_empty() {
                return Ok(());
            }
            ensure!(begin.elapsed() < WAIT_TIMEOUT, "never on the page: {missing:#?}\n{page}");
            tokio::time::sleep(POLL_INTERVAL * 4).await;
        }
    }

    /// Waits until every line of these metrics has the value 0.
    async fn until_zero(&self, metrics: &[&str]) -> Result<()> {
        let begin = Instant::now();
        loop {
            let page = self.read().await?;
            let lines = |metric: &str| -> Vec<&str> {
                page.lines().filter(|line| line.split(['{', ' ']).next() == Some(metric)).collect()
            };
            for metric in metrics {
                ensure!(!lines(metric).is_empty(), "{metric} is not on the page\n{page}");
            }
            let all = metrics.iter().flat_map(|metric| lines(metric));
            let left: Vec<_> = all.filter(|line| !line.ends_with(" 0")).collect();
            if left.is_empty() {
                return Ok(());
            }
            ensure!(begin.elapsed() < WAIT_TIMEOUT, "not 0: {left:#?}");
            tokio::time::sleep(POLL_INTERVAL * 4).await;
        }
    }
}

impl<'a> Waiting<'a> {
    /// Submits the tasks and waits until all have their pending reason.
    async fn start(bench: &'a Bench, proxy: &Proxy) -> Result<Self> {
        let space = async |name: &str| bench.space(name).await;
        let (quota, busy) = (space("no-quota").await?, space("too-busy").await?);
        let (pool, kind) = (space("no-licence").await?, space("no-kind").await?);

        let few = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}});
        quotas(&quota).create(&PostParams::default(), &serde_json::from_value(few)?).await?;
        use_pods(&quota, "1").await?;
        proxy.refuse(RefusalRule::of("create", "pods", 503, 1).within(&busy.namespace).retry_after(RETRY_AFTER));

        pool.submit(&licensed("holder").attempts(&["run"])).await?;
        pool.until("holder", "running", |action| action.reason() == "Executing").await?;
        pool.submit(&licensed("second")).await?;
        quota.submit(&Task::container("crowded")).await?;
        kind.submit(&Kind::of("pytorch").task("early")).await?;
        busy.submit(&Task::container("refused")).await?;
        let all = Self { quota, busy, pool, kind };
        for (space, name, reason) in all.each() {
            let waits = |action: &TaskAction| action.pending().is_some_and(|(found, _)| found == reason);
            space.until(name, reason, waits).await?;
        }
        Ok(all)
    }

    fn each(&self) -> [(&Space<'a>, &'static str, &'static str); 4] {
        [
            (&self.quota, "crowded", "Quota"),
            (&self.pool, "second", "Pool"),
            (&self.busy, "refused", "BackOff"),
            (&self.kind, "early", "MissingKind"),
        ]
    }
}

/// A task that needs a token of the pool.
fn licensed(name: &str) -> Task {
    Task::container(name).task_type("raw-container")
}

fn quotas(space: &Space<'_>) -> Api<ResourceQuota> {
    Api::namespaced(space.admin.clone(), &space.namespace)
}

/// Sets the used quota, because this bench has no ResourceQuota controller.
async fn use_pods(space: &Space<'_>, count: &str) -> Result<()> {
    let status = json!({"status": {"hard": {"pods": "1"}, "used": {"pods": count}}});
    quotas(space).patch_status("few", &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

/// The output of an `aileron` command for this cluster.
fn aileron(bench: &Bench, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(binary()?);
    command.args(arguments).arg("--kubeconfig").arg(bench.cluster.kubeconfig(User::Admin));
    let output = command.current_dir(bench.cluster.dir()).env_clear().output().context("running aileron")?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The lines of a table as lists of words.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

async fn waiting_and_running_tasks_are_shown_until_they_end(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let proxy = Proxy::start(&bench.cluster).await?;
    let pools = json!({"licences": {"quota": 1, "project-cap": 1, "task-types": ["raw-container"]}});
    let (page, settings) = Page::choose(bench.settings().with(&["tasks", "pools"], pools))?;
    let mut program = Program::start_as(&bench.cluster, proxy.kubeconfig(), &settings, "overview")?;
    program.until_started().await?;
    let waiting = Waiting::start(&bench, &proxy).await?;
    waiting_actions_are_listed(&bench)?;
    token_holders_are_listed(&bench)?;
    page.until_seen(&[
        "aileron_objects{kind=\"Pod\",namespace=\"no-licence\",plugin=\"pod\"} 1",
        "aileron_launch_seconds_count{kind=\"Pod\"} 1",
        "aileron_pending_actions{reason=\"Quota\"} 1",
        "aileron_pending_actions{reason=\"Pool\"} 1",
        "aileron_pending_actions{reason=\"BackOff\"} 1",
        "aileron_pending_actions{reason=\"MissingKind\"} 1",
        "aileron_pending_actions{reason=\"ImagePull\"} 0",
        "aileron_launches_waiting{reason=\"Quota\"} 1",
        "aileron_launches_waiting{reason=\"BackOff\"} 1",
        "aileron_backoff_active{kind=\"Pod\",namespace=\"too-busy\"} 1",
        "aileron_pool_tokens{pool=\"licences\"} 1",
        "aileron_pool_waiting{pool=\"licences\"} 1",
    ])
    .await?;

    use_pods(&waiting.quota, "0").await?;
    waiting.pool.delete("holder").await?;
    for (space, name, reason) in waiting.each() {
        if reason != "MissingKind" {
            let action = space.until_ended(name).await?;
            assert_eq!(
                (action.outcome().unwrap().0.as_str(), action.status_or_default().attempts),
                ("Succeeded", 1),
                "{name}"
            );
        }
    }
    // The three tasks and the holder of the token. One of them had waited for the Retry-After.
    page.until_seen(&["aileron_launch_seconds_count{kind=\"Pod\"} 4"]).await?;
    let text = page.read().await?;
    let sum = text.lines().find_map(|line| line.strip_prefix("aileron_launch_seconds_sum{kind=\"Pod\"} "));
    let sum: f64 = sum.context("aileron_launch_seconds_sum is missing")?.parse()?;
    ensure!(sum >= f64::from(RETRY_AFTER), "{sum} s in all");

    for (space, ..) in waiting.each() {
        space.actions.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        space.pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    }
    page.until_zero(&[
        "aileron_objects",
        "aileron_pods",
        "aileron_pending_actions",
        "aileron_launches_waiting",
        "aileron_backoff_active",
        "aileron_pool_tokens",
        "aileron_pool_waiting",
    ])
    .await?;
    program.terminate().await
}

/// The table and the JSON output have the pending reason and its message.
fn waiting_actions_are_listed(bench: &Bench) -> Result<()> {
    let expected = [
        ("crowded", "Quota", "waiting for quota few: requested pods=1, used pods=1, limited pods=1"),
        ("second", "Pool", "pool licences: all 1 tokens are taken"),
        ("refused", "BackOff", "waiting for the API server: "),
        ("early", "MissingKind", "the cluster does not serve PyTorchJob (kubeflow.org/v1)"),
    ];
    let listed: Value = serde_json::from_str(&aileron(bench, &["get", "-A", "-o", "json"])?)?;
    let table = aileron(bench, &["get", "-A"])?;
    for (name, reason, prefix) in expected {
        let action = listed["actions"].as_array().into_iter().flatten().find(|it| it["name"] == name);
        let action = action.with_context(|| format!("{name} is not in {listed}"))?;
        assert_eq!((&action["phase"], &action["pending"]["reason"]), (&"Waiting".into(), &reason.into()), "{action}");
        let message = action["pending"]["message"].as_str().unwrap_or_default();
        ensure!(message.starts_with(prefix), "{name}: {message}");
        let row = table.lines().find(|line| line.contains(&format!(" {name} "))).context(table.clone())?;
        ensure!(row.contains(" Waiting ") && row.contains(&format!(" {reason}: ")), "{row}");
    }
    Ok(())
}

fn token_holders_are_listed(bench: &Bench) -> Result<()> {
    let table = aileron(bench, &["pools", "-o", "wide", "--config", "overview.yaml"])?;
    assert_eq!(rows(&table)[1], ["licences", "1", "1", "1", "1", "-", "raw-container", "no-licence/holder"], "{table}");
    let listed: Value = serde_json::from_str(&aileron(bench, &["pools", "-o", "json", "--config", "overview.yaml"])?)?;
    let pool = &listed["pools"][0];
    assert_eq!((&pool["used"], &pool["waiting"]), (&json!(1), &json!(["no-licence/second"])), "{listed}");
    let holder = &pool["holders"][0];
    assert_eq!((&holder["name"], &holder["project"]), (&json!("holder"), &json!("flytesnacks")), "{listed}");
    Ok(())
}
