//! What each subcommand does.

mod abort;
mod config;
mod crd;
mod demo;
mod describe;
mod explain;
mod get;
mod io;
mod logs;
mod plugins;
mod pools;
mod render;
mod run;
mod sandbox;
mod submit;
mod version;

use crate::arguments::Command;
use crate::failure::Failure;

/// Does what the command line asks for.
pub fn execute(command: Command, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    match command {
        Command::Run(arguments) => run::run(&arguments, overrides),
        Command::Sandbox(arguments) => sandbox::run(&arguments, overrides),
        Command::Submit(arguments) => submit::run(&arguments, overrides),
        Command::Io { command } => none("io", &overrides).and_then(|()| io::run(&command)),
        Command::Demo(arguments) => demo::run(&arguments, overrides),
        Command::Get(arguments) => none("get", &overrides).and_then(|()| get::run(&arguments)),
        Command::Describe(arguments) => none("describe", &overrides).and_then(|()| describe::run(&arguments)),
        Command::Logs(arguments) => none("logs", &overrides).and_then(|()| logs::run(&arguments)),
        Command::Abort(arguments) => none("abort", &overrides).and_then(|()| abort::run(&arguments)),
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
