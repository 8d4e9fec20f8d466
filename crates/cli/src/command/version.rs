//! `aileron version`.

use serde_json::json;

use crate::arguments::Report;
use crate::failure::Failure;
use crate::output;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit this was built from, if the build says so.
const COMMIT: Option<&str> = option_env!("AILERON_COMMIT");

pub fn print(format: Report) -> Result<(), Failure> {
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    match format {
        Report::Text => {
            let commit = COMMIT.map(|commit| format!(" ({commit})")).unwrap_or_default();
            output::print(&format!("aileron {VERSION}{commit} {platform}\n"))
        }
        Report::Json => output::print_json(&json!({
            "name": "aileron", "version": VERSION, "commit": COMMIT, "platform": platform,
        })),
    }
}
