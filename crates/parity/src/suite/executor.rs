//! Executors for suites: inside this process, or as the real program.

use std::path::Path;
use std::time::Instant;

use aileron_config::{Config, Sources};
use aileron_executor::assembly::{RunOptions, run};
use aileron_executor::caches::readiness::Readiness;
use aileron_machinery::PluginSet;
use aileron_plugins::builtin::PluginConfigs;
use anyhow::{Context, Result, bail};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{LOOK_EVERY, PATIENCE};
use crate::cluster::{Cluster, User};

/// What an executor is configured with: the same text for both kinds, as a file.
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
    /// Services at `services`, files below `data`, and a short pause between tries: suites wait for them.
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

    /// Sets a key, named by the way to it.
    #[must_use]
    pub fn with(mut self, path: &[&str], value: impl Into<Value>) -> Self {
        let mut place = &mut self.root;
        for key in path {
            place = &mut place[*key];
        }
        *place = value.into();
        self
    }

    /// As a configuration file; JSON is YAML.
    #[must_use]
    pub fn text(&self) -> String {
        self.root.to_string()
    }

    fn config(&self) -> Result<Config> {
        Config::load(&Sources::file("suite.yaml", &self.text())).context("the configuration of the suite")
    }
}

impl Executor {
    /// Starts one and waits until its caches are complete.
    ///
    /// # Errors
    /// It did not start.
    pub async fn start(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        Self::start_with(cluster.client(User::Executor).await?, settings, std::convert::identity).await
    }

    /// The same with a client of one's own, and with other plugins than those that are built in.
    ///
    /// # Errors
    /// It did not start.
    pub async fn start_with(
        client: Client,
        settings: &Settings,
        plugins: impl FnOnce(PluginSet) -> PluginSet,
    ) -> Result<Self> {
        crate::init();
        super::Logs::keep();
        let readiness = Readiness::new();
        let config = settings.config()?;
        let configs: PluginConfigs = (&config.plugins).into();
        let options = RunOptions {
            plugins: plugins(aileron_plugins::builtin(&configs)),
            spark_pod_templates: configs.spark_pod_templates,
            config,
            client,
            namespace: "flyte".to_owned(),
            identity: "in-process".to_owned(),
            readiness: readiness.clone(),
        };
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let task = tokio::spawn(async move { Ok(run(options, stop).await?) });
        let executor = Self { cancel, task: Some(task) };
        let begin = Instant::now();
        while !readiness.is_ready() {
            if executor.task.as_ref().is_some_and(JoinHandle::is_finished) || begin.elapsed() > PATIENCE {
                executor.stop().await?;
                bail!("the executor was not ready after {:?}: {:?}", begin.elapsed(), readiness.checks());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(executor)
    }

    /// Fails if the executor has ended.
    ///
    /// # Errors
    /// It has.
    pub fn check(&self) -> Result<()> {
        match &self.task {
            Some(task) if !task.is_finished() => Ok(()),
            _ => bail!("the executor has ended"),
        }
    }

    /// Ends it in good order.
    ///
    /// # Errors
    /// It ended with one, or did not end.
    pub async fn stop(mut self) -> Result<()> {
        self.cancel.cancel();
        let Some(task) = self.task.take() else { return Ok(()) };
        tokio::time::timeout(PATIENCE, task).await.context("the executor did not end")??
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
