//! Whether the tasks that need a token of a pool are tasks that can be made to wait for one.
//!
//! Tokens are asked for by whoever makes Kubernetes objects. A task without an object holds nothing that a pool could
//! bound, and would run past it.

use std::collections::BTreeMap;

use super::rules::unusual_type;
use super::{PluginList, RegistryError, Why};

impl PluginList {
    /// Pools that would not bound what they name cannot be followed; the answer is what only looks like a slip.
    pub(super) fn check_pools(&self, pooled: &BTreeMap<String, Vec<String>>) -> Result<Vec<String>, RegistryError> {
        let (mut errors, mut slips) = (Vec::new(), Vec::new());
        for (pool, task_type) in pooled.iter().flat_map(|(pool, types)| types.iter().map(move |it| (pool, it))) {
            let at = format!("tasks.pools.{pool}.task-types names {task_type:?}");
            let free = |index: usize| {
                let plugin = &self.plugins[index];
                plugin.kind.is_none().then_some(plugin.entry.id)
            };
            match self.choose(task_type, "", "") {
                Ok(choice) => {
                    if let Some(id) = free(choice.index) {
                        errors.push(format!(
                            "{at}, which plugin {id:?} serves; it makes no Kubernetes objects, and its tasks wait for no \
                             token"
                        ));
                    }
                    let unusual = (choice.why == Why::Default).then(|| unusual_type(&self.plugins, task_type));
                    slips.extend(unusual.flatten().map(|problem| format!("{at}; {problem}")));
                }
                Err(error) => slips.push(format!("{at}, but tasks of it fail: {error}")),
            }
            for (number, rule) in self.rules_for.iter().enumerate() {
                let named = rule.task_types.get(task_type).and_then(|(_, place)| *place);
                if let Some(id) = named.and_then(free) {
                    slips.push(format!(
                        "{at}, which tasks.task-plugins.overrides[{number}] sends to plugin {id:?}; it makes no \
                         Kubernetes objects, and tasks of that project or domain wait for no token"
                    ));
                }
            }
        }
        if errors.is_empty() { Ok(slips) } else { Err(RegistryError(errors)) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{RegistryRules, RuleFor, UnknownTaskTypes};
    use super::*;

    fn list(rules: RegistryRules, task_type: &str) -> Result<PluginList, RegistryError> {
        let pooled = [("licences".to_owned(), vec![task_type.to_owned()])].into();
        let plugins = aileron_plugins::builtin(&aileron_plugins::PluginConfigs::default());
        PluginList::new(&plugins, &RegistryRules { pooled, ..rules })
    }

    #[test]
    fn a_pool_for_tasks_that_never_ask_for_a_token_stops_the_start() {
        let error = list(RegistryRules::default(), "core-sleep").unwrap_err().to_string();
        let words = "tasks.pools.licences.task-types names \"core-sleep\", which plugin \"core-sleep\" serves";
        assert!(error.contains(words), "{error}");
        let sent = [("spark".to_owned(), "core-sleep".to_owned())];
        let sent_away = RegistryRules { default_for_task_types: sent.clone().into(), ..RegistryRules::default() };
        assert!(list(sent_away, "spark").is_err(), "it counts who serves the type, not who declares it");
        assert_eq!(list(RegistryRules::default(), "spark").unwrap().slips(), [""; 0]);
        assert_eq!(list(RegistryRules::default(), "shell").unwrap().slips(), [""; 0], "the default plugin takes it");

        let rule = RuleFor { project: "p".into(), task_types: sent.into(), ..RuleFor::default() };
        let list = list(RegistryRules { rules_for: vec![rule], ..RegistryRules::default() }, "spark").unwrap();
        assert!(list.slips()[0].contains("overrides[0] sends to plugin \"core-sleep\""), "{:?}", list.slips());
    }

    #[test]
    fn what_looks_like_a_slip_is_told() {
        let almost = list(RegistryRules::default(), "sparc").unwrap();
        assert!(almost.slips()[0].ends_with("did you mean \"spark\"?"), "{:?}", almost.slips());
        let strict = RegistryRules { unknown_task_types: UnknownTaskTypes::Fail, ..RegistryRules::default() };
        let nobodys = list(strict, "shell").unwrap();
        assert!(nobodys.slips()[0].contains("but tasks of it fail"), "{:?}", nobodys.slips());
    }
}
