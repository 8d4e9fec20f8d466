//! The configuration that the command line, the environment and the files describe.

use aileron_action::plugin_choice::PluginList;
use aileron_action::settings::registry_rules;
use aileron_config::{Config, ConfigErrors, Loaded, Sources, environment_variables, files};

use crate::arguments::ConfigArguments;
use crate::failure::Failure;
use crate::program::Program;

/// Reads the files and the environment. `overrides` are the configuration keys of the command line.
pub fn sources(arguments: &ConfigArguments, overrides: Vec<(String, String)>) -> Result<Sources, ConfigErrors> {
    Ok(Sources { files: files::read(&arguments.files)?, environment: environment_variables(), flags: overrides })
}

/// Reads and parses the configuration.
pub fn load(
    program: &Program,
    arguments: &ConfigArguments,
    overrides: Vec<(String, String)>,
) -> Result<Loaded, ConfigErrors> {
    program.loader().load(&sources(arguments, overrides)?)
}

/// The plugins of the program under the rules of the configuration. The rules are checked as at the start of the executor.
pub fn plugin_list(program: &Program, config: &Config) -> Result<PluginList, Failure> {
    let plugins = program.plugins(config)?;
    PluginList::new(&plugins, &registry_rules(config)).map_err(|error| Failure::Usage(error.to_string()))
}
