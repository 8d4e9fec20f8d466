//! The subcommands.

mod abort;
mod config;
mod crd;
mod demo;
mod describe;
mod doctor;
mod explain;
mod get;
mod io;
mod logs;
mod new_plugin;
mod plugins;
mod pools;
mod render;
mod run;
mod sandbox;
mod submit;
mod version;

use anyhow::anyhow;

use crate::arguments::Command;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::program::Program;

/// Runs a subcommand. `overrides` are the configuration keys of the command line.
pub fn execute(program: &Program, command: Command, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let without_overrides = |command: &str| refuse_overrides(program, command, &overrides);
    match command {
        Command::Run(arguments) => run::run(program, &arguments, overrides),
        Command::Sandbox(arguments) => sandbox::run(program, &arguments, overrides),
        Command::Demo(arguments) => demo::run(program, &arguments, overrides),
        Command::Submit(arguments) => submit::run(program, &arguments, overrides),
        Command::Get(arguments) => without_overrides("get").and_then(|()| get::run(program, &arguments)),
        Command::Describe(arguments) => without_overrides("describe").and_then(|()| describe::run(program, &arguments)),
        Command::Logs(arguments) => without_overrides("logs").and_then(|()| logs::run(program, &arguments)),
        Command::Abort(arguments) => without_overrides("abort").and_then(|()| abort::run(program, &arguments)),
        Command::Io { command } => without_overrides("io").and_then(|()| io::run(&command)),
        Command::Config { command } => config::run(program, command, overrides),
        Command::Doctor(arguments) => doctor::run(program, &arguments, overrides),
        Command::Plugins(arguments) => plugins::run(program, &arguments, overrides),
        Command::Pools(arguments) => pools::run(program, &arguments, overrides),
        Command::Render(arguments) => render::run(program, &arguments, overrides),
        Command::Explain(arguments) => explain::run(program, &arguments, overrides),
        Command::NewPlugin(arguments) => {
            without_overrides("new-plugin").and_then(|()| new_plugin::run(program.name(), &arguments))
        }
        Command::Crd { output } => without_overrides("crd").and_then(|()| crd::run(output)),
        Command::Version { output } => without_overrides("version").and_then(|()| version::run(program, output)),
    }
}

/// Refuses configuration keys for a command that does not read the configuration.
fn refuse_overrides(program: &Program, command: &str, overrides: &[(String, String)]) -> Result<(), Failure> {
    match overrides.first() {
        None => Ok(()),
        Some((key, _)) => {
            Err(Failure::Usage(format!("flag --{key}: `{} {command}` does not read the configuration", program.name())))
        }
    }
}

/// The action with this name does not exist.
fn no_such_action(program: &Program, connection: &Connection, name: &str) -> Failure {
    Failure::Failed(anyhow!(
        "namespace {} has no action {name}; `{} get -A` lists the actions of all namespaces",
        connection.namespace,
        program.name()
    ))
}
