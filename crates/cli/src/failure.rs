//! Why the program ends without success, and with which exit code.

use std::fmt;
use std::process::ExitCode;

use aileron_config::ConfigErrors;
use aileron_machinery::error_text::chain;

/// Why the program ends without success.
#[derive(Debug)]
pub enum Failure {
    /// The command line or the configuration is wrong; trying again is no use.
    Usage(String),
    /// Something went wrong.
    Failed(anyhow::Error),
    /// Everything has been said already.
    Told(u8),
}

/// Exit code for a wrong command line or configuration; clap uses the same.
pub const USAGE: u8 = 2;
/// Exit code for everything else that goes wrong.
pub const FAILED: u8 = 1;
/// Whoever looked was told to stop looking, as shells count it.
pub const INTERRUPTED: u8 = 130;

impl Failure {
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => USAGE,
            Self::Failed(_) => FAILED,
            Self::Told(code) => *code,
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
            Self::Told(_) => Ok(()),
        }
    }
}

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
