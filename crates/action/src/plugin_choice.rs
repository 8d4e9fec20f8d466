//! Which plugin serves which task type, decided from names alone.
//!
//! The decision needs no cluster and no storage. The registry of a running executor and `aileron plugins` both use it,
//! so they always agree.

mod choice;
mod pooled;
mod rules;
mod served;

use std::collections::{BTreeMap, BTreeSet};

use aileron_machinery::{PluginEntry, PluginSet, ResourceKind};

pub use choice::{Choice, NoPlugin, Why};
pub use rules::{OnMissing, RegistryError, RegistryRules, RuleFor, RuleProblem, UnknownTaskTypes};
pub use served::{MissingKind, Served, ServedKinds, missing_kind};

/// One plugin, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginDescription {
    /// Name and task types.
    pub entry: PluginEntry,
    /// The kind of its objects. None for plugins without objects.
    pub kind: Option<ResourceKind>,
    /// The configuration allows this plugin.
    pub enabled: bool,
    /// The task types that it serves under the rules.
    pub serves: Vec<String>,
    /// It serves every task type that no other plugin serves.
    pub is_default: bool,
}

/// All plugins in the order in which they are considered: Kubernetes plugins, then the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginList {
    plugins: Vec<PluginDescription>,
    by_type: BTreeMap<String, usize>,
    /// Task types whose plugin a rule chose.
    ruled: BTreeSet<String>,
    rules_for: Vec<ResolvedRule>,
    unknown: UnknownTaskTypes,
    default: Option<usize>,
    suspicious_rules: Vec<RuleProblem>,
    warnings: Vec<String>,
}

/// A rule for a project or domain, with the indices of the plugins that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResolvedRule {
    project: String,
    domain: String,
    missing: OnMissing,
    /// Task type → plugin id, and its index if the plugin exists and is enabled.
    task_types: BTreeMap<String, (String, Option<usize>)>,
}

impl PluginList {
    /// Applies the rules to the plugins.
    ///
    /// Where two plugins serve one task type the later wins, with a warning. Mirrors `Registry.Initialize`.
    ///
    /// # Errors
    /// All rules that cannot be followed.
    pub fn new(plugins: &PluginSet, rules: &RegistryRules) -> Result<Self, RegistryError> {
        let managed = plugins.k8s().iter().map(|plugin| (plugin.entry(), Some(plugin.kind())));
        let direct = plugins.core().iter().map(|plugin| (plugin.entry(), None));
        let plugins: Vec<_> = managed
            .chain(direct)
            .map(|(entry, kind)| PluginDescription {
                enabled: rules.enables(&entry.id),
                serves: Vec::new(),
                is_default: false,
                entry,
                kind,
            })
            .collect();
        let mut check = rules.check(&plugins);

        let mut list = Self {
            plugins,
            by_type: BTreeMap::new(),
            ruled: BTreeSet::new(),
            rules_for: Vec::new(),
            unknown: rules.unknown_task_types,
            default: None,
            warnings: Vec::new(),
            suspicious_rules: Vec::new(),
        };
        for index in 0..list.plugins.len() {
            if list.plugins[index].enabled {
                list.add(index);
            }
        }
        for (task_type, id) in &rules.default_for_task_types {
            if let Some(index) = list.usable(id) {
                list.by_type.insert(task_type.clone(), index);
                list.ruled.insert(task_type.clone());
            }
        }
        list.rules_for = rules.rules_for.iter().map(|rule| list.resolved(rule)).collect();
        let pools = list.check_pools(&rules.pooled);
        check.errors.extend(pools.errors);
        if !check.errors.is_empty() {
            return Err(RegistryError(check.errors));
        }
        list.suspicious_rules = check.suspicious.into_iter().map(|rule| list.with_outcome(rule)).collect();
        list.suspicious_rules.extend(pools.suspicious);
        for (task_type, index) in &list.by_type {
            list.plugins[*index].serves.push(task_type.clone());
        }
        if let Some(index) = list.default {
            list.plugins[index].is_default = true;
        }
        Ok(list)
    }

    /// Adds to a rule for a task type that is not followed what happens to these tasks.
    fn with_outcome(&self, mut rule: RuleProblem) -> RuleProblem {
        let task_type = match rule.path.as_slice() {
            [.., key, task_type] if key == "default-for-task-types" => task_type,
            _ => return rule,
        };
        if rule.names_foreign_plugin {
            let outcome = match self.choose(task_type, "", "") {
                Ok(choice) => format!("go to plugin {:?}", self.plugins[choice.index].entry.id),
                Err(error) => format!("fail: {error}"),
            };
            rule.message = format!("{}; tasks of type {task_type:?} {outcome}", rule.message);
        }
        rule
    }

    /// The index of a plugin, if it exists and is enabled.
    fn usable(&self, id: &str) -> Option<usize> {
        self.plugins.iter().position(|plugin| plugin.enabled && plugin.entry.id.eq_ignore_ascii_case(id.trim()))
    }

    fn resolved(&self, rule: &RuleFor) -> ResolvedRule {
        let place = |(task_type, id): (&String, &String)| (task_type.clone(), (id.clone(), self.usable(id)));
        ResolvedRule {
            project: rule.project.clone(),
            domain: rule.domain.clone(),
            missing: rule.missing,
            task_types: rule.task_types.iter().map(place).collect(),
        }
    }

