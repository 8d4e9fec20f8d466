//! The `tasks.resource-limits` section.

use aileron_kubekit::quantity::Quantity;
use aileron_machinery::config::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most that one container of a task may request and use. 0 means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ResourceLimitsConfig {
    /// CPU.
    #[schemars(schema_with = "schema::quantity")]
    pub cpu: Quantity,
    /// Memory.
    #[schemars(schema_with = "schema::quantity")]
    pub memory: Quantity,
    /// Disk space of the node, for the files of the container.
    #[schemars(schema_with = "schema::quantity")]
    pub ephemeral_storage: Quantity,
    /// Accelerators: the resource `plugins.k8s.gpu-resource-name`, and the resource of each of
    /// `plugins.k8s.accelerator-device-classes`.
    #[schemars(schema_with = "schema::quantity")]
    pub gpu: Quantity,
}
