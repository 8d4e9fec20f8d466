//! The `plugins.k8s.co-pilot` section: containers that move data for tasks without an SDK inside.

use aileron_kubekit::duration::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;
use super::storage::StorageConfig;

/// Containers that move inputs and outputs for tasks without an SDK inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct CoPilotConfig {
    /// Prefix of the co-pilot containers' names.
    #[serde(rename = "name")]
    pub name_prefix: String,
    /// Image with the co-pilot binary.
    pub image: String,
    /// Where inputs are mounted when the task does not say.
    pub default_input_path: String,
    /// Where outputs are mounted when the task does not say.
    pub default_output_path: String,
    /// Name of the volume with the inputs.
    pub input_vol_name: String,
    /// Name of the volume with the outputs.
    pub output_vol_name: String,
    /// How long the sidecar waits for the main container to appear before it gives up; 0 means co-pilot's own default.
    #[schemars(schema_with = "schema::duration")]
    pub start_timeout: GoDuration,
    /// Time limit of an upload.
    #[schemars(schema_with = "schema::duration")]
    pub timeout: GoDuration,
    /// CPU of a co-pilot container, a quantity.
    pub cpu: String,
    /// Memory of a co-pilot container, a quantity.
    pub memory: String,
    /// Size limit of the volumes for inputs and outputs, a quantity; empty means none.
    pub storage: String,
    /// Storage settings for co-pilot that replace the `storage` section. When set, they are passed on the command line
    /// even if `storage-config-secret-name` is set.
    pub storage_config_override: Option<Box<StorageConfig>>,
    /// Secret with co-pilot's whole storage configuration, which keeps credentials out of the pod. Empty means the
    /// settings are passed on the command line.
    pub storage_config_secret_name: String,
}

/// One hour: an upload that takes longer is stuck.
const UPLOAD_TIMEOUT_SECONDS: i64 = 3600;

impl Default for CoPilotConfig {
    fn default() -> Self {
        Self {
            name_prefix: "flyte-copilot-".into(),
            image: "cr.flyte.org/flyteorg/flyte-binary-v2:latest".into(),
            default_input_path: "/var/flyte/inputs".into(),
            default_output_path: "/var/flyte/outputs".into(),
            input_vol_name: "flyte-inputs".into(),
            output_vol_name: "flyte-outputs".into(),
            start_timeout: GoDuration::default(),
            timeout: GoDuration::from_secs(UPLOAD_TIMEOUT_SECONDS),
            cpu: "500m".into(),
            memory: "128Mi".into(),
            storage: String::new(),
            storage_config_override: None,
            storage_config_secret_name: String::new(),
        }
    }
}
