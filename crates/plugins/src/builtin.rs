//! The list of plugins that an executor starts with.

use aileron_machinery::PluginSet;

use crate::pod::PodPlugin;
use crate::sleep::SleepPlugin;

/// The built-in plugins. An executor adds its own with [`PluginSet::with`].
///
/// The order is upstream's, and it matters: where two plugins serve a task type, or two call themselves the default, the
/// later one wins.
pub fn builtin() -> PluginSet {
    PluginSet::new()
        .with(PodPlugin::container())
        .with(PodPlugin::sidecar())
        .with(PodPlugin::pod())
        .with_core(SleepPlugin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_default_is_the_pod_plugin() {
        let plugins = builtin();
        let entries: Vec<_> = plugins.k8s().iter().map(|plugin| plugin.entry()).collect();
        assert_eq!(entries.iter().rev().find(|entry| entry.is_default).map(|entry| entry.id), Some("pod"));
        let core: Vec<_> = plugins.core().iter().map(|plugin| plugin.entry().id).collect();
        assert_eq!(core, ["core-sleep"]);
    }
}
