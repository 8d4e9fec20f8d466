//! The `plugins.kf-operator` section, shared by the PyTorch, TensorFlow and MPI plugins.

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::PluginSection;
use aileron_machinery::config::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Jobs of the Kubeflow training operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KubeflowConfig {
    /// A job whose status the operator has not touched for this long has failed.
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
