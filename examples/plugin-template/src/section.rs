//! The configuration of the installation.

use aileron_machinery::schemars::JsonSchema;
use aileron_machinery::serde::{Deserialize, Serialize};
use aileron_machinery::{PluginSection, SectionProblem};

// TODO(plugin): 4a. What a platform engineer configures once for all tasks. README.md says what goes if there is nothing.
/// BatchJob objects.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "aileron_machinery::serde", default, rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(crate = "aileron_machinery::schemars")]
pub struct BatchConfig {
    /// The queue of tasks that name none.
    pub default_queue: String,
    /// The most pods that a task may ask for.
    pub max_parallelism: u32,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self { default_queue: "standard".to_owned(), max_parallelism: 100 }
    }
}

impl PluginSection for BatchConfig {
    const KEY: &'static str = "batch";

    fn check(&self) -> Vec<SectionProblem> {
        let is_empty = self.default_queue.is_empty();
        is_empty.then(|| SectionProblem::new("default-queue", "must name a queue, got \"\"")).into_iter().collect()
    }
}
