//! Which files count, and reading them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::error::{ConfigError, ConfigErrors, Origin, Problem};
use super::load::SourceFile;

/// Where a configuration is looked for when none is named.
pub const DEFAULT_LOCATIONS: [&str; 2] = ["./config.yaml", "/etc/flyte/config/config.yaml"];

/// Reads the files that paths and patterns such as `/etc/flyte/config/*.yaml` name, in the given order and in
/// alphabetical order within a pattern; each file once. Without any path, the default locations that exist are read.
///
/// # Differs from upstream
///
/// A path that does not exist is an error; upstream goes on without it.
///
/// # Errors
///
/// Every pattern that cannot be understood and every file that cannot be read.
pub fn read(patterns: &[String]) -> Result<Vec<SourceFile>, ConfigErrors> {
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
    if errors.is_empty() { Ok(files) } else { Err(ConfigErrors(errors)) }
}

fn expand(pattern: &str, errors: &mut Vec<ConfigError>) -> Vec<PathBuf> {
    if !pattern.contains(['*', '?', '[']) {
        return vec![Path::new(pattern).to_owned()];
    }
    match glob::glob(pattern) {
        Ok(paths) => paths.filter_map(Result::ok).filter(|path| path.is_file()).collect(),
        Err(error) => {
            errors.push(unreadable(pattern, format!("bad pattern: {error}")));
            Vec::new()
        }
    }
}

fn unreadable(name: &str, message: String) -> ConfigError {
    let origin = Origin::File { name: name.into(), line: 0 };
    ConfigError { origin, path: String::new(), problem: Problem::Unreadable(message) }
}
