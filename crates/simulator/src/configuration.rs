//! Configuration and plugins of the executors of a run.

use std::sync::{Arc, Mutex, PoisonError};

use aileron_config::{Config, Sources};
use aileron_machinery::PluginSet;
use aileron_testkit::simulation::executors::Executors;
use aileron_testkit::simulation::faults::FIRST_POOL_LIMIT;
use aileron_testkit::simulation::history::History;
use anyhow::{Context, Result};
use serde_json::json;

use crate::operator::SimJobs;

/// The pool of tokens that an administrator changes.
const POOL: &str = "licences";

/// The configuration that processes read when they start. Clones share it.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// It is parsed once: this takes as long as a tenth of a run, and runs start many processes.
    config: Arc<Mutex<Config>>,
}

impl Configuration {
    /// The configuration at the beginning of a run.
    ///
    /// # Errors
    /// Never: the values are fixed.
    pub fn first() -> Result<Self> {
        Ok(Self { config: Arc::new(Mutex::new(config()?)) })
    }

    /// Reads it, as a process does that starts now.
    ///
    /// # Errors
    /// Never: the values are fixed.
    pub fn read(&self) -> Result<(Config, PluginSet)> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let plugins = plugins(&config)?;
        Ok((config, plugins))
    }

    /// Gives the pool another number of tokens. The configuration is read at the start, so all replicas start again.
    pub fn set_pool_limit(&self, limit: usize, executors: &Executors, history: &History) {
        history.note(format!("an administrator gives the pool {limit} tokens"));
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = config.tasks.pools.get_mut(POOL) {
            pool.quota = u32::try_from(limit).unwrap_or(u32::MAX);
        }
        drop(config);
        executors.stop_all();
    }
}

fn config() -> Result<Config> {
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
        "tasks": {"pools": {POOL: {"quota": FIRST_POOL_LIMIT, "task-types": ["licensed"]}}},
    });
    Config::load(&Sources::file("simulation.yaml", &text.to_string())).context("the configuration of the simulation")
}

fn plugins(config: &Config) -> Result<PluginSet> {
    let plugins = aileron_plugins::builtin().build(&config.plugins.section_values())?;
    Ok(plugins.with_object_plugin(Arc::new(SimJobs)))
}
