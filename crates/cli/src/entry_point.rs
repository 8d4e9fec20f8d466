//! From `main` to a command and its exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;

use crate::arguments::{Arguments, command_line, config_flags};
use crate::command;
use crate::display::output;
use crate::failure::{EXIT_USAGE, Failure};
use crate::program::Program;
use crate::sandbox::{Sandbox, SandboxOptions};

impl Program {
    /// Runs the command of the process's own command line. Return the result from `main`.
    #[must_use]
    pub fn main(self) -> ExitCode {
        self.run(std::env::args_os())
    }

    /// Runs the command of a command line, whose first argument is the path of the binary.
    ///
    /// Results go to standard output, messages to the error stream. The exit code is 0 after success, 1 after a failure,
    /// 2 after a wrong command line or configuration, and 128 + N after signal N.
    #[must_use]
    pub fn run(self, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        install_crypto_provider();
        match self.try_run(arguments) {
            Ok(code) => code,
            Err(failure) => {
                output::report_failure(&failure);
                failure.exit_code()
            }
        }
    }

    /// Starts a sandbox inside this process, with the plugins of this program. Stop it with [`Sandbox::stop`].
    ///
    /// # Errors
    /// The options or the configuration are wrong, or a part of the sandbox does not start.
    pub async fn start_sandbox(&self, options: SandboxOptions) -> Result<Sandbox, Failure> {
        install_crypto_provider();
        Sandbox::start(self, options).await
    }

    fn try_run(self, arguments: impl IntoIterator<Item = OsString>) -> Result<ExitCode, Failure> {
        let split = config_flags::split(&self.loader(), arguments)?;
        let program = self.named_after(split.rest.first().map(OsString::as_os_str));
        let command_line = command_line(program.name(), program.version(), program.about());
        let parsed = command_line.try_get_matches_from(split.rest);
        let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
            Ok(arguments) => arguments,
            // Help and version are "errors" with the exit code 0, too.
            Err(error) => {
                // If the stream is closed, there is no other place for the text.
                let _ = error.print();
                return Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_USAGE)));
            }
        };
        command::execute(&program, arguments.command, split.overrides)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Chooses the TLS implementation of the process. Must be called before a TLS connection is opened.
fn install_crypto_provider() {
    // Fails only if a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
