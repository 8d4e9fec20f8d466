//! The executor of a sandbox: configured for it, and run inside this process.

use std::path::Path;
use std::time::{Duration, Instant};

use aileron_executor::config::{Config, ConfigErrors, Loader, SourceFile, Sources, files};
use aileron_executor::run::{self, RunError, RunOptions};
use aileron_executor::serve::{Endpoints, Readiness, install_recorder};
use anyhow::{Context, bail};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ConfigSources;

/// Where the executor looks for pod templates that serve all namespaces.
pub const NAMESPACE: &str = "flyte";

/// A start takes a fraction of a second; this long only on a machine that is stuck.
const START: Duration = Duration::from_secs(20);

/// An end takes as long as events take to be recorded, which are on this machine.
const STOP: Duration = Duration::from_secs(10);

/// An executor that runs.
#[derive(Debug)]
pub struct Executor {
    stop: CancellationToken,
    work: JoinHandle<Result<(), RunError>>,
}

/// What the user says lies over what fits a sandbox.
pub fn configure(sources: &ConfigSources, services: &str, storage: &Path) -> Result<Config, ConfigErrors> {
    let fitting = json!({
        "executor": {
            "EventsServiceURL": services,
            "cacheServiceURL": services,
            "cluster": "sandbox",
            // Somebody is watching: what failed is tried again soon.
            "requeueDuration": "1s",
            "healthProbeBindAddress": "0",
            "metricsBindAddress": "0",
        },
        // The link that is configured by default leads to a dashboard that is not here.
        "plugins": {"logs": {"kubernetes-enabled": false}},
        "storage": {
            "type": "local",
            "container": "data",
            "stow": {"kind": "local", "config": {"path": storage}},
        },
    });
    let mut all = vec![SourceFile { name: "the sandbox's own settings".into(), text: fitting.to_string() }];
    // The usual places are for executors of real clusters: their addresses would be wrong here.
    if !sources.files.is_empty() {
        all.extend(files::read(&sources.files)?);
    }
    let sources = Sources { files: all, environment: sources.environment.clone(), flags: sources.overrides.clone() };
    Ok(Loader::new().load(&sources)?.config)
}

impl Executor {
    /// Starts it and waits until it works.
    pub async fn start(client: kube::Client, config: Config) -> anyhow::Result<Self> {
        let readiness = Readiness::new();
        let stop = CancellationToken::new();
        if [&config.executor.health_probe_bind_address, &config.executor.metrics_bind_address]
            .iter()
            .any(|address| !["", "0"].contains(&address.as_str()))
        {
            let recorded = install_recorder()?;
            let endpoints = Endpoints::bind(&config.executor, readiness.clone(), recorded, client.clone()).await?;
            tokio::spawn(endpoints.run(stop.clone()));
        }
        let options = RunOptions {
            plugins: aileron_plugins::builtin().build(&config.plugins.section_values())?,
            config,
            client,
            namespace: NAMESPACE.to_owned(),
            identity: format!("sandbox-{}", std::process::id()),
            readiness: readiness.clone(),
        };
        let work = tokio::spawn(run::run(options, stop.clone()));
        let mut executor = Self { stop, work };
        let begin = Instant::now();
        while !readiness.is_ready() {
            if executor.work.is_finished() {
                executor.ended().await?;
            }
            if begin.elapsed() > START {
                bail!("the executor was not ready after {START:?}: {:?}", readiness.checks());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(executor)
    }

    /// Returns when it has ended by itself, which it never should; always with the reason.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        (&mut self.work).await.context("the executor broke")??;
        bail!("the executor ended by itself")
    }

    /// Ends it in good order.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        let ended = tokio::time::timeout(STOP, self.work).await.context("the executor did not end in time")?;
        Ok(ended.context("the executor broke")??)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_user_has_the_last_word() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mine.yaml");
        std::fs::write(&file, "executor: {cluster: mine, requeueDuration: 7s}").unwrap();
        let sources = ConfigSources {
            files: vec![file.display().to_string()],
            overrides: vec![("executor.requeueDuration".into(), "3s".into())],
            ..ConfigSources::default()
        };
        let config = configure(&sources, "http://127.0.0.1:1/x", Path::new("/data")).unwrap();
        assert_eq!(config.executor.cluster, "mine");
        assert_eq!(config.executor.requeue_duration.to_string(), "3s");
        assert_eq!(config.executor.events_service_url, "http://127.0.0.1:1/x");
        assert_eq!(config.storage.kind, "local");
        let wrong =
            ConfigSources { overrides: vec![("executor.clutser".into(), "x".into())], ..ConfigSources::default() };
        assert!(configure(&wrong, "http://h", Path::new("/d")).unwrap_err().to_string().contains("cluster"));
    }
}
