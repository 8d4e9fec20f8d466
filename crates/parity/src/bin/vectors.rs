//! Runs recorded cases: `make vectors DIR=<folder> [ONLY=<family>[/<group>],..] [OUT=<folder>]`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aileron_parity::vectors::differences::render_markdown;
use aileron_parity::vectors::run;
use aileron_parity::vectors::selection::Selection;
use anyhow::Context as _;
use clap::Parser;

/// Runs recorded cases and prints where our results differ.
#[derive(Parser)]
struct Arguments {
    /// Folder laid out as `FAMILY[/GROUP]/NAME.json`.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/open"))]
    dir: PathBuf,
    /// Comma-separated families, or `FAMILY/GROUP`, or `FAMILY/GROUP/NAME`; everything if empty.
    #[arg(long, default_value = "")]
    only: String,
    /// Writes what each case produced to `OUT/FAMILY[/GROUP]/NAME.json`.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Prints every difference and every skipped case.
    #[arg(long)]
    verbose: bool,
    /// Writes the page of differences from upstream to this file, and runs nothing.
    #[arg(long)]
    write_docs: Option<PathBuf>,
}

/// Exit code when the cases could not be run. Failed cases have exit code 1.
const NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    match run_arguments(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(NOT_RUN)
        }
    }
}

fn run_arguments(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { dir, only, out, verbose, write_docs } = arguments;
    if let Some(file) = write_docs {
        let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        std::fs::write(&file, render_markdown(crates)?)
            .with_context(|| format!("failed to write {}", file.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = run(&dir, &Selection::parse(&only), out.as_deref())?;
    print!("{}", report.render(verbose));
    Ok(if report.counts().failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
