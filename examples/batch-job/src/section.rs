//! The configuration of the installation.

use aileron_machinery::schemars::JsonSchema;
use aileron_machinery::serde::{Deserialize, Serialize};
use aileron_machinery::{PluginSection, SectionProblem};

/// Batch jobs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "aileron_machinery::serde", default, rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(crate = "aileron_machinery::schemars")]
pub struct BatchJobConfig {
    /// The queue of tasks that name none.
    pub default_queue: String,
}

impl Default for BatchJobConfig {
    fn default() -> Self {
        Self { default_queue: "standard".to_owned() }
    }
}

impl PluginSection for BatchJobConfig {
    const KEY: &'static str = "batch-job";

    fn check(&self) -> Vec<SectionProblem> {
        let is_empty = self.default_queue.is_empty();
        is_empty.then(|| SectionProblem::new("default-queue", "must name a queue, got \"\"")).into_iter().collect()
    }
}
