//! Writes the software bill of materials of the binary `aileron` (`make sbom`).

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Parser;

/// Writes what the binary is made of, as CycloneDX JSON.
#[derive(Parser)]
struct Arguments {
    /// The file to write.
    #[arg(long)]
    out: PathBuf,
    /// The platform that the binary is built for, such as x86_64-unknown-linux-gnu.
    #[arg(long)]
    platform: String,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = aileron_parity::sbom::sbom(&workspace, "aileron", &arguments.platform)?;
    let text = format!("{document:#}\n");
    std::fs::write(&arguments.out, text).with_context(|| format!("cannot write {}", arguments.out.display()))?;
    let count = document["components"].as_array().map_or(0, Vec::len);
    eprintln!("{}: {count} components", arguments.out.display());
    Ok(())
}
