//! What can be wrong with a configuration, and where values come from.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A line of a file.
    File {
        /// The file as it was named.
        name: Arc<str>,
        /// The line, counted from 1.
        line: usize,
    },
    /// An environment variable.
    Env(String),
    /// A flag, without the dashes.
    Flag(String),
}

/// One mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{origin}: {}{problem}", Prefix(path))]
pub struct ConfigError {
    /// Where the mistake is.
    pub origin: Origin,
    /// The key, dotted; empty when the mistake concerns the source as a whole.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The key does not exist.
    #[error("unknown key{}", Suggestion(.0))]
    UnknownKey(Option<String>),
    /// The value has the wrong type or form.
    #[error("expected {expected}, found {found}")]
    Mismatch {
        /// What would fit.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The value fits its type and still cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The text is not YAML.
    #[error("not valid YAML: {0}")]
    Syntax(String),
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Unreadable(String),
}

/// All mistakes of a configuration, at least one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", Lines(.0))]
pub struct ConfigErrors(pub Vec<ConfigError>);

/// Something that is accepted and probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where it is.
    pub origin: Origin,
    /// The key, dotted.
    pub path: String,
    /// What is odd, and the remedy.
    pub message: String,
}

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
        write!(formatter, "{}: {}{}", self.origin, Prefix(&self.path), self.message)
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
    /// The same source at another line; only files have lines.
    #[must_use]
    pub(super) fn at(&self, line: usize) -> Self {
        match self {
            Self::File { name, .. } => Self::File { name: Arc::clone(name), line },
            other => other.clone(),
        }
    }
}
