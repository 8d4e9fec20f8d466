//! Rules of `tasks.task-plugins` that choose plugins for projects and domains.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The plugins of one project or domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct RuleFor {
    /// The project; empty means every project.
    pub project: String,
    /// The domain; empty means every domain.
    pub domain: String,
    /// The plugin of each task type: task type, plugin id.
    pub task_types: BTreeMap<String, String>,
    /// What happens if such a plugin does not exist here or is not enabled.
    pub missing: OnMissing,
}

/// What happens if a plugin that a rule names is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnMissing {
    /// The executor does not start.
    #[default]
    RefuseStart,
    /// Tasks that the rule is for fail, and say why.
    Fail,
    /// Tasks that the rule is for go to the plugin they would go to without it.
    Default,
}

/// What becomes of task types that no plugin serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownTaskTypes {
    /// They go to the default plugin.
    #[default]
    Default,
    /// They fail, and say why.
    Fail,
}
