//! The condition that says which plugin took an action, where the task type alone does not tell.

use crate::registry::Why;

/// Type of the condition. The control plane reads other types only.
pub const PLUGIN_CHOSEN: &str = "PluginChosen";

/// The plugin of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChosenPlugin {
    /// Its name.
    pub(super) id: String,
    /// Why it takes the action.
    pub(super) why: Why,
}

/// Reason and message of the condition for this choice; `None` if the plugin declares the task type. The condition is
/// part of the first status that is written, so it costs no request.
///
/// # Differs from upstream
///
/// Upstream hands an unknown task type to the default plugin without a word.
pub(super) fn plugin_condition(plugin: &ChosenPlugin, task_type: &str) -> Option<(&'static str, String)> {
    let ChosenPlugin { id, why } = plugin;
    let reason = match why {
        Why::Declared => return None,
        Why::ForType => "DefaultForTaskType",
        Why::Override(_) => "Override",
        Why::Default => "UnknownTaskType",
    };
    Some((reason, format!("plugin {id:?} takes task type {task_type:?}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plugin_that_does_not_declare_the_task_type_is_named() {
        let shown = |why| plugin_condition(&ChosenPlugin { id: "container".into(), why }, "mystery");
        assert_eq!(shown(Why::Declared), None);
        let (reason, message) = shown(Why::Default).unwrap_or_default();
        assert_eq!(reason, "UnknownTaskType");
        assert!(message.starts_with("plugin \"container\" takes task type \"mystery\": no plugin serves"), "{message}");
        assert_eq!(shown(Why::ForType).unwrap_or_default().0, "DefaultForTaskType");
        assert_eq!(shown(Why::Override(2)).unwrap_or_default().0, "Override");
    }
}
