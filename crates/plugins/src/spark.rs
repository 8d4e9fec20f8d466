//! Spark applications, run by the Spark operator.

mod build;
mod conf;
pub mod config;
pub mod crd;
mod links;
mod phase;
mod pods;
pub mod resource;

use aileron_machinery::pod::phase::pending_deadline;
use aileron_machinery::{K8sPlugin, Needs, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};
use jiff::Timestamp;

use self::config::SparkConfig;
use self::crd::PodTemplateSupport;
use self::resource::SparkApplication;

/// Plugin id, task type, and the service account of tasks that name none.
const SPARK: &str = "spark";

/// How the operator names the container of a driver.
const DRIVER_CONTAINER: &str = "spark-kubernetes-driver";

/// How the operator names the container of an executor.
const EXECUTOR_CONTAINER: &str = "spark-kubernetes-executor";

/// Runs a task as a [`SparkApplication`].
#[derive(Clone, Debug)]
pub struct SparkPlugin {
    config: SparkConfig,
    pod_templates: PodTemplateSupport,
}

impl SparkPlugin {
    /// The plugin under section `plugins.spark`, in a cluster whose CRD is watched by the holder of `pod_templates`.
    pub fn new(config: SparkConfig, pod_templates: PodTemplateSupport) -> Self {
        Self { config, pod_templates }
    }
}

impl K8sPlugin for SparkPlugin {
    type Resource = SparkApplication;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new(SPARK, &[SPARK])
    }

    fn needs(&self, _: &TaskContext) -> Needs {
        Needs { pods: true, ..Needs::default() }
    }

    fn build(&self, task: &TaskContext) -> Result<SparkApplication, PluginError> {
        let with_templates = self.config.enable_pod_template && self.pod_templates.is_supported();
        build::build(task, &self.config, with_templates)
    }

    fn phase(&self, cx: &PhaseContext<'_>, application: &SparkApplication) -> Result<PhaseInfo, PluginError> {
        Ok(phase::phase(cx, &self.config, application))
    }

    fn due(&self, cx: &PhaseContext<'_>, application: &SparkApplication) -> Option<Timestamp> {
        let driver = phase::driver_pod(cx, application)?;
        pending_deadline(driver.status.as_ref()?, &cx.task.platform.k8s, cx.task.now)
    }

    fn is_terminal(&self, application: &SparkApplication) -> bool {
        phase::is_terminal(application)
    }

    fn completed_at(&self, application: &SparkApplication) -> Option<Timestamp> {
        phase::completed_at(application)
    }
}

#[cfg(test)]
mod tests;
