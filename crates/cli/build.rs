//! Writes down what the program knows about its own sources: the commit, and the plugin template of the repository.

#[path = "build/commit.rs"]
mod commit;
#[path = "build/template.rs"]
mod template;

use std::path::PathBuf;
use std::{env, fs, io};

/// Set in builds whose result must not depend on the machine (<https://reproducible-builds.org/specs/source-date-epoch>).
const REPRODUCIBLE: &str = "SOURCE_DATE_EPOCH";

fn main() -> io::Result<()> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let output = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(output.join("plugin_template.rs"), template::source(&package)?)?;
    println!("cargo:rustc-env=AILERON_BUILD_COMMIT={}", commit::commit(&package));
    println!("cargo:rerun-if-env-changed={REPRODUCIBLE}");
    // A program that others run must not contain the path of the sources, and could not use it either.
    if env::var_os(REPRODUCIBLE).is_none() {
        println!("cargo:rustc-env=AILERON_REPOSITORY={}", package.join("../..").display());
    }
    for script in ["build.rs", "build/commit.rs", "build/template.rs"] {
        println!("cargo:rerun-if-changed={script}");
    }
    Ok(())
}
