//! Checks the task types of pools: the tasks of these types must wait for a token.
//!
//! The plugin manager asks for the tokens of `tasks.pools.<pool>.task-types` before it creates the object of a task. The
//! tasks of a core plugin have no such object. A core plugin asks for tokens itself, if it uses any, so a pool that names
//! its task type would not limit these tasks.

use std::collections::BTreeMap;

use super::rules::{RuleCheck, RuleProblem, unusual_type};
use super::{PluginList, Why};

impl PluginList {
    /// Compares the task types of pools with the plugins that serve them. A pool that names a task type which a plugin
    /// without Kubernetes objects serves is a mistake: the pool would not limit these tasks.
    pub(super) fn check_pools(&self, pooled: &BTreeMap<String, Vec<String>>) -> RuleCheck {
        let mut check = RuleCheck::default();
        let entries = pooled.iter().flat_map(|(pool, types)| types.iter().enumerate().map(move |it| (pool, it)));
        for (pool, (index, task_type)) in entries {
            let index = index.to_string();
            let path = ["tasks", "pools", pool, "task-types", &index];
            let core_plugin = |index: usize| {
                let plugin = &self.plugins[index];
                plugin.kind.is_none().then_some(&plugin.entry.id)
            };
            let suspicious = |message: String| RuleProblem::new(&path, message);
            match self.choose(task_type, "", "") {
                Ok(choice) => {
                    if let Some(id) = core_plugin(choice.index) {
                        let message = format!(
                            "plugin {id:?} serves {task_type:?}; it makes no Kubernetes objects, and its tasks wait for \
                             no token"
                        );
                        check.errors.push(RuleProblem::new(&path, message));
                    }
                    let unusual = (choice.why == Why::Default).then(|| unusual_type(&self.plugins, task_type));
                    check.suspicious.extend(unusual.flatten().map(suspicious));
                }
                Err(error) => check.suspicious.push(suspicious(format!("tasks of type {task_type:?} fail: {error}"))),
            }
            for (number, rule) in self.rules_for.iter().enumerate() {
                let named = rule.task_types.get(task_type).and_then(|(_, place)| *place);
                if let Some(id) = named.and_then(core_plugin) {
                    check.suspicious.push(suspicious(format!(
                        "tasks.task-plugins.overrides[{number}] sends {task_type:?} to plugin {id:?}; it makes no \
                         Kubernetes objects, and tasks of that project or domain wait for no token"
                    )));
                }
            }
        }
        check
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{RegistryError, RegistryRules, RuleFor, UnknownTaskTypes};
    use super::*;

    fn list(rules: RegistryRules, task_type: &str) -> Result<PluginList, RegistryError> {
        let pooled = [("licences".to_owned(), vec![task_type.to_owned()])].into();
        let plugins = aileron_plugins::builtin().build(&Default::default()).unwrap();
        PluginList::new(&plugins, &RegistryRules { pooled, ..rules })
    }

    #[test]
    fn a_pool_for_tasks_that_never_ask_for_a_token_stops_the_start() {
        let error = list(RegistryRules::default(), "core-sleep").unwrap_err().to_string();
        let words = "tasks.pools.licences.task-types.0: plugin \"core-sleep\" serves \"core-sleep\"";
        assert!(error.contains(words), "{error}");
        let sent = [("spark".to_owned(), "core-sleep".to_owned())];
        let sent_away = RegistryRules { default_for_task_types: sent.clone().into(), ..RegistryRules::default() };
        assert!(
            list(sent_away, "spark").is_err(),
            "the plugin that serves the type counts, not the one that declares it"
        );
        assert_eq!(list(RegistryRules::default(), "spark").unwrap().suspicious_rules(), []);
        assert_eq!(
            list(RegistryRules::default(), "shell").unwrap().suspicious_rules(),
            [],
            "the default plugin takes it"
        );

        let rule = RuleFor { project: "p".into(), task_types: sent.into(), ..RuleFor::default() };
        let list = list(RegistryRules { rules_for: vec![rule], ..RegistryRules::default() }, "spark").unwrap();
        assert!(
            list.suspicious_rules()[0].message.contains("overrides[0] sends \"spark\" to plugin \"core-sleep\""),
            "{:?}",
            list.suspicious_rules()
        );
    }

    #[test]
    fn a_task_type_that_looks_like_a_mistake_is_reported() {
        let almost = list(RegistryRules::default(), "sparc").unwrap();
        assert!(
            almost.suspicious_rules()[0].message.ends_with("did you mean \"spark\"?"),
            "{:?}",
            almost.suspicious_rules()
        );
        let strict = RegistryRules { unknown_task_types: UnknownTaskTypes::Fail, ..RegistryRules::default() };
        let unserved = list(strict, "shell").unwrap();
        assert!(
            unserved.suspicious_rules()[0].message.contains("tasks of type \"shell\" fail"),
            "{:?}",
            unserved.suspicious_rules()
        );
    }
}
