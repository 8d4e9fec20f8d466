//! `aileron config`: checks, documents and shows the configuration.

use aileron_config::explain::{Selection, located};
use aileron_config::{Secrets, Sources};

use crate::arguments::{ConfigCommand, DocumentFormat};
use crate::configuration;
use crate::display::output;
use crate::failure::{EXIT_USAGE, Failure};
use crate::program::Program;

pub fn run(program: &Program, command: ConfigCommand, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let without_overrides = |command: &str| super::refuse_overrides(program, command, &overrides);
    match command {
        ConfigCommand::Check(arguments) => check(program, &configuration::sources(&arguments, overrides)?),
        ConfigCommand::Show { config, all, show_secrets, output } => {
            let loaded = configuration::load(program, &config, overrides)?;
            for warning in &loaded.warnings {
                output::warn(&warning.to_string());
            }
            let selection = if all { Selection::All } else { Selection::Set };
            let secrets = if show_secrets { Secrets::Shown } else { Secrets::Hidden };
            match output {
                DocumentFormat::Json => output::print_json(&located(&loaded, selection, secrets)),
                DocumentFormat::Yaml => match aileron_config::show(&loaded, selection, secrets) {
                    text if text.is_empty() => output::print("{} # nothing is set; --all shows the defaults\n"),
                    text => output::print(&text),
                },
            }
        }
        ConfigCommand::Schema => {
            without_overrides("config schema").and_then(|()| output::print_json(&program.loader().schema()))
        }
        ConfigCommand::Example => {
            without_overrides("config example").and_then(|()| output::print(&program.loader().example()))
        }
        ConfigCommand::Reference => {
            without_overrides("config reference").and_then(|()| output::print(&program.loader().markdown()))
        }
    }
}

fn check(program: &Program, sources: &Sources) -> Result<(), Failure> {
    let report = program.loader().check(sources);
    for warning in &report.warnings {
        output::warn(&warning.to_string());
    }
    match report.errors {
        Some(errors) => {
            let count = errors.0.len();
            output::report_failure(&errors.into());
            output::print(&format!("{count} mistake{}\n", if count == 1 { "" } else { "s" }))?;
            Err(Failure::AlreadyReported(EXIT_USAGE))
        }
        None => {
            check_plugin_rules(program, sources)?;
            let names: Vec<_> = sources.files.iter().map(|file| file.name.as_str()).collect();
            let from = if names.is_empty() { "no files".to_owned() } else { names.join(", ") };
            output::print(&format!("the configuration is valid ({from})\n"))
        }
    }
}

/// Checks the rules for plugins and pools against the plugins of the program, as at the start of the executor.
fn check_plugin_rules(program: &Program, sources: &Sources) -> Result<(), Failure> {
    let config = program.loader().load(sources).map_err(|errors| Failure::Usage(errors.to_string()))?.config;
    for warning in configuration::plugin_list(program, &config)?.suspicious_rules() {
        output::warn(warning);
    }
    Ok(())
}
