//! Configuration and plugins of the executors of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aileron_config::{Config, Sources};
use aileron_machinery::PluginSet;
use aileron_testkit::simulation::executors::Executors;
use aileron_testkit::simulation::faults::FIRST_POOL_LIMIT;
use aileron_testkit::simulation::history::History;
use anyhow::{Context, Result};
use serde_json::json;

use crate::operator::SimJobs;

/// The configuration that processes read when they start. Clones share it.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Tokens of the pool.
    pool_limit: Arc<AtomicUsize>,
}

impl Configuration {
    /// The configuration at the beginning of a run.
    #[must_use]
    pub fn first() -> Self {
        Self { pool_limit: Arc::new(AtomicUsize::new(FIRST_POOL_LIMIT)) }
    }

    /// Reads it, as a process does that starts now.
    ///
    /// # Errors
    /// Never: the values are fixed.
    pub fn read(&self) -> Result<(Config, PluginSet)> {
        let config = config(self.pool_limit.load(Ordering::Relaxed))?;
        let plugins = plugins(&config)?;
        Ok((config, plugins))
    }

    /// Gives the pool another number of tokens. The configuration is read at the start, so all replicas start again.
    pub fn set_pool_limit(&self, limit: usize, executors: &Executors, history: &History) {
        history.note(format!("an administrator gives the pool {limit} tokens"));
        self.pool_limit.store(limit, Ordering::Relaxed);
        executors.stop_all();
    }
}

fn config(pool_limit: usize) -> Result<Config> {
    let text = json!({
        "executor": {
            "leaderElect": true,
            "cluster": "simulation",
            "requeueDuration": "1s",
            "missingKindTimeout": "0s",
            "healthProbeBindAddress": "0",
            "metricsBindAddress": "0",
            "EventsServiceURL": "http://events.invalid",
            "cacheServiceURL": "http://cache.invalid",
        },
        "storage": {"type": "mem", "container": "data"},
        "plugins": {"k8s": {"inject-finalizer": true}},
        "tasks": {"pools": {"licences": {"quota": pool_limit, "task-types": ["licensed"]}}},
    });
    Config::load(&Sources::file("simulation.yaml", &text.to_string())).context("the configuration of the simulation")
}

fn plugins(config: &Config) -> Result<PluginSet> {
    let plugins = aileron_plugins::builtin().build(&config.plugins.section_values())?;
    Ok(plugins.with_object_plugin(Arc::new(SimJobs)))
}
