//! What the operator of an installation decided about plugins, and whether it can be followed.

use std::collections::BTreeMap;

use aileron_config::nearest;
pub use aileron_config::sections::plugin_rules::{OnMissing, RuleFor, UnknownTaskTypes};

use super::PluginDescription;

/// `tasks.task-plugins`: what the operator of the installation decided.
#[derive(Clone, Debug, Default)]
pub struct RegistryRules {
    /// Plugin ids that may be used; empty means all.
    pub enabled: Vec<String>,
    /// Task type → plugin id, over what plugins themselves say.
    pub default_for_task_types: BTreeMap<String, String>,
    /// Rules for single projects and domains, over both; the first that fits counts.
    pub rules_for: Vec<RuleFor>,
    /// What becomes of task types that no plugin serves.
    pub unknown_task_types: UnknownTaskTypes,
    /// Pool → task types whose tasks need a token of it, from `tasks.pools`.
    pub pooled: BTreeMap<String, Vec<String>>,
}

/// The rules contradict the plugins there are. Everything wrong is told at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plugin rules cannot be followed:\n{}", .0.join("\n"))]
pub struct RegistryError(pub Vec<String>);

impl RegistryRules {
    pub(super) fn enables(&self, id: &str) -> bool {
        self.enabled.is_empty() || self.enabled.iter().any(|name| name.trim().eq_ignore_ascii_case(id))
    }

    /// Everything that cannot be followed; else what looks like a slip but can be.
    pub(super) fn check(&self, plugins: &[PluginDescription]) -> Result<Vec<String>, RegistryError> {
        let mut errors = Vec::new();
        for name in &self.enabled {
            if let Some(problem) = unknown_plugin(plugins, name) {
                errors.push(format!("tasks.task-plugins.enabled-plugins names {name:?}; {problem}"));
            }
        }
        let mut warnings = Vec::new();
        for (task_type, name) in &self.default_for_task_types {
            let at = format!("tasks.task-plugins.default-for-task-types.{task_type}");
            errors.extend(self.unusable(plugins, name).map(|problem| format!("{at} names plugin {name:?}{problem}")));
            warnings.extend(unusual_type(plugins, task_type).map(|problem| format!("{at}: {problem}")));
        }
        for (index, rule) in self.rules_for.iter().enumerate() {
            for (task_type, name) in &rule.task_types {
                let at = format!("tasks.task-plugins.overrides[{index}].task-types.{task_type}");
                let problem =
                    self.unusable(plugins, name).map(|problem| format!("{at} names plugin {name:?}{problem}"));
                match rule.missing {
                    OnMissing::RefuseStart => errors.extend(problem),
                    OnMissing::Fail => {
                        warnings.extend(problem.map(|problem| format!("{problem}; tasks it is for will fail")));
                    }
                    OnMissing::Default => {
                        warnings.extend(problem.map(|problem| format!("{problem}; it is not followed")));
                    }
                }
                warnings.extend(unusual_type(plugins, task_type).map(|problem| format!("{at}: {problem}")));
            }
        }
        if errors.is_empty() { Ok(warnings) } else { Err(RegistryError(errors)) }
    }

    /// Why a plugin cannot be used.
    fn unusable(&self, plugins: &[PluginDescription], name: &str) -> Option<String> {
        match unknown_plugin(plugins, name) {
            Some(problem) => Some(format!("; {problem}")),
            None if !self.enables(name.trim()) => Some(", which enabled-plugins leaves out".into()),
            None => None,
        }
    }
}

fn unknown_plugin(plugins: &[PluginDescription], name: &str) -> Option<String> {
    let ids = || plugins.iter().map(|plugin| plugin.entry.id);
    if ids().any(|id| id.eq_ignore_ascii_case(name.trim())) {
        return None;
    }
    Some(match nearest(name, ids()) {
        Some(id) => format!("did you mean {id:?}?"),
        None => format!("there are only: {}", ids().collect::<Vec<_>>().join(", ")),
    })
}

/// A task type that no plugin declares, but almost. Any other is somebody's own.
pub(super) fn unusual_type(plugins: &[PluginDescription], task_type: &str) -> Option<String> {
    let declared = || plugins.iter().flat_map(|plugin| &plugin.entry.task_types).map(String::as_str);
    if declared().any(|known| known == task_type) {
        return None;
    }
    let known = nearest(task_type, declared())?;
    Some(format!("no plugin declares task type {task_type:?}; did you mean {known:?}?"))
}
