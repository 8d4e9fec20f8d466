//! The configuration sections that pod building, log links and paths read.
//!
//! Section names, keys and defaults are those of upstream's executor, so one file serves both. Every doc comment on a
//! field is that key's documentation: it reaches the JSON Schema, the commented example and the reference page.
//!
//! These types only describe the data. Finding, merging and checking configuration files is the executor's concern.

pub mod accelerators;
pub mod copilot;
pub mod ioutils;
pub mod k8s;
pub mod logger;
pub mod logs;
pub mod schema;
pub mod storage;

pub use accelerators::AcceleratorDeviceClass;
pub use copilot::CoPilotConfig;
pub use ioutils::IoUtilsConfig;
pub use k8s::{DeleteFinished, K8sConfig};
pub use logger::LoggerConfig;
pub use logs::{AzureLogTemplate, LogConfig, LogTemplate, TemplateScheme};
pub use storage::StorageConfig;
