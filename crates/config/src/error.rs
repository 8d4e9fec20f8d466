//! Errors and warnings about a configuration, and the origin of values.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No source has set the value.
    Default,
    /// A file.
    File {
        /// The name of the file.
        name: Arc<str>,
        /// The line, counted from 1. It is 0 for the file as a whole.
        line: usize,
    },
    /// The environment variable with this name.
    Env(String),
    /// The flag with this name, without the leading dashes.
    Flag(String),
}

/// One mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{}{problem}", At(origin), Prefix(path))]
pub struct ConfigError {
    /// Where the mistake is. [`Origin::Default`] if a value is missing: no source sets it.
    pub origin: Origin,
    /// The key with its sections, such as `executor.gc.interval`. It is empty if the mistake concerns the whole source.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The key does not exist. The text is a suggestion.
    #[error("unknown key{}", Suggestion(.0))]
    UnknownKey(Option<String>),
    /// The section does not exist, here or in another Flyte service. The text is a suggestion.
    #[error("unknown section{}", Suggestion(.0))]
    UnknownSection(Option<String>),
    /// The value has the wrong type.
    #[error("expected {expected}, found {found}")]
    Mismatch {
        /// Which values are allowed.
        expected: String,
        /// The value that was found.
        found: String,
    },
    /// The value has the right type but cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The file is not valid YAML.
    #[error("not valid YAML: {0}")]
    Syntax(String),
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Unreadable(String),
}

/// All mistakes of a configuration. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", Lines(.0))]
pub struct ConfigErrors(pub Vec<ConfigError>);

/// A setting that is accepted but probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where the setting is. [`Origin::Default`] if the warning is about several settings and names their origins
    /// itself.
    pub origin: Origin,
    /// The key with its sections; empty if the warning is not about a single key.
    pub path: String,
    /// What is wrong, and what to do about it.
    pub message: String,
}

struct At<'a>(&'a Origin);
struct Prefix<'a>(&'a str);
struct Suggestion<'a>(&'a Option<String>);
struct Lines<'a>(&'a [ConfigError]);

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File { name, line: 0 } => formatter.write_str(name),
            Self::File { name, line } => write!(formatter, "{name}:{line}"),
            Self::Env(name) => write!(formatter, "environment variable {name}"),
            Self::Flag(name) => write!(formatter, "flag --{name}"),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}{}", At(&self.origin), Prefix(&self.path), self.message)
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self.0 == Origin::Default { Ok(()) } else { write!(formatter, "{}: ", self.0) }
    }
}

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(formatter, "{}: ", self.0) }
    }
}

impl fmt::Display for Suggestion<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |text| write!(formatter, "; {text}"))
    }
}

impl fmt::Display for Lines<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{error}")?;
        }
        Ok(())
    }
}

impl Origin {
    /// The same source at another line. Sources other than files have no lines and stay the same.
    #[must_use]
    pub(crate) fn at(&self, line: usize) -> Self {
        match self {
            Self::File { name, .. } => Self::File { name: Arc::clone(name), line },
            other => other.clone(),
        }
    }
}
