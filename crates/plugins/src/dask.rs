//! Dask jobs, run by the Dask operator.

mod build;
pub mod config;
mod dashboard;
mod phase;
pub mod resource;

use aileron_machinery::{Ended, K8sPlugin, Needs, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};

use self::config::DaskConfig;
use self::resource::DaskJob;

/// Plugin id and task type.
const DASK: &str = "dask";

/// How the container is called that runs the task itself.
const JOB_RUNNER: &str = "job-runner";

/// How the scheduler's container is called; also part of its pod's name, and the value of its component label.
const SCHEDULER: &str = "scheduler";

/// Runs a task as a [`DaskJob`].
#[derive(Clone, Debug)]
pub struct DaskPlugin {
    config: DaskConfig,
}

impl DaskPlugin {
    /// The plugin under section `plugins.dask`.
    pub fn new(config: DaskConfig) -> Self {
        Self { config }
    }
}

impl K8sPlugin for DaskPlugin {
    type Resource = DaskJob;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new(DASK, &[DASK])
    }

    fn needs(&self, _: &TaskContext) -> Needs {
        Needs::none().with_pods()
    }

    fn build(&self, task: &TaskContext) -> Result<DaskJob, PluginError> {
        build::build(task, &self.config)
    }

    fn phase(&self, cx: &PhaseContext<'_>, job: &DaskJob) -> Result<PhaseInfo, PluginError> {
        Ok(phase::phase(cx, &self.config, job).with_check_at(phase::check_at(cx, job)))
    }

    fn ended(&self, job: &DaskJob) -> Option<Ended> {
        phase::ended(job)
    }
}

#[cfg(test)]
mod tests;
