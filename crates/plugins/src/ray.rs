//! Ray jobs, run by KubeRay.

mod build;
pub mod config;
mod phase;
pub mod resource;
mod runtime_env;

use aileron_machinery::{
    Ended, K8sPlugin, Needs, PhaseContext, PhaseInfo, PluginEntry, PluginError, PluginProperties, TaskContext,
};

use self::config::RayConfig;
use self::resource::RayJob;

/// Id of the plugin, and the task type it serves.
const RAY: &str = "ray";

/// KubeRay refuses jobs with longer names: it appends to them for the cluster, and again for services and pods.
const NAME_MAX_LENGTH: usize = 47;

/// The container of the head node's pod, by which operator and dashboards find it.
const HEAD_CONTAINER: &str = "ray-head";

/// Runs a task as a `RayJob`.
#[derive(Clone, Debug, Default)]
pub struct RayPlugin {
    config: RayConfig,
}

impl RayPlugin {
    /// The plugin under this configuration.
    #[must_use]
    pub fn new(config: RayConfig) -> Self {
        Self { config }
    }
}

impl K8sPlugin for RayPlugin {
    type Resource = RayJob;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new(RAY, &[RAY])
    }

    fn properties(&self) -> PluginProperties {
        PluginProperties::default().with_name_max_length(NAME_MAX_LENGTH)
    }

    fn needs(&self, task: &TaskContext) -> Needs {
        Needs::of_pod(task).with_pods().with_error_document()
    }

    fn build(&self, task: &TaskContext) -> Result<RayJob, PluginError> {
        build::build(&self.config, task)
    }

    fn phase(&self, cx: &PhaseContext<'_>, job: &RayJob) -> Result<PhaseInfo, PluginError> {
        Ok(phase::phase(&self.config, cx, job)?.with_check_at(phase::check_at(cx, job)))
    }

    fn ended(&self, job: &RayJob) -> Option<Ended> {
        phase::ended(job)
    }
}

#[cfg(test)]
mod tests;
