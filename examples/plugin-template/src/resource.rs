//! The custom resource.

use aileron_machinery::CustomResource;
use aileron_machinery::k8s_openapi::api::core::v1::PodTemplateSpec;
use aileron_machinery::schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use aileron_machinery::serde::{Deserialize, Serialize};

// TODO(plugin): 2a. The custom resource of your operator: group, version, kind, and the fields that the plugin sets or reads.
// Fields that are not here stay as they are when the executor changes an object.
/// Runs copies of one pod until all of them have ended.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "compute.example.org",
    version = "v1",
    kind = "BatchJob",
    plural = "batchjobs",
    namespaced,
    status = "BatchJobStatus"
)]
#[kube(crates(
    kube_core = "aileron_machinery::kube_core",
    k8s_openapi = "aileron_machinery::k8s_openapi",
    schemars = "aileron_machinery::schemars",
    serde = "aileron_machinery::serde",
    serde_json = "aileron_machinery::serde_json"
))]
#[serde(crate = "aileron_machinery::serde", rename_all = "camelCase")]
#[schemars(crate = "aileron_machinery::schemars")]
pub struct BatchJobSpec {
    /// The queue in which the operator puts the job.
    pub queue: String,
    /// The number of pods that work at the same time.
    pub parallelism: u32,
    /// The operator stops the pods and starts no more.
    #[serde(default)]
    pub suspend: bool,
    /// The pod of each copy.
    #[schemars(schema_with = "any_object")]
    pub template: PodTemplateSpec,
}

/// The schema of a pod has thousands of lines, and the API server checks the pods themselves when the operator creates them.
fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// What the operator reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "aileron_machinery::serde", default, rename_all = "camelCase")]
#[schemars(crate = "aileron_machinery::schemars")]
pub struct BatchJobStatus {
    /// `Running`, `Succeeded` or `Failed`. Empty while the job waits in its queue.
    pub phase: String,
    /// Why the job is in this phase.
    pub message: String,
}
