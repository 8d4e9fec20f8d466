//! The plugin framework of Aileron: everything a task plugin needs, and nothing that does I/O.
//!
//! A plugin turns a task into a Kubernetes object ([`K8sPlugin::build`]) and the object's state into a phase
//! ([`K8sPlugin::phase`]). Both are plain functions of their arguments: what they may look at (template, metadata,
//! configuration, clock, inputs, pods) is handed in as a value, so a plugin is tested with plain values
//! ([`testing`]). The documentation of [`K8sPlugin`] shows a complete plugin, and every other item an example of its use.
//!
//! A plugin crate depends on this crate only. The crates whose types appear in the interface are re-exported:
//! [`k8s_openapi`], [`kube_core`], [`schemars`], [`serde`], [`serde_json`], [`prost`], [`jiff`] and Flyte's messages
//! ([`idl`]); so are the macros [`CustomResource`] and [`async_trait`](macro@async_trait).

// An example imports only what it uses.
#![doc(test(attr(deny(unused_imports))))]

// So that macros of this crate can name it in its own tests.
extern crate self as aileron_machinery;

pub mod arguments;
pub mod config;
mod error;
pub mod log_links;
pub mod output_path;
mod phase;
mod platform;
mod plugin;
pub mod pod;
pub mod secret_annotations;
mod task;
pub mod testing;
pub mod time;

pub use aileron_idl as idl;
pub use async_trait::async_trait;
pub use kube_derive::CustomResource;
pub use {jiff, k8s_openapi, kube_core, prost, schemars, serde, serde_json};

pub use error::{PluginError, StorageOutage, code, text as error_text};
pub use phase::{
    ErrorKind, ExecutionError, ExternalResource, ObservedPhase, Pending, PendingReason, Phase, PhaseContext, PhaseInfo,
    ReasonInfo, TaskInfo,
};
pub use platform::{CopilotStorage, Platform, PodTemplates};
pub use plugin::behavior::{AbortBehavior, Needs, PluginProperties, TokenRequest};
pub use plugin::core::{CorePlugin, CoreRequest, CoreStep, StateWrite, StoredState};
pub use plugin::custom_resource::OtherFields;
pub use plugin::ended::Ended;
pub use plugin::k8s::K8sPlugin;
pub use plugin::kind::{K8sResource, ObjectRef, ResourceKind};
pub use plugin::object::{AnyResource, JsonObject};
pub use plugin::object_plugin::{BuildStep, ObjectPlugin, SteppedBuild, erase};
pub use plugin::section::{PluginSection, Section, SectionData, SectionError, SectionProblem, SectionValues};
pub use plugin::services::{CoreSetup, NoServices, Secrets, ServiceError, TaskServices, TaskWaker, TokenAnswer};
pub use plugin::sources::PluginSources;
pub use plugin::{PluginEntry, PluginSet};

pub use task::action_key::ActionKey;
pub use task::custom::{CustomMessage, custom_as, settings};
pub use task::{Overrides, TaskContext, TaskExecutionId, TaskMetadata, TaskPaths, unique_id};
