//! The rules for choosing plugins, and the check that they match the existing plugins.

use std::collections::BTreeMap;

pub use aileron_config::sections::plugin_rules::{OnMissing, RuleFor, UnknownTaskTypes};
use aileron_config::{foreign, nearest};

use super::PluginDescription;

/// The rules of `tasks.task-plugins` and the task types of `tasks.pools`.
#[derive(Clone, Debug, Default)]
pub struct RegistryRules {
    /// Plugin ids that may be used; empty means all.
    pub enabled: Vec<String>,
    /// Task type → plugin id. Wins over the task types that plugins declare.
    pub default_for_task_types: BTreeMap<String, String>,
    /// Rules for single projects and domains. They win over the other rules. The first matching rule is used.
    pub rules_for: Vec<RuleFor>,
    /// What happens to tasks whose type no plugin declares.
    pub unknown_task_types: UnknownTaskTypes,
    /// Pool → task types whose tasks need a token of it, from `tasks.pools`.
    pub pooled: BTreeMap<String, Vec<String>>,
}

/// A rule that cannot be followed, or that looks like a mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", .path.join("."))]
pub struct RuleProblem {
    /// The key of the rule: one part for each key, and numbers for the entries of lists.
    pub path: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// The rule names a plugin of Flyte that this executor does not have. The rule is not followed.
    pub names_foreign_plugin: bool,
}

/// The rules do not match the existing plugins. Contains all mistakes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plugin rules cannot be followed:\n{}", lines(.0))]
pub struct RegistryError(pub Vec<RuleProblem>);

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleCheck {
    /// Rules that cannot be followed.
    pub errors: Vec<RuleProblem>,
    /// Rules that are allowed but are probably mistakes, or that name plugins of Flyte that do not exist here.
    pub suspicious: Vec<RuleProblem>,
}

/// Why the plugin of a rule cannot be used.
enum UnusablePlugin {
    /// A plugin of Flyte that this executor does not have. The text is the version of Flyte.
    Foreign(&'static str),
    /// Nobody knows the plugin, or the configuration does not enable it. The text says which.
    Wrong(String),
}

impl RuleProblem {
    pub(super) fn new(path: &[&str], message: impl Into<String>) -> Self {
        let path = path.iter().map(ToString::to_string).collect();
        Self { path, message: message.into(), names_foreign_plugin: false }
    }

    fn foreign(path: &[&str], message: impl Into<String>) -> Self {
        Self { names_foreign_plugin: true, ..Self::new(path, message) }
    }
}

impl RegistryRules {
    pub(super) fn enables(&self, id: &str) -> bool {
        self.enabled.is_empty() || self.enabled.iter().any(|name| name.trim().eq_ignore_ascii_case(id))
    }

    /// Compares the rules with the plugins.
    ///
    /// # Differs from upstream
    ///
    /// A rule that names a plugin which neither this executor nor Flyte has, or which is not enabled, stops the start.
    /// Upstream only logs a warning, and the tasks run with another plugin. A rule that names a plugin of Flyte which this
    /// executor does not have gives a warning, as upstream does.
    pub(super) fn check(&self, plugins: &[PluginDescription]) -> RuleCheck {
        let mut check = RuleCheck::default();
        for (index, name) in self.enabled.iter().enumerate() {
            let path = ["tasks", "task-plugins", "enabled-plugins", &index.to_string()];
            match unknown_plugin(plugins, name) {
                None => {}
                Some(UnusablePlugin::Wrong(problem)) => {
                    check.errors.push(RuleProblem::new(&path, format!("there is no plugin {name:?}; {problem}")));
                }
                Some(UnusablePlugin::Foreign(flyte)) => check
                    .suspicious
                    .push(RuleProblem::foreign(&path, format!("plugin {name:?} of {flyte} does not exist here"))),
            }
        }
        for (task_type, name) in &self.default_for_task_types {
            let path = ["tasks", "task-plugins", "default-for-task-types", task_type];
            match self.unusable(plugins, name) {
                None => {}
                Some(UnusablePlugin::Wrong(problem)) => {
                    check.errors.push(RuleProblem::new(&path, format!("names plugin {name:?}{problem}")));
                }
                Some(UnusablePlugin::Foreign(flyte)) => check
                    .suspicious
                    .push(RuleProblem::foreign(&path, format!("plugin {name:?} of {flyte} does not exist here"))),
            }
            check.suspicious.extend(unusual_type(plugins, task_type).map(|problem| RuleProblem::new(&path, problem)));
        }
        for (index, rule) in self.rules_for.iter().enumerate() {
            for (task_type, name) in &rule.task_types {
                let path = ["tasks", "task-plugins", "overrides", &index.to_string(), "task-types", task_type];
                let problem = self.unusable(plugins, name).map(|problem| match problem {
                    UnusablePlugin::Wrong(problem) => format!("names plugin {name:?}{problem}"),
                    UnusablePlugin::Foreign(flyte) => format!("plugin {name:?} of {flyte} does not exist here"),
                });
                let with = |end: &str| problem.clone().map(|it| RuleProblem::new(&path, format!("{it}{end}")));
                match rule.missing {
                    OnMissing::RefuseStart => check.errors.extend(with("")),
                    OnMissing::Fail => check.suspicious.extend(with("; tasks it is for will fail")),
                    OnMissing::Default => check.suspicious.extend(with("; it is not followed")),
                }
                let unusual = unusual_type(plugins, task_type);
                check.suspicious.extend(unusual.map(|problem| RuleProblem::new(&path, problem)));
            }
        }
        check
    }

    /// Why a plugin cannot be used.
    fn unusable(&self, plugins: &[PluginDescription], name: &str) -> Option<UnusablePlugin> {
        match unknown_plugin(plugins, name) {
            Some(UnusablePlugin::Wrong(problem)) => Some(UnusablePlugin::Wrong(format!("; {problem}"))),
            None if !self.enables(name.trim()) => {
                Some(UnusablePlugin::Wrong(", which enabled-plugins leaves out".into()))
            }
            other => other,
        }
    }
}

fn lines(problems: &[RuleProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn unknown_plugin(plugins: &[PluginDescription], name: &str) -> Option<UnusablePlugin> {
    let ids = || plugins.iter().map(|plugin| &*plugin.entry.id);
    if ids().any(|id| id.eq_ignore_ascii_case(name.trim())) {
        return None;
    }
    if let Some(plugin) = foreign::find(foreign::PLUGINS, name.trim()) {
        return Some(UnusablePlugin::Foreign(plugin.owner));
    }
    Some(UnusablePlugin::Wrong(match nearest(name, ids()) {
        Some(id) => format!("did you mean {id:?}?"),
        None => format!("there are only: {}", ids().collect::<Vec<_>>().join(", ")),
    }))
}

/// A warning if no plugin declares the task type but one declares a similar name. Other unknown task types are normal:
/// users may invent their own.
pub(super) fn unusual_type(plugins: &[PluginDescription], task_type: &str) -> Option<String> {
    let declared = || plugins.iter().flat_map(|plugin| &plugin.entry.task_types).map(String::as_str);
    if declared().any(|known| known == task_type) {
        return None;
    }
    let known = nearest(task_type, declared())?;
    Some(format!("no plugin declares task type {task_type:?}; did you mean {known:?}?"))
}
