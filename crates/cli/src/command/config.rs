//! `aileron config`: checks, documents and shows the configuration.

use aileron_config::Secrets;
use aileron_config::explain::{Selection, located};

use crate::arguments::{ConfigArguments, ConfigCommand, DocumentFormat};
use crate::configuration;
use crate::display::output;
use crate::failure::Failure;
use crate::program::Program;

pub fn run(program: &Program, command: ConfigCommand, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let without_overrides = |command: &str| super::refuse_overrides(program, command, &overrides);
    match command {
        ConfigCommand::Check { config, strict } => check(program, &config, overrides, strict),
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

fn check(
    program: &Program,
    arguments: &ConfigArguments,
    overrides: Vec<(String, String)>,
    strict: bool,
) -> Result<(), Failure> {
    let (draft, files) = configuration::checked(program, arguments, overrides, strict);
    let count = draft.errors().len();
    if count == 0 {
        configuration::report(&draft);
    }
    if let Err(failure) = configuration::finish(draft) {
        output::print(&format!("{count} mistake{}\n", if count == 1 { "" } else { "s" }))?;
        return Err(failure);
    }
    let from = if files.is_empty() { "no files".to_owned() } else { files.join(", ") };
    output::print(&format!("the configuration is valid ({from})\n"))
}
