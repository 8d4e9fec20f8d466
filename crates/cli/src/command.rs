//! What each subcommand does.

mod config;
mod crd;
mod explain;
mod plugins;
mod pools;
mod render;
mod run;
mod version;

use crate::arguments::Command;
use crate::failure::Failure;

/// Does what the command line asks for.
pub fn execute(command: Command, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    match command {
        Command::Run(arguments) => run::run(&arguments, overrides),
        Command::Plugins(arguments) => plugins::list(&arguments, overrides),
        Command::Pools(arguments) => pools::list(&arguments, overrides),
        Command::Config { command } => config::execute(command, overrides),
        Command::Render(arguments) => render::render(&arguments, overrides),
        Command::Explain(arguments) => explain::explain(&arguments, overrides),
        Command::Crd { output } => none("crd", &overrides).and_then(|()| crd::print(output)),
        Command::Version { output } => none("version", &overrides).and_then(|()| version::print(output)),
    }
}

/// Refuses configuration keys where there is no configuration.
fn none(command: &str, overrides: &[(String, String)]) -> Result<(), Failure> {
    match overrides.first() {
        None => Ok(()),
        Some((key, _)) => {
            Err(Failure::Usage(format!("flag --{key}: `aileron {command}` does not read the configuration")))
        }
    }
}
