//! The names of the targets, and why one cannot be prepared.

/// The names of all targets. Each has a folder of this name in `fuzz/corpus`.
pub const NAMES: &[&str] = &[
    "task_template",
    "object",
    "literals",
    "error_document",
    "plugin_state",
    "configuration",
    "task_file",
    "api_request",
    "quota_message",
];

/// A target cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// There is no target of this name.
    #[error("there is no fuzz target {0:?}; there are {names}", names = NAMES.join(", "))]
    Unknown(String),
    /// The configuration that comes with this crate is refused.
    #[error("the configuration {name} is refused")]
    Configuration {
        /// Its file.
        name: &'static str,
        /// The mistakes.
        #[source]
        source: aileron_config::ConfigErrors,
    },
    /// The plugins refuse their settings.
    #[error("the plugins cannot be made")]
    Plugins(#[from] aileron_machinery::SectionError),
    /// The smallest task cannot be read.
    #[error("the task around templates cannot be read")]
    Task(#[from] aileron_preview::read::ReadError),
    /// The definition of TaskAction cannot be made.
    #[error("the definition of TaskAction cannot be made")]
    Definition(#[from] aileron_action::crd::CrdError),
    /// The runtime does not start.
    #[error("the asynchronous runtime does not start")]
    Runtime(#[from] std::io::Error),
}
