//! A program: its name and its plugins. The entry point hands it to every command.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use aileron_config::{Config, Loader};
use aileron_machinery::{CorePlugin, K8sPlugin, ObjectPlugin, PluginSection, PluginSet, PluginSources};

use crate::arguments::DEFAULT_NAME;
use crate::failure::Failure;

/// A complete executor binary: the built-in plugins, the plugins that were added, and all commands.
///
/// `Program::new().with(MyPlugin).main()` is the whole `main` function of a binary with one more plugin.
#[derive(Clone)]
pub struct Program {
    name: Option<String>,
    version: Option<String>,
    about: Option<String>,
    /// The built-in plugins, then the added ones. This is the only place that names the built-in plugins.
    plugins: PluginSources,
}

impl Program {
    /// A program with the built-in plugins.
    #[must_use]
    pub fn new() -> Self {
        Self { name: None, version: None, about: None, plugins: aileron_plugins::builtin() }
    }

    /// Adds a plugin that creates one Kubernetes object per attempt. It replaces an earlier plugin of the same task type.
    #[must_use]
    pub fn with(mut self, plugin: impl K8sPlugin) -> Self {
        self.plugins = self.plugins.with(plugin);
        self
    }

    /// Adds a plugin with a configuration section of its own, `plugins.<KEY>`.
    #[must_use]
    pub fn with_section<S: PluginSection, P: K8sPlugin>(
        mut self,
        make: impl Fn(S) -> P + Send + Sync + 'static,
    ) -> Self {
        self.plugins = self.plugins.with_section(make);
        self
    }

    /// Adds a plugin whose kind of object is known only at run time.
    #[must_use]
    pub fn with_object_plugin(mut self, plugin: Arc<dyn ObjectPlugin>) -> Self {
        self.plugins = self.plugins.with_object_plugin(plugin);
        self
    }

    /// Adds a plugin without a Kubernetes object.
    #[must_use]
    pub fn with_core(mut self, plugin: impl CorePlugin + 'static) -> Self {
        self.plugins = self.plugins.with_core(plugin);
        self
    }

    /// Adds a plugin without a Kubernetes object and with a configuration section of its own, `plugins.<KEY>`.
    #[must_use]
    pub fn with_core_section<S: PluginSection, P: CorePlugin + 'static>(
        mut self,
        make: impl Fn(S) -> P + Send + Sync + 'static,
    ) -> Self {
        self.plugins = self.plugins.with_core_section(make);
        self
    }

    /// Adds all plugins of a crate that offers them as a function. The function gets the plugins so far and adds its own.
    #[must_use]
    pub fn with_plugins(mut self, add: impl FnOnce(PluginSources) -> PluginSources) -> Self {
        self.plugins = add(self.plugins);
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
    pub(crate) fn plugins(&self, config: &Config) -> Result<PluginSet, Failure> {
        self.plugins.build(&config.plugins.section_values()).map_err(|error| Failure::Usage(error.to_string()))
    }

    /// Loads configurations with the sections of all plugins.
    pub(crate) fn loader(&self) -> Loader {
        Loader::with_sections(self.plugins.sections())
    }

    /// The plugins before the configuration is known: `explain` compares the results of several configurations.
    pub(crate) fn plugin_sources(&self) -> &PluginSources {
        &self.plugins
    }
}

impl Default for Program {
    fn default() -> Self {
        Self::new()
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
