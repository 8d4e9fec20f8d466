//! The configuration that the command line, the environment and the files describe.

use aileron_action::plugin_choice::PluginList;
use aileron_action::settings::registry_rules;
use aileron_config::{Config, ConfigErrors, Draft, Loaded, Sources, environment_variables, files};
use aileron_executor::assembly::unusable_settings;

use crate::arguments::ConfigArguments;
use crate::display::output;
use crate::failure::{EXIT_USAGE, Failure};
use crate::program::Program;

/// Reads the files and the environment. `overrides` are the configuration keys of the command line.
pub fn sources(arguments: &ConfigArguments, overrides: Vec<(String, String)>) -> Sources {
    let (files, unreadable) = files::read_some(&arguments.files);
    Sources { files, environment: environment_variables(), flags: overrides, unreadable }
}

/// Reads and parses the configuration, for commands that only show something.
pub fn load(
    program: &Program,
    arguments: &ConfigArguments,
    overrides: Vec<(String, String)>,
) -> Result<Loaded, ConfigErrors> {
    program.loader().load(&sources(arguments, overrides))
}

/// Reads the configuration and makes all checks of the executor's start that need no cluster. `run` and `config check` both
/// use it, so that `config check` refuses exactly what `run` refuses.
///
/// The setup of plugins without Kubernetes objects is not among the checks, because it may call other services.
pub fn checked(
    program: &Program,
    arguments: &ConfigArguments,
    overrides: Vec<(String, String)>,
    strict: bool,
) -> (Draft, Vec<String>) {
    let sources = sources(arguments, overrides);
    let mut draft = program.loader().strict(strict).draft(&sources);
    if sources.files.is_empty() && arguments.files.is_empty() {
        draft.notes.push(format!(
            "no configuration file was read, because neither {} exists; name files with --config",
            files::DEFAULT_LOCATIONS.join(" nor ")
        ));
    }
    for setting in unusable_settings(&draft.config) {
        draft.reject(&setting.path, setting.message);
    }
    check_plugins(program, &mut draft, strict);
    (draft, sources.files.into_iter().map(|file| file.name).collect())
}

/// Compares the rules for plugins and pools with the plugins of the program.
fn check_plugins(program: &Program, draft: &mut Draft, strict: bool) {
    let plugins = match program.plugins(&draft.config) {
        Ok(plugins) => plugins,
        Err(error) => return draft.reject(&["plugins"], error.to_string()),
    };
    match PluginList::new(&plugins, &registry_rules(&draft.config)) {
        Ok(list) => {
            for rule in list.suspicious_rules() {
                if strict && rule.names_foreign_plugin {
                    draft.reject(&rule.path, rule.message.as_str());
                } else {
                    draft.warn(&rule.path, rule.message.as_str());
                }
            }
        }
        Err(error) => {
            for rule in error.0 {
                draft.reject(&rule.path, rule.message);
            }
        }
    }
}

/// The configuration of a draft without mistakes. Otherwise everything that is known about the draft is written to the error
/// stream.
pub fn finish(draft: Draft) -> Result<Loaded, Failure> {
    if !draft.errors().is_empty() {
        report(&draft);
    }
    draft.finish().map_err(|errors| {
        output::report_failure(&errors.into());
        Failure::AlreadyReported(EXIT_USAGE)
    })
}

/// Writes the notes and warnings of a draft to the error stream.
pub fn report(draft: &Draft) {
    for note in &draft.notes {
        output::note(&format!("note: {note}"));
    }
    for warning in &draft.warnings {
        output::warn(&warning.to_string());
    }
}

/// The plugins of the program under the rules of the configuration. The rules are checked as at the start of the executor.
pub fn plugin_list(program: &Program, config: &Config) -> Result<PluginList, Failure> {
    let plugins = program.plugins(config)?;
    PluginList::new(&plugins, &registry_rules(config)).map_err(|error| Failure::Usage(error.to_string()))
}
