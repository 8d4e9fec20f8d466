//! One attempt of one task, as plugins see it.

pub mod action_key;
pub mod custom;
mod paths;
pub mod unique_id;

use std::collections::BTreeMap;
use std::sync::Arc;

use aileron_idl::flyteidl2::core::{ExtendedResources, Identifier, K8sPod, LiteralMap, SecurityContext, TaskTemplate};
use aileron_idl::form;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use paths::TaskPaths;

use crate::Platform;
use unique_id::{UniqueIdError, fixed_length_unique_id};

/// Which attempt of which action this is.
///
/// ```
/// use aileron_machinery::testing::task;
/// # use aileron_machinery::serde_json::Value;
///
/// let task = task("batch", &Value::Null);
/// let id = &task.metadata.id;
/// assert_eq!(id.generated_name, "run-a0-0", "the name of the object");
/// assert_eq!(id.generated_name_within(63)?, "run-a0-0");
/// # Ok::<(), aileron_machinery::unique_id::UniqueIdError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
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
    #[serde(with = "form::optional")]
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

/// Values decided for this one execution. They win over what the template says.
///
/// ```
/// use std::sync::Arc;
/// use aileron_machinery::Overrides;
/// use aileron_machinery::pod::build_pod;
/// use aileron_machinery::testing::task;
/// # use aileron_machinery::serde_json::Value;
///
/// let mut task = task("batch", &Value::Null);
/// let overrides = &mut Arc::make_mut(&mut task.metadata).overrides;
/// *overrides = Overrides { container_image: Some("image:2".into()), ..overrides.clone() };
/// assert_eq!(build_pod(&task, Default::default())?.spec.containers[0].image.as_deref(), Some("image:2"));
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Overrides {
    /// Resources of the primary container.
    pub resources: Option<ResourceRequirements>,
    /// Accelerators and shared memory.
    #[serde(with = "form::optional")]
    pub extended_resources: Option<ExtendedResources>,
    /// Image of the primary container.
    pub container_image: Option<String>,
    /// A pod template laid over the task's own.
    #[serde(with = "form::optional")]
    pub pod_template: Option<K8sPod>,
}

/// Everything about an attempt that is not the template itself.
///
/// ```
/// use std::sync::Arc;
/// use aileron_machinery::TaskMetadata;
/// use aileron_machinery::testing::task;
/// # use aileron_machinery::serde_json::Value;
///
/// let mut task = task("batch", &Value::Null);
/// task.metadata = Arc::new(TaskMetadata { interruptible: true, max_attempts: 3, ..(*task.metadata).clone() });
/// assert_eq!(task.metadata.namespace, "p-d");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
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
    #[serde(with = "form::optional")]
    pub security_context: Option<SecurityContext>,
    /// Address of the console, empty if there is none.
    pub console_url: String,
    /// Values decided for this one execution.
    pub overrides: Overrides,
    /// Bounds and defaults of the platform for resources.
    pub platform_resources: ResourceRequirements,
}

/// One attempt of one task: what the methods of a plugin may look at.
///
/// Values that must be fetched first are present only if the plugin [needs](crate::Needs) them.
///
/// ```
/// use aileron_machinery::testing::{NOW, task};
/// # use aileron_machinery::serde_json::json;
///
/// let task = task("kettle", &json!({"litres": 2}));
/// assert_eq!(task.template.r#type, "kettle");
/// assert_eq!(task.now, NOW.parse()?, "plugins do not read the clock");
/// assert!(task.inputs.is_none(), "inputs must be asked for by `needs`");
/// # Ok::<(), aileron_machinery::jiff::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskContext {
    /// The decoded template, shared by all rounds of the action.
    pub template: Arc<TaskTemplate>,
    /// Everything else about the attempt.
    pub metadata: Arc<TaskMetadata>,
    /// Where inputs are and outputs go.
    pub paths: Arc<TaskPaths>,
    /// The inputs, if the plugin needs them.
    pub inputs: Option<Arc<LiteralMap>>,
    /// The pod that the platform builds for the task, if the plugin needs it. A plugin in Rust calls
    /// [`build_pod`](crate::pod::build_pod) instead; one that is not written in Rust cannot.
    pub base_pod: Option<Arc<Pod>>,
    /// What the plugin read from the definition of its kind, see [`K8sPlugin::read_definition`](crate::K8sPlugin).
    /// Absent while the cluster has no such definition.
    pub definition: Option<Arc<Value>>,
    /// Configuration and cluster-wide defaults.
    pub platform: Platform,
    /// The time of this round. Plugins use it instead of the clock of the machine.
    pub now: Timestamp,
}

impl TaskContext {
    /// An attempt without anything that has to be fetched.
    ///
    /// ```
    /// use aileron_machinery::idl::flyteidl2::core::TaskTemplate;
    /// use aileron_machinery::jiff::Timestamp;
    /// use aileron_machinery::{Platform, TaskContext, TaskMetadata, TaskPaths};
    ///
    /// let template = TaskTemplate { r#type: "kettle".into(), ..TaskTemplate::default() };
    /// let paths = TaskPaths { input_prefix: "s3://data/in".into(), ..TaskPaths::default() };
    /// let now = Timestamp::UNIX_EPOCH;
    /// let task = TaskContext::new(template, TaskMetadata::default(), paths, Platform::default(), now);
    /// assert_eq!(task.paths.input_path(), "s3://data/in/inputs.pb");
    /// ```
    pub fn new(
        template: impl Into<Arc<TaskTemplate>>,
        metadata: impl Into<Arc<TaskMetadata>>,
        paths: impl Into<Arc<TaskPaths>>,
        platform: Platform,
        now: Timestamp,
    ) -> Self {
        Self {
            template: template.into(),
            metadata: metadata.into(),
            paths: paths.into(),
            inputs: None,
            base_pod: None,
            definition: None,
            platform,
            now,
        }
    }

    /// What the plugin read from the definition of its kind, as a type. The default if there is no definition, or if it
    /// was read by a version of the plugin that kept something else.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use aileron_machinery::testing::task;
    /// # use aileron_machinery::serde_json::{Value, json};
    ///
    /// /// What `K8sPlugin::read_definition` has returned.
    /// #[derive(Default, serde::Deserialize)]
    /// struct Facts {
    ///     has_v2: bool,
    /// }
    /// let mut task = task("kettle", &Value::Null);
    /// assert!(!task.definition_as::<Facts>().has_v2, "no definition is known yet");
    /// task.definition = Some(Arc::new(json!({"has_v2": true})));
    /// assert!(task.definition_as::<Facts>().has_v2);
    /// ```
    pub fn definition_as<T: DeserializeOwned + Default>(&self) -> T {
        self.definition.as_deref().and_then(|facts| T::deserialize(facts).ok()).unwrap_or_default()
    }
}
