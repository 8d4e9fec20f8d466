//! A configuration that has been read and may still have mistakes.
//!
//! The loader finds the mistakes that the sources and the values themselves show. The checks of the executor's start need
//! more, such as the plugins of the program. They are made on the draft, so that all mistakes are reported together, each with
//! its file and line.

use std::sync::Arc;

use serde_json::Value;

use super::Loaded;
use crate::Config;
use crate::error::{ConfigError, ConfigErrors, Origin, Problem, Warning};
use crate::values::tree::Tree;

/// A configuration that has been read and may still have mistakes.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The configuration. A value with a mistake is replaced by its default.
    pub config: Config,
    /// Settings that are accepted but probably a mistake.
    pub warnings: Vec<Warning>,
    /// What an operator may want to know, such as the sections that are not read. These are no mistakes.
    pub notes: Vec<String>,
    pub(super) errors: Vec<ConfigError>,
    /// The paths of the values that could not be used. The configuration has defaults in their place, which were not
    /// chosen by the user and are not checked.
    pub(super) replaced: Vec<String>,
    /// A file could not be read, so a value that seems to be missing may be in it.
    pub(super) is_incomplete: bool,
    pub(super) set: Tree,
    pub(super) schema: Arc<Value>,
}

impl Draft {
    /// Adds the mistake that this value cannot be used. The path has one part for each key; the entries of lists are
    /// numbers.
    pub fn reject<S: AsRef<str>>(&mut self, path: &[S], message: impl Into<String>) {
        let origin = self.set.origin(path);
        let path = joined(path);
        let below = |group: &str, path: &str| path.strip_prefix(group).is_some_and(|rest| rest.starts_with('.'));
        let is_replaced = self.replaced.iter().any(|it| *it == path || below(it, &path) || below(&path, it));
        let may_be_elsewhere = self.is_incomplete && origin == Origin::Default;
        if !(is_replaced || may_be_elsewhere) {
            self.errors.push(ConfigError { origin, path, problem: Problem::Invalid(message.into()) });
        }
    }

    /// Adds a warning about this value.
    pub fn warn<S: AsRef<str>>(&mut self, path: &[S], message: impl Into<String>) {
        self.warnings.push(Warning { origin: self.set.origin(path), path: joined(path), message: message.into() });
    }

    /// The mistakes so far.
    #[must_use]
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// The configuration, if it has no mistakes.
    ///
    /// # Errors
    ///
    /// All mistakes.
    pub fn finish(self) -> Result<Loaded, ConfigErrors> {
        let Self { config, warnings, notes, errors, set, schema, .. } = self;
        if errors.is_empty() { Ok(Loaded { config, warnings, notes, set, schema }) } else { Err(ConfigErrors(errors)) }
    }
}

fn joined<S: AsRef<str>>(path: &[S]) -> String {
    path.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(".")
}
