//! The configuration that the command line, the environment and the files describe.

use std::collections::BTreeMap;

use aileron_executor::config::{Config, ConfigErrors, Loaded, Loader, Sources, files};
use aileron_executor::plugin_list::PluginList;
use aileron_executor::run::registry_rules;

use crate::arguments::ConfigArguments;
use crate::failure::Failure;

/// Reads what the configuration is made of.
pub fn sources(arguments: &ConfigArguments, overrides: Vec<(String, String)>) -> Result<Sources, ConfigErrors> {
    // Variables that are not text cannot be configuration.
    let environment: BTreeMap<_, _> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Ok(Sources { files: files::read(&arguments.files)?, environment, flags: overrides })
}

/// Reads and understands the configuration.
pub fn load(arguments: &ConfigArguments, overrides: Vec<(String, String)>) -> Result<Loaded, ConfigErrors> {
    Loader::new().load(&sources(arguments, overrides)?)
}

/// The plugins that there are and what the configuration makes of them, checked as at the start.
pub fn plugin_list(config: &Config) -> Result<PluginList, Failure> {
    let plugins = aileron_plugins::builtin().build(&config.plugins.section_values());
    let plugins = plugins.map_err(|error| Failure::Usage(error.to_string()))?;
    PluginList::new(&plugins, &registry_rules(config)).map_err(|error| Failure::Usage(error.to_string()))
}
