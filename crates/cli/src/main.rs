//! The binary `aileron`: the executor with the built-in plugins, and all commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    aileron::Program::new().main()
}
