//! Finds and reads the configuration files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::SourceFile;
use crate::error::{ConfigError, ConfigErrors, Origin, Problem};

/// The files that are read if the user names none.
pub const DEFAULT_LOCATIONS: [&str; 2] = ["./config.yaml", "/etc/flyte/config/config.yaml"];

/// Reads the files that the given paths and patterns name. An example of a pattern is `/etc/flyte/config/*.yaml`.
///
/// Files have the order of the arguments, and the files of one pattern are in alphabetical order. A file that is named
/// twice is read once. Without arguments, those of the [`DEFAULT_LOCATIONS`] that exist are read.
///
/// # Differs from upstream
///
/// A path that does not exist and a pattern that matches no file are errors. Upstream ignores them.
///
/// # Errors
///
/// One error for each invalid pattern, for each pattern without a file and for each file that cannot be read.
pub fn read(patterns: &[String]) -> Result<Vec<SourceFile>, ConfigErrors> {
    let (files, errors) = read_some(patterns);
    if errors.is_empty() { Ok(files) } else { Err(ConfigErrors(errors)) }
}

/// As [`read`], with the files that could be read beside the errors, so that the mistakes in them are found as well.
#[must_use]
pub fn read_some(patterns: &[String]) -> (Vec<SourceFile>, Vec<ConfigError>) {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    let paths = if patterns.is_empty() {
        DEFAULT_LOCATIONS.iter().map(PathBuf::from).filter(|path| path.is_file()).collect()
    } else {
        patterns.iter().flat_map(|pattern| expand(pattern, &mut errors)).collect::<Vec<_>>()
    };
    for path in paths {
        if !seen.insert(path.clone()) {
            continue;
        }
        let name = path.display().to_string();
        match std::fs::read_to_string(&path) {
            Ok(text) => files.push(SourceFile { name, text }),
            Err(error) => errors.push(unreadable(&name, error.to_string())),
        }
    }
    (files, errors)
}

fn expand(pattern: &str, errors: &mut Vec<ConfigError>) -> Vec<PathBuf> {
    // A file whose name has such a character is meant literally, if it exists.
    if !pattern.contains(['*', '?', '[']) || Path::new(pattern).is_file() {
        return vec![Path::new(pattern).to_owned()];
    }
    let found: Vec<_> = match glob::glob(pattern) {
        Ok(paths) => paths.filter_map(Result::ok).filter(|path| path.is_file()).collect(),
        Err(error) => {
            errors.push(unreadable(pattern, format!("bad pattern: {error}")));
            return Vec::new();
        }
    };
    if found.is_empty() {
        errors.push(unreadable(pattern, "the pattern matches no file".into()));
    }
    found
}

fn unreadable(name: &str, message: String) -> ConfigError {
    let origin = Origin::File { name: name.into(), line: 0 };
    ConfigError { origin, path: String::new(), problem: Problem::Unreadable(message) }
}
