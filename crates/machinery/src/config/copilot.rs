//! The `plugins.k8s.co-pilot` section: containers that move data for tasks without an SDK inside.

use aileron_kubekit::duration::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;
use super::storage::StorageConfig;

/// Containers that download inputs and upload outputs for tasks whose image does not contain the Flyte SDK.
///
/// ```
/// use aileron_machinery::config::{CoPilotConfig, K8sConfig};
///
/// let co_pilot = CoPilotConfig { storage_config_secret_name: "storage".into(), ..Default::default() };
/// let config = K8sConfig { co_pilot, ..Default::default() };
/// assert_eq!(config.co_pilot.default_input_path, "/var/flyte/inputs");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct CoPilotConfig {
    /// Prefix of the names of co-pilot containers.
    #[serde(rename = "name")]
    pub name_prefix: String,
    /// Image of co-pilot containers.
    pub image: String,
    /// Directory of the inputs in the main container, if the task does not name one.
    pub default_input_path: String,
    /// Directory of the outputs in the main container, if the task does not name one.
    pub default_output_path: String,
    /// Name of the volume with the inputs.
    pub input_vol_name: String,
    /// Name of the volume with the outputs.
    pub output_vol_name: String,
    /// How long co-pilot waits for the main container to start.
    #[schemars(
        schema_with = "schema::duration",
        extend("x-no-effect" = "it is not passed to co-pilot, as in Flyte's executor")
    )]
    pub start_timeout: GoDuration,
    /// Time limit of an upload.
    #[schemars(schema_with = "schema::duration")]
    pub timeout: GoDuration,
    /// CPU request and limit of a co-pilot container, a quantity such as `500m`.
    pub cpu: String,
    /// Memory request and limit of a co-pilot container, a quantity such as `128Mi`.
    pub memory: String,
    /// Size limit of the volumes for inputs and outputs, a quantity.
    #[schemars(extend("x-no-effect" = "the limit is the ephemeral storage that the task requests, as in Flyte's executor"))]
    pub storage: String,
    /// Storage settings of co-pilot, instead of the `storage` section. If set, they are passed on the command line even
    /// if `storage-config-secret-name` is set.
    #[schemars(extend("x-no-effect" = {
        "defaultHttpClient": "not passed to co-pilot",
        "limits": "co-pilot downloads without a limit",
        "schemes": "not passed to co-pilot"
    }))]
    pub storage_config_override: Option<Box<StorageConfig>>,
    /// Name of a Secret with the complete storage configuration of co-pilot, so that the pod specification contains no
    /// credentials. Empty means that the storage settings are passed on the command line.
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
