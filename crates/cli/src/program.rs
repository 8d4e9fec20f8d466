//! A program: its name and its plugins. The entry point hands it to every command.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use aileron_config::Config;
use aileron_machinery::{CorePlugin, K8sPlugin, PluginSet};
use aileron_plugins::builtin::PluginConfigs;
use aileron_plugins::spark::crd::PodTemplateSupport;

use crate::arguments::DEFAULT_NAME;

/// A complete executor binary: the built-in plugins, the plugins that were added, and all commands.
///
/// `Program::new().with(MyPlugin).main()` is the whole `main` function of a binary with one more plugin.
#[derive(Clone, Default)]
pub struct Program {
    name: Option<String>,
    version: Option<String>,
    about: Option<String>,
    plugins: PluginSource,
}

/// The plugins of a program, under a configuration.
pub(crate) struct Plugins {
    /// The built-in plugins, then the added ones.
    pub set: PluginSet,
    /// Whether the Spark definition of the cluster accepts pod templates. The executor sets it, the Spark plugin reads it.
    pub spark_pod_templates: PodTemplateSupport,
}

/// Where the plugins of a program come from. This is the only place that names the built-in plugins.
#[derive(Clone, Default)]
struct PluginSource {
    added: PluginSet,
}

impl Program {
    /// A program with the built-in plugins.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin that creates one Kubernetes object per attempt. It replaces an earlier plugin of the same task type.
    #[must_use]
    pub fn with(mut self, plugin: impl K8sPlugin) -> Self {
        self.plugins.added = self.plugins.added.with(plugin);
        self
    }

    /// Adds a plugin that runs its tasks without the plugin manager.
    #[must_use]
    pub fn with_core(mut self, plugin: impl CorePlugin + 'static) -> Self {
        self.plugins.added = self.plugins.added.with_core(plugin);
        self
    }

    /// Sets the name in help texts, messages and `version`. The default is the file name of the binary.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the version that `version` and `--version` show. The default is the version of this crate.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Sets the first line of `--help`.
    #[must_use]
    pub fn with_about(mut self, about: impl Into<String>) -> Self {
        self.about = Some(about.into());
        self
    }

    /// The name of the program.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(DEFAULT_NAME)
    }

    /// The author's own version, if the author has set one.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The author's own first line of the help text.
    pub(crate) fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// The same program, named after its binary unless it already has a name.
    pub(crate) fn named_after(mut self, binary: Option<&OsStr>) -> Self {
        let file_name = || Path::new(binary?).file_name()?.to_str().map(str::to_owned);
        self.name = self.name.or_else(file_name);
        self
    }

    /// The plugins under a configuration.
    pub(crate) fn plugins(&self, config: &Config) -> Plugins {
        self.plugins.build(config)
    }

    /// Makes the plugins for any configuration: `explain` compares the results of several configurations.
    pub(crate) fn plugin_factory(&self) -> Arc<dyn Fn(&Config) -> PluginSet + Send + Sync> {
        let source = self.plugins.clone();
        Arc::new(move |config| source.build(config).set)
    }
}

impl PluginSource {
    fn build(&self, config: &Config) -> Plugins {
        let configs: PluginConfigs = (&config.plugins).into();
        let set = aileron_plugins::builtin(&configs).with_all(&self.added);
        Plugins { set, spark_pod_templates: configs.spark_pod_templates }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_after_its_binary_unless_it_has_a_name() {
        let named =
            |program: Program, binary: Option<&str>| program.named_after(binary.map(OsStr::new)).name().to_owned();
        assert_eq!(named(Program::new(), Some("/usr/bin/polite")), "polite");
        assert_eq!(named(Program::new(), Some("")), "aileron");
        assert_eq!(named(Program::new(), None), "aileron");
        assert_eq!(named(Program::new().with_name("mine"), Some("/usr/bin/polite")), "mine");
    }
}
