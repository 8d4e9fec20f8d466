//! Spark applications, run by the Spark operator.

mod build;
mod conf;
pub mod config;
pub mod crd;
mod links;
mod phase;
mod pods;
pub mod resource;

use aileron_machinery::{
    Ended, K8sPlugin, Needs, PhaseContext, PhaseInfo, PluginEntry, PluginError, PluginProperties, TaskContext,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use self::config::SparkConfig;
use self::crd::DefinitionFacts;
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
}

impl SparkPlugin {
    /// The plugin under section `plugins.spark`.
    pub fn new(config: SparkConfig) -> Self {
        Self { config }
    }
}

impl K8sPlugin for SparkPlugin {
    type Resource = SparkApplication;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new(SPARK, &[SPARK])
    }

    fn properties(&self) -> PluginProperties {
        PluginProperties::default().with_definition()
    }

    fn needs(&self, _: &TaskContext) -> Needs {
        Needs::none().with_pods()
    }

    fn build(&self, task: &TaskContext) -> Result<SparkApplication, PluginError> {
        let definition: DefinitionFacts = task.definition_as();
        let with_templates = self.config.enable_pod_template && definition.pod_templates;
        build::build(task, &self.config, with_templates)
    }

    fn phase(&self, cx: &PhaseContext<'_>, application: &SparkApplication) -> Result<PhaseInfo, PluginError> {
        Ok(phase::phase(cx, &self.config, application).with_check_at(phase::check_at(cx, application)))
    }

    fn ended(&self, application: &SparkApplication) -> Option<Ended> {
        phase::ended(application)
    }

    fn read_definition(&self, definition: &CustomResourceDefinition) -> Value {
        json!(DefinitionFacts::of(definition))
    }
}

#[cfg(test)]
mod tests;
