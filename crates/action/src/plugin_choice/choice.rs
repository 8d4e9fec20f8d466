//! The plugin for one task, and why it was chosen.

use std::sync::Arc;

use super::{OnMissing, PluginList, UnknownTaskTypes};

/// The plugin for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its index in [`PluginList::plugins`].
    pub index: usize,
    /// Why it was chosen.
    pub why: Why,
}

/// Why a plugin was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It declares the task type.
    Declared,
    /// `default-for-task-types` names it.
    ForType,
    /// The rule with this index in `overrides` names it.
    Override(usize),
    /// No plugin serves the task type, and it is the default.
    Default,
}

impl Why {
    /// A short name, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::ForType => "default-for-task-types",
            Self::Override(_) => "override",
            Self::Default => "default",
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Declared => f.write_str("the plugin declares the task type"),
            Self::ForType => f.write_str("tasks.task-plugins.default-for-task-types names it for the task type"),
            Self::Override(index) => {
                write!(f, "tasks.task-plugins.overrides[{index}] names it for the project or domain")
            }
            Self::Default => f.write_str("no plugin serves the task type, and it is the default plugin"),
        }
    }
}

/// No plugin takes a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlugin {
    /// No plugin serves the type, and there is no default plugin.
    #[error("no plugin registered for task type {0:?} and no default plugin available")]
    NoDefault(String),
    /// No plugin serves the type, and the configuration does not allow the default plugin for it.
    #[error(
        "no plugin registered for task type {task_type:?}, and tasks.task-plugins.unknown-task-types keeps it from the \
         default plugin {default:?}"
    )]
    Unknown {
        /// The task type.
        task_type: String,
        /// The plugin that would take it.
        default: Arc<str>,
    },
    /// A rule names a plugin that does not exist or is not enabled.
    #[error(
        "tasks.task-plugins.overrides[{rule}] wants plugin {plugin:?} for task type {task_type:?}, which does not exist \
         here or is not enabled"
    )]
    RuleWithoutPlugin {
        /// The number of the rule.
        rule: usize,
        /// The plugin it names.
        plugin: String,
        /// The task type.
        task_type: String,
    },
}

impl PluginList {
    /// The plugin for a task of this project and domain: the first rule for them that names the type, then the rule for
    /// the type, then the plugin that declares it, then the default.
    pub fn choose(&self, task_type: &str, project: &str, domain: &str) -> Result<Choice, NoPlugin> {
        let fits = |wanted: &str, given: &str| wanted.is_empty() || wanted == given;
        let rules = self.rules_for.iter().enumerate();
        let rule = rules.filter(|(_, rule)| fits(&rule.project, project) && fits(&rule.domain, domain));
        let named = rule.filter_map(|(number, rule)| Some((number, rule.missing, rule.task_types.get(task_type)?)));
        for (rule, missing, (plugin, place)) in named {
            match (place, missing) {
                (Some(index), _) => return Ok(Choice { index: *index, why: Why::Override(rule) }),
                (None, OnMissing::Default) => {}
                (None, OnMissing::Fail | OnMissing::RefuseStart) => {
                    let (plugin, task_type) = (plugin.clone(), task_type.to_owned());
                    return Err(NoPlugin::RuleWithoutPlugin { rule, plugin, task_type });
                }
            }
        }
        if let Some(index) = self.by_type.get(task_type).copied() {
            let why = if self.ruled.contains(task_type) { Why::ForType } else { Why::Declared };
            return Ok(Choice { index, why });
        }
        match (self.default, self.unknown) {
            (None, _) => Err(NoPlugin::NoDefault(task_type.to_owned())),
            (Some(index), UnknownTaskTypes::Default) => Ok(Choice { index, why: Why::Default }),
            (Some(index), UnknownTaskTypes::Fail) => Err(NoPlugin::Unknown {
                task_type: task_type.to_owned(),
                default: Arc::clone(&self.plugins[index].entry.id),
            }),
        }
    }

