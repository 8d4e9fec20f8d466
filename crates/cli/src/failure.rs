//! Why the program ends without success, and its exit code.

use std::fmt;
use std::process::ExitCode;

use aileron_config::ConfigErrors;
use aileron_machinery::error_text::chain;

/// Why the program ends without success.
#[derive(Debug)]
pub enum Failure {
    /// The command line or the configuration is wrong. The same command fails again until the user changes it.
    Usage(String),
    /// The command was correct, but something went wrong while it ran.
    Failed(anyhow::Error),
    /// The user has already seen all messages; only the exit code is left to report.
    AlreadyReported(u8),
}

/// Exit code after a wrong command line or configuration. `clap` uses the same code.
pub const EXIT_USAGE: u8 = 2;
/// Exit code after every other failure.
pub const EXIT_FAILED: u8 = 1;
/// Exit code after SIGINT: 128 + 2, as shells report it.
pub const EXIT_INTERRUPTED: u8 = 130;

impl Failure {
    /// The exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => EXIT_USAGE,
            Self::Failed(_) => EXIT_FAILED,
            Self::AlreadyReported(code) => *code,
        })
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::Usage(errors.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) => formatter.write_str(text),
            Self::Failed(error) => formatter.write_str(&chain(error.as_ref())),
            Self::AlreadyReported(_) => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let error = anyhow!("no route to host").context("connect: no route to host").context("cannot start");
        assert_eq!(Failure::Failed(error).to_string(), "cannot start: connect: no route to host");
    }
}
