//! Builds the program that is released, with the script that the Dockerfile uses, too.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::dist::Sources;
use super::elf::Elf;

/// Builds the static program. It runs from the folder of the repository.
const SCRIPT: &str = "deploy/image/build";

/// What to build.
#[derive(Debug, Clone, Copy)]
pub struct BuildRequest<'a> {
    /// For which platform, such as `x86_64-unknown-linux-gnu`.
    pub target: &'a str,
    /// With which profile of cargo.
    pub profile: &'a str,
    /// Where the program is written.
    pub out: &'a Path,
}

/// A program for one platform.
#[derive(Debug, Clone)]
pub struct Program {
    /// The platform, such as `x86_64-unknown-linux-gnu`.
    pub target: String,
    /// The program itself.
    pub content: Vec<u8>,
}

/// Builds a program.
///
/// # Errors
/// The build failed, or the program is not static.
pub fn build(repository: &Path, sources: &Sources, request: &BuildRequest<'_>) -> Result<Program> {
    let out = std::path::absolute(request.out)?;
    let status = Command::new(repository.join(SCRIPT))
        .arg(request.target)
        .arg(&out)
        .arg(request.profile)
        .env("AILERON_COMMIT", &sources.commit)
        .env("SOURCE_DATE_EPOCH", sources.time.to_string())
        .status()
        .with_context(|| format!("running {SCRIPT}"))?;
    ensure!(status.success(), "{SCRIPT} {} failed", request.target);
    let content = fs::read(&out).with_context(|| format!("reading {}", out.display()))?;
    ensure!(Elf::read(&content)?.is_static, "the program for {} needs shared libraries", request.target);
    Ok(Program { target: request.target.to_owned(), content })
}
