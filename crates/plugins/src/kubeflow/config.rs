//! The `plugins.kf-operator` section, shared by the PyTorch, TensorFlow and MPI plugins.

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::PluginSection;
use aileron_machinery::config::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The PyTorch, TensorFlow and MPI plugins, which create jobs of the Kubeflow training operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KubeflowConfig {
    /// If the operator does not update the status of a new job for this long, the task fails.
    #[schemars(schema_with = "schema::duration")]
    pub timeout: GoDuration,
}

impl PluginSection for KubeflowConfig {
    const KEY: &'static str = "kf-operator";
}

impl Default for KubeflowConfig {
    fn default() -> Self {
        Self { timeout: GoDuration::from_secs(60) }
    }
}
