//! `aileron version`: prints the version.

use serde_json::json;

use crate::arguments::{DEFAULT_NAME, VersionFormat};
use crate::display::output;
use crate::failure::Failure;
use crate::program::Program;

/// The version of this crate.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit from which this crate was built, `<hash>`, `<hash>-dirty` or `unknown`: see `build/commit.rs`.
const COMMIT: &str = env!("AILERON_BUILD_COMMIT");

/// As many digits of a commit as the text shows. Twelve are unambiguous in repositories of any size so far; JSON has all of them.
const SHOWN_DIGITS: usize = 12;

pub fn run(program: &Program, format: VersionFormat) -> Result<(), Failure> {
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let (name, version) = (program.name(), program.version().unwrap_or(VERSION));
    match format {
        VersionFormat::Text => output::print(&format!("{}\n", version_line(name, version, &platform))),
        VersionFormat::Json => output::print_json(&json!({
            "name": name, "version": version, "aileron": VERSION, "commit": COMMIT, "platform": platform,
        })),
    }
}

/// `aileron 0.1.0 (commit 0123456789ab) linux/x86_64`; for the binary of a plugin author also the version of aileron in it.
fn version_line(name: &str, version: &str, platform: &str) -> String {
    let commit = short(COMMIT);
    if name == DEFAULT_NAME {
        format!("{name} {version} (commit {commit}) {platform}")
    } else {
        format!("{name} {version} {platform}, based on {DEFAULT_NAME} {VERSION} (commit {commit})")
    }
}

/// A commit with fewer digits and with the same ending.
fn short(commit: &str) -> String {
    let (hash, ending) = commit.find('-').map_or((commit, ""), |at| commit.split_at(at));
    hash.chars().take(SHOWN_DIGITS).chain(ending.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_of_a_plugin_author_shows_its_own_version_and_that_of_aileron() {
        assert!(version_line("aileron", VERSION, "os/cpu").starts_with(&format!("aileron {VERSION}")));
        let line = version_line("polite", "7.0", "os/cpu");
        assert!(line.starts_with(&format!("polite 7.0 os/cpu, based on aileron {VERSION} (commit ")), "{line}");
    }

    #[test]
    fn a_commit_is_shown_with_twelve_digits_and_whether_the_sources_were_changed() {
        assert_eq!(short("0123456789abcdef"), "0123456789ab");
        assert_eq!(short("0123456789abcdef-dirty"), "0123456789ab-dirty");
        assert_eq!(short("unknown"), "unknown");
    }
}
