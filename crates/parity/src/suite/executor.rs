//! Executors inside the test process, and their configuration.

use std::path::Path;
use std::time::Instant;

use aileron_config::{Config, Sources};
use aileron_executor::assembly::{RunOptions, run};
use aileron_executor::caches::memory::MemoryCounts;
use aileron_executor::caches::readiness::Readiness;
use aileron_machinery::PluginSet;
use anyhow::{Context, Result, bail};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{POLL_INTERVAL, WAIT_TIMEOUT};
use crate::cluster::{Cluster, User};
use crate::storage_stub::StorageStub;

/// The configuration of an executor. An executor in this process and [`Program`](super::Program) read the same text.
#[derive(Clone, Debug)]
pub struct Settings {
    root: Value,
}

/// An executor inside this process.
#[derive(Debug)]
pub struct Executor {
    cancel: CancellationToken,
    task: Option<JoinHandle<Result<()>>>,
}

impl Settings {
    /// Services at `services`, files below `data`, and a short requeue time, because suites wait for retries.
    #[must_use]
    pub fn new(services: &str, data: &Path) -> Self {
        let root = json!({
            "executor": {
                "EventsServiceURL": services,
                "cacheServiceURL": services,
                "cluster": "suite",
                "requeueDuration": "1s",
                "healthProbeBindAddress": "0",
                "metricsBindAddress": "0",
            },
            "storage": {
                "type": "local",
                "container": "data",
                "stow": {"kind": "local", "config": {"path": data}},
            },
        });
        Self { root }
    }

    /// Uses this object store instead of files.
    #[must_use]
    pub fn with_storage(self, storage: &StorageStub) -> Self {
        self.with(&["storage"], storage.section())
    }

    /// Sets the key at this path.
    #[must_use]
    pub fn with(mut self, path: &[&str], value: impl Into<Value>) -> Self {
        let mut place = &mut self.root;
        for key in path {
            place = &mut place[*key];
        }
        *place = value.into();
        self
    }

    /// The text of the configuration file. JSON is valid YAML.
    #[must_use]
    pub fn text(&self) -> String {
        self.root.to_string()
    }

    pub(super) fn config(&self) -> Result<Config> {
        Config::load(&Sources::file("suite.yaml", &self.text())).context("the configuration of the suite")
    }
}

impl Executor {
    /// Starts an executor and waits until its caches are complete.
    ///
    /// # Errors
    /// The executor did not start.
    pub async fn start(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        Self::start_with(cluster.client(User::Executor).await?, settings, std::convert::identity).await
    }

    /// As [`start`](Self::start), with the given client; `plugins` changes the set of built-in plugins.
    ///
    /// # Errors
    /// The executor did not start.
    pub async fn start_with(
        client: Client,
        settings: &Settings,
        plugins: impl FnOnce(PluginSet) -> PluginSet,
    ) -> Result<Self> {
        crate::init();
        super::Logs::keep();
        let readiness = Readiness::new();
        let config = settings.config()?;
        let options = RunOptions {
            plugins: plugins(aileron_plugins::builtin().build(&config.plugins.section_values())?),
            config,
            client,
            namespace: "flyte".to_owned(),
            identity: "in-process".to_owned(),
            readiness: readiness.clone(),
            memory: MemoryCounts::default(),
        };
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let task = tokio::spawn(async move { Ok(run(options, stop).await?) });
        let executor = Self { cancel, task: Some(task) };
        let begin = Instant::now();
        while !readiness.is_ready() {
            if executor.task.as_ref().is_some_and(JoinHandle::is_finished) || begin.elapsed() > WAIT_TIMEOUT {
                executor.stop().await?;
                bail!("the executor was not ready after {:?}: {:?}", begin.elapsed(), readiness.checks());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(executor)
    }

    /// Fails if the executor has ended.
    ///
    /// # Errors
    /// The executor has ended.
    pub fn check(&self) -> Result<()> {
        match &self.task {
            Some(task) if !task.is_finished() => Ok(()),
            _ => bail!("the executor has ended"),
        }
    }

    /// Shuts the executor down gracefully.
    ///
    /// # Errors
    /// The executor ended with an error, or did not end.
    pub async fn stop(mut self) -> Result<()> {
        self.cancel.cancel();
        let Some(task) = self.task.take() else { return Ok(()) };
        tokio::time::timeout(WAIT_TIMEOUT, task).await.context("the executor did not end")??
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