    fn add(&mut self, index: usize) {
        let PluginDescription { entry, kind, .. } = &self.plugins[index];
        for task_type in &entry.task_types {
            if let Some(earlier) = self.by_type.insert(task_type.clone(), index) {
                self.warnings.push(format!(
                    "task type {task_type:?} is served by plugin {:?} and by {:?}; the latter wins",
                    self.plugins[earlier].entry.id, entry.id
                ));
            }
        }
        // The last Kubernetes plugin that is a default is used. A core plugin is the default only if no Kubernetes
        // plugin is.
        if entry.is_default
            && (kind.is_some() || self.default.is_none())
            && let Some(earlier) = self.default.replace(index)
        {
            self.warnings.push(format!(
                "plugins {:?} and {:?} both want to be the default; the latter is",
                self.plugins[earlier].entry.id, entry.id
            ));
        }
    }

    /// The same plugins, none of which is the default.
    #[must_use]
    pub fn without_default(mut self) -> Self {
        if let Some(index) = self.default.take() {
            self.plugins[index].is_default = false;
        }
        self
    }

    /// The plugins.
    #[must_use]
    pub fn plugins(&self) -> &[PluginDescription] {
        &self.plugins
    }

    /// The kinds of the objects of enabled plugins.
    #[must_use]
    pub fn kinds(&self) -> Vec<ResourceKind> {
        let enabled = self.plugins.iter().filter(|plugin| plugin.enabled);
        let mut kinds: Vec<_> = enabled.filter_map(|plugin| plugin.kind.clone()).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    /// Rules that can be followed but look like mistakes, or name plugins that do not exist.
    #[must_use]
    pub fn suspicious_rules(&self) -> &[RuleProblem] {
        &self.suspicious_rules
    }

    /// Warnings about plugins that serve the same task type, of which only the last one is used.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn rules(enabled: &[&str], defaults: &[(&str, &str)]) -> RegistryRules {
        RegistryRules {
            enabled: enabled.iter().map(ToString::to_string).collect(),
            default_for_task_types: defaults
                .iter()
                .map(|(task_type, id)| (task_type.to_string(), id.to_string()))
                .collect(),
            ..RegistryRules::default()
        }
    }

    fn list(rules: &RegistryRules) -> Result<PluginList, RegistryError> {
        PluginList::new(&aileron_plugins::builtin().build(&Default::default()).unwrap(), rules)
    }

    fn id_for<'a>(list: &'a PluginList, task_type: &str) -> Option<&'a str> {
        list.resolve(task_type).map(|index| &*list.plugins()[index].entry.id)
    }

    #[test]
    fn every_enabled_plugin_serves_its_types_and_the_last_default_the_rest() {
        let list = list(&RegistryRules::default()).unwrap();
        assert_eq!(id_for(&list, "core-sleep"), Some("core-sleep"));
        let default = list.plugins().iter().rfind(|plugin| plugin.entry.is_default && plugin.kind.is_some()).unwrap();
        assert_eq!(id_for(&list, "never heard of"), Some(&*default.entry.id));
        assert!(default.is_default);
        assert_eq!(list.plugins().iter().filter(|plugin| plugin.is_default).count(), 1);
        assert_eq!(id_for(&list.without_default(), "never heard of"), None);
    }

    #[test]
    fn a_rule_sends_a_type_elsewhere() {
        let list = list(&rules(&[], &[("python-task", " Core-Sleep ")])).unwrap();
        assert_eq!(id_for(&list, "python-task"), Some("core-sleep"));
        let sleep = list.plugins().iter().find(|plugin| &*plugin.entry.id == "core-sleep").unwrap();
        assert!(sleep.serves.contains(&"python-task".to_owned()));
    }

    #[test]
    fn plugins_that_are_left_out_serve_nothing_and_watch_nothing() {
        let list = list(&rules(&["core-sleep"], &[])).unwrap();
        assert!(list.kinds().is_empty());
        assert_eq!(id_for(&list, "python-task"), None);
        let left_out = list.plugins().iter().filter(|plugin| !plugin.enabled);
        assert!(left_out.clone().count() > 0 && left_out.into_iter().all(|plugin| plugin.serves.is_empty()));
    }

    #[test]
    fn everything_wrong_is_told_at_once() {
        let error = list(&rules(&["core-sleep", "sprak"], &[("a", "nobody"), ("b", "pod")])).unwrap_err();
        assert_eq!(error.0.len(), 3, "{error}");
        let said = |index: usize| error.0[index].to_string();
        assert!(
            said(0).contains("enabled-plugins.1: there is no plugin \"sprak\"; did you mean \"spark\"?"),
            "{error}"
        );
        assert!(said(1).contains("default-for-task-types.a: names plugin \"nobody\""), "{error}");
        assert!(said(2).contains("which enabled-plugins leaves out"), "{error}");
    }

    #[test]
    fn mistakes_in_rules_and_pools_are_told_together() {
        let pooled = [("licences".to_owned(), vec!["core-sleep".to_owned()])].into();
        let error = list(&RegistryRules { pooled, ..rules(&[], &[("a", "nobody")]) }).unwrap_err();
        assert_eq!(error.0.len(), 2, "{error}");
    }

    #[test]
    fn a_plugin_of_flyte_that_does_not_exist_here_gives_a_warning_with_the_outcome() {
        let stock = rules(&[], &[("container_array", "k8s-array"), ("spark", "agent-service")]);
        let list = list(&stock).unwrap();
        let said: Vec<_> = list.suspicious_rules().iter().map(ToString::to_string).collect();
        assert_eq!(
            said[0],
            "tasks.task-plugins.default-for-task-types.container_array: plugin \"k8s-array\" of Flyte 1 does not exist \
             here; tasks of type \"container_array\" go to plugin \"pod\""
        );
        assert!(said[1].ends_with("tasks of type \"spark\" go to plugin \"spark\""), "{said:?}");
        assert!(list.suspicious_rules().iter().all(|rule| rule.names_foreign_plugin));
        assert_eq!(list.choose("spark", "", "").unwrap().why, Why::Declared, "the rule is not followed");
    }
}
