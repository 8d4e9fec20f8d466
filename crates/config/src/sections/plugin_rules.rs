//! The rules of `tasks.task-plugins` that choose plugins for single projects and domains.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A rule that chooses the plugins of a project or domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct RuleFor {
    /// The rule is for tasks of this project. Empty means every project.
    pub project: String,
    /// The rule is for tasks of this domain. Empty means every domain.
    pub domain: String,
    /// The plugin for each task type. The key is the task type, the value is the id of the plugin.
    pub task_types: BTreeMap<String, String>,
    /// What happens if the rule names a plugin that does not exist or is not enabled. `refuse-start`: the executor does
    /// not start. `fail`: the tasks fail with a message. `default`: the rule is ignored for this task type.
    pub missing: OnMissing,
}

/// What happens if a rule names a plugin that does not exist or is not enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnMissing {
    /// The executor does not start.
    #[default]
    RefuseStart,
    /// The tasks that the rule applies to fail. Their error message names the rule and the missing plugin.
    Fail,
    /// The rule is ignored: the tasks go to the plugin that they would have without the rule.
    Default,
}

/// What happens to tasks whose type no plugin declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownTaskTypes {
    /// The default plugin runs them.
    #[default]
    Default,
    /// They fail. Their error message names the task type.
    Fail,
}
