//! `aileron config`.

use aileron_executor::config::explain::{Selection, located};
use aileron_executor::config::{self, Config, Sources};

use crate::arguments::{ConfigCommand, Document};
use crate::failure::{Failure, USAGE};
use crate::{configuration, output};

pub fn execute(command: ConfigCommand, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check(arguments) => check(&configuration::sources(&arguments, overrides)?),
        ConfigCommand::Show { config, all, output } => {
            let loaded = configuration::load(&config, overrides)?;
            for warning in &loaded.warnings {
                output::warn(&warning.to_string());
            }
            let selection = if all { Selection::All } else { Selection::Set };
            match output {
                Document::Json => output::print_json(&located(&loaded, selection)),
                Document::Yaml => match config::show(&loaded, selection) {
                    text if text.is_empty() => output::print("{} # nothing is set; --all shows the defaults\n"),
                    text => output::print(&text),
                },
            }
        }
        ConfigCommand::Schema => {
            super::none("config schema", &overrides).and_then(|()| output::print_json(&config::schema()))
        }
        ConfigCommand::Example => {
            super::none("config example", &overrides).and_then(|()| output::print(&config::example()))
        }
        ConfigCommand::Reference => {
            super::none("config reference", &overrides).and_then(|()| output::print(&config::markdown()))
        }
    }
}

fn check(sources: &Sources) -> Result<(), Failure> {
    let report = config::check(sources);
    for warning in &report.warnings {
        output::warn(&warning.to_string());
    }
    match report.errors {
        Some(errors) => {
            let count = errors.0.len();
            output::complain(&errors.into());
            output::print(&format!("{count} mistake{}\n", if count == 1 { "" } else { "s" }))?;
            Err(Failure::Told(USAGE))
        }
        None => {
            check_rules(sources)?;
            let names: Vec<_> = sources.files.iter().map(|file| file.name.as_str()).collect();
            let from = if names.is_empty() { "no files".to_owned() } else { names.join(", ") };
            output::print(&format!("the configuration can be used ({from})\n"))
        }
    }
}

/// Rules and pools are checked against the plugins, as at the start.
fn check_rules(sources: &Sources) -> Result<(), Failure> {
    let config = Config::load(sources).map_err(|errors| Failure::Usage(errors.to_string()))?;
    for slip in configuration::plugin_list(&config)?.suspicious_rules() {
        output::warn(slip);
    }
    Ok(())
}
