//! `aileron version`: prints the version.

use serde_json::json;

use crate::arguments::{DEFAULT_NAME, VersionFormat};
use crate::display::output;
use crate::failure::Failure;
use crate::program::Program;

/// The version of this crate.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit from which this crate was built, if the build sets it.
const COMMIT: Option<&str> = option_env!("AILERON_COMMIT");

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

/// `aileron 0.1.0 (commit) linux/x86_64`; for the binary of a plugin author also the version of aileron in it.
fn version_line(name: &str, version: &str, platform: &str) -> String {
    let commit = COMMIT.map(|commit| format!(" ({commit})")).unwrap_or_default();
    if name == DEFAULT_NAME {
        format!("{name} {version}{commit} {platform}")
    } else {
        format!("{name} {version} {platform}, based on {DEFAULT_NAME} {VERSION}{commit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_of_a_plugin_author_shows_its_own_version_and_that_of_aileron() {
        assert!(version_line("aileron", VERSION, "os/cpu").starts_with(&format!("aileron {VERSION}")));
        let line = version_line("polite", "7.0", "os/cpu");
        assert!(line.starts_with(&format!("polite 7.0 os/cpu, based on aileron {VERSION}")), "{line}");
    }
}
