//! The plugin framework of Aileron: everything a task plugin needs, and nothing that touches the world.
//!
//! A plugin turns a task into a Kubernetes object ([`K8sPlugin::build`]) and the object's state into a phase
//! ([`K8sPlugin::phase`]). Both are plain functions of their arguments: what they may look at (template, metadata,
//! configuration, clock, inputs, pods) is handed in as a value, so a plugin is tested with plain values.

mod action_key;
pub mod arguments;
pub mod backoff;
pub mod clock;
pub mod config;
mod error;
pub mod error_text;
pub mod jitter;
pub mod log_links;
pub mod output_path;
mod paths;
mod pending;
mod phase;
mod platform;
mod plugin;
pub mod pod;
mod pod_templates;
pub mod secret_annotations;
mod task;
pub mod unique_id;

pub use action_key::ActionKey;
pub use error::{PluginError, code};
pub use paths::TaskPaths;
pub use pending::{Pending, PendingReason};
pub use phase::{ErrorKind, ExecutionError, ExternalResource, ObservedPhase, Phase, PhaseInfo, ReasonInfo, TaskInfo};
pub use platform::Platform;
pub use plugin::core::{CorePlugin, CoreRequest, CoreStep, StateWrite, StoredState, TaskData, TaskDataError};
pub use plugin::erased::{AnyK8sPlugin, AnyResource, ErasedAbort, erase};
pub use plugin::k8s::{
    AbortBehavior, K8sPlugin, K8sResource, Needs, PhaseContext, PluginProperties, ResourceKind, TokenRequest,
};
pub use plugin::{PluginEntry, PluginSet};
pub use pod_templates::PodTemplates;
pub use task::{Overrides, TaskContext, TaskExecutionId, TaskMetadata};
