//! Where settings come from: files, environment variables and flags.

pub(crate) mod environment;
pub mod files;
pub(crate) mod flags;

use std::collections::BTreeMap;

use crate::error::ConfigError;

/// Everything that can set a key. Flags win over environment variables, and those win over files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Files. A later file wins over an earlier one.
    pub files: Vec<SourceFile>,
    /// The environment variables of the process.
    pub environment: BTreeMap<String, String>,
    /// Flags and their values. The name is without the leading dashes.
    pub flags: Vec<(String, String)>,
    /// Files that were named and could not be read. They are mistakes of the configuration like all others.
    pub unreadable: Vec<ConfigError>,
}

/// A file that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The name of the file for messages.
    pub name: String,
    /// The content of the file.
    pub text: String,
}

impl Sources {
    /// A single file, for tests and examples.
    #[must_use]
    pub fn file(name: &str, text: &str) -> Self {
        Self { files: vec![SourceFile { name: name.into(), text: text.into() }], ..Self::default() }
    }
}