    /// The index of the plugin for a task type, without the rules for single projects and domains.
    #[must_use]
    pub fn resolve(&self, task_type: &str) -> Option<usize> {
        self.choose(task_type, "", "").ok().map(|choice| choice.index)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use super::super::{RegistryRules, RuleFor};
    use super::*;

    fn list(rules: &RegistryRules) -> PluginList {
        PluginList::new(&aileron_plugins::builtin().build(&Default::default()).unwrap(), rules).unwrap()
    }

    fn rule(project: &str, domain: &str, plugin: &str, missing: OnMissing) -> RuleFor {
        let task_types = BTreeMap::from([("spark".to_owned(), plugin.to_owned())]);
        RuleFor { project: project.into(), domain: domain.into(), task_types, missing }
    }

    fn chosen<'a>(list: &'a PluginList, task: [&str; 3]) -> Result<(&'a str, Why), NoPlugin> {
        let choice = list.choose(task[0], task[1], task[2])?;
        Ok((&*list.plugins()[choice.index].entry.id, choice.why))
    }

    #[test]
    fn the_first_rule_that_fits_the_project_and_names_the_type_counts() {
        let rules = RegistryRules {
            rules_for: vec![
                rule("a", "production", "core-sleep", OnMissing::default()),
                rule("", "staging", "ray", OnMissing::default()),
                rule("a", "", "dask", OnMissing::default()),
            ],
            ..RegistryRules::default()
        };
        let list = list(&rules);
        assert_eq!(chosen(&list, ["spark", "a", "production"]), Ok(("core-sleep", Why::Override(0))));
        assert_eq!(chosen(&list, ["spark", "a", "staging"]), Ok(("ray", Why::Override(1))));
        assert_eq!(chosen(&list, ["spark", "a", "development"]), Ok(("dask", Why::Override(2))));
        assert_eq!(chosen(&list, ["spark", "b", "production"]), Ok(("spark", Why::Declared)));
        assert_eq!(chosen(&list, ["core-sleep", "a", "production"]), Ok(("core-sleep", Why::Declared)));
    }

    #[test]
    fn a_rule_for_a_plugin_that_is_not_there_fails_or_is_passed_over() {
        let with = |missing| RegistryRules { rules_for: vec![rule("a", "", "sprak", missing)], ..Default::default() };
        let failing = list(&with(OnMissing::Fail));
        assert!(failing.suspicious_rules()[0].message.contains("did you mean \"spark\"?; tasks it is for will fail"));
        let error = chosen(&failing, ["spark", "a", "d"]).unwrap_err().to_string();
        assert!(error.starts_with("tasks.task-plugins.overrides[0] wants plugin \"sprak\""), "{error}");
        assert_eq!(chosen(&failing, ["spark", "b", "d"]), Ok(("spark", Why::Declared)));
        let passing = list(&with(OnMissing::Default));
        assert_eq!(chosen(&passing, ["spark", "a", "d"]), Ok(("spark", Why::Declared)));
        let plugins = aileron_plugins::builtin().build(&Default::default()).unwrap();
        let refused = PluginList::new(&plugins, &with(OnMissing::RefuseStart)).unwrap_err();
        assert!(refused.to_string().contains("overrides.0.task-types.spark: names plugin \"sprak\""), "{refused}");
    }

    #[test]
    fn types_that_nobody_serves_go_to_the_default_or_fail_by_choice() {
        let by_default = list(&RegistryRules::default());
        assert_eq!(chosen(&by_default, ["shell", "", ""]).unwrap().1, Why::Default);
        let strict = list(&RegistryRules { unknown_task_types: UnknownTaskTypes::Fail, ..Default::default() });
        let error = chosen(&strict, ["shell", "", ""]).unwrap_err().to_string();
        assert!(error.contains("unknown-task-types keeps it from the default plugin"), "{error}");
        assert!(strict.resolve("spark").is_some());
    }

    #[test]
    fn a_rule_for_a_type_that_is_almost_declared_is_told() {
        let defaults = BTreeMap::from([("sparc".to_owned(), "spark".to_owned())]);
        let list = list(&RegistryRules { default_for_task_types: defaults, ..Default::default() });
        assert!(list.suspicious_rules().iter().any(|rule| rule.message.ends_with("did you mean \"spark\"?")));
        assert_eq!(chosen(&list, ["sparc", "", ""]), Ok(("spark", Why::ForType)));
    }
}
