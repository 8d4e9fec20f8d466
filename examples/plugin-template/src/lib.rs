//! Tasks of type `batch` become objects of the custom resource `BatchJob`, which an operator runs.
//!
//! - `resource.rs`: the custom resource;
//! - `section.rs`: the configuration of the installation, section `plugins.batch`;
//! - `settings.rs`: the settings of a task, a protobuf message;
//! - `plugin.rs`: the plugin;
//! - `main.rs`: the executor with this plugin.

mod plugin;
mod resource;
mod section;
mod settings;

pub use plugin::BatchPlugin;
pub use resource::{BatchJob, BatchJobSpec, BatchJobStatus};
pub use section::BatchConfig;
