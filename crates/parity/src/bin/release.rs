//! Builds what is released: `make image` and `make dist`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use aileron_parity::release::{BuildRequest, Program, Sources, build, dist};
use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser, Subcommand};

/// Builds what is released, with the same bytes for the same commit.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the image as an archive of the Open Container Initiative
    Image {
        #[command(flatten)]
        options: Options,
        /// The file to write
        #[arg(long)]
        out: PathBuf,
    },
    /// Write all files of a release
    Dist {
        #[command(flatten)]
        options: Options,
        /// The folder to write. What was in it is removed
        #[arg(long)]
        out: PathBuf,
        /// Release sources that differ from their commit
        #[arg(long)]
        allow_dirty: bool,
    },
}

#[derive(Args)]
struct Options {
    /// A platform, such as aarch64-unknown-linux-gnu. Can be given more than once
    #[arg(long = "target", value_name = "TRIPLE", required = true)]
    targets: Vec<String>,
    /// The profile of cargo
    #[arg(long, default_value = "release")]
    profile: String,
    /// Where the sources are published, for the label of the image
    #[arg(long, default_value = "")]
    source: String,
}

fn main() -> Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    match Arguments::parse().command {
        Command::Image { options, out } => {
            let sources = Sources::read(&repository, &options.source)?;
            let programs = programs(&repository, &sources, &options)?;
            let (content, sizes) = sources.images(&repository, &programs)?;
            if let Some(folder) = out.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&out, content).with_context(|| format!("writing {}", out.display()))?;
            eprint!("{sizes}");
            eprintln!("{}", out.display());
        }
        Command::Dist { options, out, allow_dirty } => {
            let sources = Sources::read(&repository, &options.source)?;
            ensure!(
                allow_dirty || !sources.are_changed(),
                "`git status` shows changes, so that nobody could build the same files: commit them, or use DIRTY=1"
            );
            let programs = programs(&repository, &sources, &options)?;
            let (image, sizes) = sources.images(&repository, &programs)?;
            eprint!("{sizes}");
            write(&out, &dist(&repository, &sources, &programs, image)?)?;
        }
    }
    Ok(())
}

fn programs(repository: &Path, sources: &Sources, options: &Options) -> Result<Vec<Program>> {
    let folder = tempfile::tempdir()?;
    let build = |target: &String| {
        let out = folder.path().join(target);
        build(repository, sources, &BuildRequest { target, profile: &options.profile, out: &out })
    };
    options.targets.iter().map(build).collect()
}

fn write(folder: &Path, files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    for (name, content) in files {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        eprintln!("{:>10} {}", content.len(), path.display());
    }
    Ok(())
}
