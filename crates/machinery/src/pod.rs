//! Pods: how they are built from a task, and how they are read.
//!
//! Building is a list of small named layers, see [`layers`]. The other modules are what the layers are made of, each
//! one idea; plugins whose objects contain pods use them directly.

pub mod accelerator;
pub mod affinity;
mod arguments;
mod base_template;
pub mod container;
mod copilot;
pub mod decode;
mod draft;
pub mod env_var;
pub mod environment;
pub mod extended_resources;
mod fields;
pub mod layers;
pub mod log_context;
pub mod merge;
mod overlay;
pub mod phase;
mod platform_defaults;
pub mod pod_template;
pub mod resources;
mod service_account;
pub mod shared_memory;
mod source;
pub mod times;
pub mod tolerations;
pub mod vscode;

pub(crate) use arguments::needs_inputs;
pub use draft::PodDraft;
pub use layers::{LayerContext, PodLayer, PodOptions, build_pod};
pub use service_account::service_account;
pub use source::{SIDECAR_TASK_TYPE, own_container};

/// The annotation of a pod, and the template's configuration key, that names the container whose end ends the task.
///
/// ```
/// use aileron_machinery::pod::{PRIMARY_CONTAINER_KEY, build_pod};
/// # use aileron_machinery::{testing::task, serde_json::Value};
///
/// let mut draft = build_pod(&task("batch", &Value::Null), Default::default())?;
/// draft.end_with_primary();
/// assert_eq!(draft.into_pod().metadata.annotations.unwrap()[PRIMARY_CONTAINER_KEY], "run-a0-0");
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub const PRIMARY_CONTAINER_KEY: &str = phase::PRIMARY_CONTAINER_ANNOTATION;
