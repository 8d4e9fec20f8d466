//! Ray jobs, run by KubeRay.

mod build;
pub mod config;
mod phase;
pub mod resource;
mod runtime_env;

use aileron_machinery::pod::needs_inputs;
use aileron_machinery::{
    K8sPlugin, Needs, PhaseContext, PhaseInfo, PluginEntry, PluginError, PluginProperties, TaskContext,
};
use jiff::Timestamp;

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
        PluginProperties { generated_name_max_length: Some(NAME_MAX_LENGTH), ..PluginProperties::default() }
    }

    fn needs(&self, task: &TaskContext) -> Needs {
        Needs { inputs: needs_inputs(task), pods: true }
    }

    fn build(&self, task: &TaskContext) -> Result<RayJob, PluginError> {
        build::build(&self.config, task)
    }

    fn reads_error_document(&self, job: &RayJob) -> bool {
        phase::has_failed(job)
    }

    fn phase(&self, cx: &PhaseContext<'_>, job: &RayJob) -> Result<PhaseInfo, PluginError> {
        phase::phase(&self.config, cx, job)
    }

    fn due(&self, cx: &PhaseContext<'_>, job: &RayJob) -> Option<Timestamp> {
        phase::due(cx, job)
    }

    fn is_terminal(&self, job: &RayJob) -> bool {
        phase::is_terminal(job)
    }

    fn completed_at(&self, job: &RayJob) -> Option<Timestamp> {
        phase::completed_at(job)
    }
}

#[cfg(test)]
mod tests;
