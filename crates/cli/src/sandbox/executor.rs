//! The executor of a sandbox: its configuration, its start and its stop.

use std::path::Path;
use std::time::{Duration, Instant};

use aileron_config::{Config, ConfigErrors, SourceFile, Sources, files};
use aileron_executor::assembly::{self, RunError, RunOptions};
use aileron_executor::caches::memory::MemoryCounts;
use aileron_executor::caches::readiness::Readiness;
use aileron_executor::serve::{Endpoints, install_recorder};
use anyhow::{Context, bail};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::options::ExecutorConfig;
use crate::configuration;
use crate::program::Program;

/// The namespace of the executor. PodTemplates in it apply to tasks of all namespaces.
pub const NAMESPACE: &str = "flyte";

/// The executor must be ready within this time. A start normally takes less than a second.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The executor must stop within this time. It only has to send its last events to a service on this machine.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A running executor.
#[derive(Debug)]
pub struct Executor {
    stop: CancellationToken,
    work: JoinHandle<Result<(), RunError>>,
}

/// The configuration of the executor: the sandbox's own settings, overridden by those of the user.
pub fn configure(
    program: &Program,
    sources: &ExecutorConfig,
    services: &str,
    storage: &Path,
) -> Result<Config, ConfigErrors> {
    let own_settings = json!({
        "executor": {
            "EventsServiceURL": services,
            "cacheServiceURL": services,
            "cluster": "sandbox",
            // A person waits for the result: repeat failed work soon.
            "requeueDuration": "1s",
            "healthProbeBindAddress": "0",
            "metricsBindAddress": "0",
        },
        // The default log link leads to a dashboard that a sandbox does not have.
        "plugins": {"logs": {"kubernetes-enabled": false}},
        "storage": {
            "type": "local",
            "container": "data",
            "stow": {"kind": "local", "config": {"path": storage}},
        },
    });
    let mut all = vec![SourceFile { name: "the sandbox's own settings".into(), text: own_settings.to_string() }];
    // The default files are not read: they belong to an executor of a real cluster, with other addresses.
    if !sources.files.is_empty() {
        all.extend(files::read(&sources.files)?);
    }
    let (environment, flags) = (sources.environment.clone(), sources.overrides.clone());
    let sources = Sources { files: all, environment, flags, ..Sources::default() };
    Ok(program.loader().load(&sources)?.config)
}

impl Executor {
    /// Starts the executor and waits until it is ready.
    pub async fn start(program: &Program, client: kube::Client, config: Config) -> anyhow::Result<Self> {
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
        for rule in configuration::plugin_list(program, &config)?.suspicious_rules() {
            tracing::warn!("{rule}");
        }
        let options = RunOptions {
            plugins: program.plugins(&config)?,
            config,
            client,
            namespace: NAMESPACE.to_owned(),
            identity: format!("sandbox-{}", std::process::id()),
            readiness: readiness.clone(),
            memory: MemoryCounts::default(),
        };
        let work = tokio::spawn(assembly::run(options, stop.clone()));
        let mut executor = Self { stop, work };
        let begin = Instant::now();
        while !readiness.is_ready() {
            if executor.work.is_finished() {
                executor.ended().await?;
            }
            if begin.elapsed() > START_TIMEOUT {
                bail!("the executor was not ready after {START_TIMEOUT:?}: {:?}", readiness.checks());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(executor)
    }

    /// Returns only if the executor ends without a request to stop, always with an error.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        (&mut self.work).await.context("the executor panicked")??;
        bail!("the executor ended by itself")
    }

    /// Stops the executor and waits until it has stopped.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        let ended = tokio::time::timeout(STOP_TIMEOUT, self.work).await.context("the executor did not stop in time")?;
        Ok(ended.context("the executor panicked")??)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn settings_of_the_user_override_those_of_the_sandbox() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mine.yaml");
        std::fs::write(&file, "executor: {cluster: mine, requeueDuration: 7s}").unwrap();
        let sources = ExecutorConfig {
            files: vec![file.display().to_string()],
            overrides: vec![("executor.requeueDuration".into(), "3s".into())],
            ..ExecutorConfig::default()
        };
        let config = configure(&Program::new(), &sources, "http://127.0.0.1:1/x", Path::new("/data")).unwrap();
        assert_eq!(config.executor.cluster, "mine");
        assert_eq!(config.executor.requeue_duration.to_string(), "3s");
        assert_eq!(config.executor.events_service_url, "http://127.0.0.1:1/x");
        assert_eq!(config.storage.kind, "local");
        let wrong =
            ExecutorConfig { overrides: vec![("executor.clutser".into(), "x".into())], ..ExecutorConfig::default() };
        assert!(
            configure(&Program::new(), &wrong, "http://h", Path::new("/d"))
                .unwrap_err()
                .to_string()
                .contains("cluster")
        );
    }
}
