//! The binary `aileron`: runs the executor and shows its configuration, its plugins, its CRD and what tasks become.

mod arguments;
mod cluster;
mod command;
mod configuration;
mod connection;
mod failure;
mod follow;
mod logs;
mod objects;
mod output;
mod overrides;
mod runtime;
mod sandbox;
mod sdk;
mod signals;
mod span;
mod submit;
mod summary;
mod table;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use failure::Failure;

fn main() -> ExitCode {
    // Before anything opens a TLS connection. A second installation is the only way this fails, and there is none.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(&failure);
            failure.exit_code()
        }
    }
}

fn start() -> Result<(), Failure> {
    let split = overrides::split(std::env::args_os())?;
    // Prints help and usage errors itself, the latter with exit code 2.
    let arguments = Arguments::parse_from(split.rest);
    command::execute(arguments.command, split.overrides)
}
