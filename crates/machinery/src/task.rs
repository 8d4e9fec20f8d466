//! One attempt of one task, as plugins see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use aileron_idl::flyteidl2::core::{ExtendedResources, Identifier, K8sPod, LiteralMap, SecurityContext, TaskTemplate};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::unique_id::{UniqueIdError, fixed_length_unique_id};
use crate::{Platform, TaskPaths};

/// Which attempt of which action this is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskExecutionId {
    /// Project of the run.
    pub project: String,
    /// Domain of the run.
    pub domain: String,
    /// Name of the run.
    pub run: String,
    /// Name of the action within the run.
    pub action: String,
    /// Attempts before this one: 0 on the first.
    pub retry_attempt: u32,
    /// The registered task.
    pub task: Option<Identifier>,
    /// Names this attempt uniquely within its namespace; the objects made for it bear this name.
    pub generated_name: String,
    /// Names the action uniquely within its namespace.
    pub unique_node_id: String,
}

impl TaskExecutionId {
    /// The generated name, shortened to a bound without losing uniqueness.
    pub fn generated_name_within(&self, max_length: usize) -> Result<String, UniqueIdError> {
        fixed_length_unique_id(&self.generated_name, max_length)
    }
}

/// What somebody decided for this one execution, over what the template says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Resources of the primary container.
    pub resources: Option<ResourceRequirements>,
    /// Accelerators and shared memory.
    pub extended_resources: Option<ExtendedResources>,
    /// Image of the primary container.
    pub container_image: Option<String>,
    /// A pod template laid over the task's own.
    pub pod_template: Option<K8sPod>,
}

/// Everything about an attempt that is not the template itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskMetadata {
    /// Which attempt of which action.
    pub id: TaskExecutionId,
    /// Namespace of the action, and of every object made for it.
    pub namespace: String,
    /// The action, as owner of those objects.
    pub owner: OwnerReference,
    /// Labels for those objects.
    pub labels: BTreeMap<String, String>,
    /// Annotations for those objects.
    pub annotations: BTreeMap<String, String>,
    /// Environment for user code.
    pub env_vars: BTreeMap<String, String>,
    /// May run on machines that can be taken away.
    pub interruptible: bool,
    /// How many attempts the user allows in all.
    pub max_attempts: u32,
    /// Service account for pods; empty means the namespace's default.
    pub service_account: String,
    /// Secrets and identity.
    pub security_context: Option<SecurityContext>,
    /// Address of the console, empty if there is none.
    pub console_url: String,
    /// What somebody decided for this execution.
    pub overrides: Overrides,
    /// Bounds and defaults of the platform for resources.
    pub platform_resources: ResourceRequirements,
}

/// What [`crate::K8sPlugin::build`] may look at.
#[derive(Clone, Debug)]
pub struct TaskContext {
    /// The decoded template, shared by all rounds of the action.
    pub template: Arc<TaskTemplate>,
    /// Everything else about the attempt.
    pub metadata: Arc<TaskMetadata>,
    /// Where inputs are and outputs go.
    pub paths: Arc<TaskPaths>,
    /// The inputs, if the plugin [needs](crate::Needs) them and they exist.
    pub inputs: Option<Arc<LiteralMap>>,
    /// Configuration and cluster-wide defaults.
    pub platform: Platform,
    /// The clock.
    pub now: Timestamp,
}
