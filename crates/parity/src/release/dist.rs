//! The files of a release.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use toml_edit::DocumentMut;

use super::chart::package_chart;
use super::dockerfile::{Recipe, stages};
use super::image::{Image, LEVEL, hex, layout};
use super::program::Program;
use super::root_certificates::root_certificates;
use super::tar::{Entry, archive, gzip};
use crate::sbom::sbom;

/// An image larger than this is a mistake: the program has about half of that. It is what nodes store, so nothing is compressed.
const LARGEST_IMAGE: usize = 40_000_000;
/// Pages that everybody who gets a program gets, too.
const PAGES: [&str; 3] = ["CHANGELOG.md", "LICENSE", "README.md"];
/// Where the Dockerfile takes the program and the certificates from.
const PROGRAM: &str = "/out/aileron";
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The sources of a release.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The version in `Cargo.toml`.
    pub version: String,
    /// The commit, with `-dirty` if files differ from it.
    pub commit: String,
    /// The time of the commit, in seconds since 1970. Everything in the release has this time.
    pub time: u64,
    /// Where the sources are published; empty if they are not.
    pub url: String,
}

impl Sources {
    /// Reads them from the repository.
    ///
    /// # Errors
    /// It is not a checkout of git.
    pub fn read(repository: &Path, url: &str) -> Result<Self> {
        let manifest: DocumentMut = fs::read_to_string(repository.join("Cargo.toml"))?.parse()?;
        let version = manifest["workspace"]["package"]["version"].as_str().context("Cargo.toml has no version")?;
        let changes = git(repository, &["status", "--porcelain"])?;
        let dirty = if changes.is_empty() { "" } else { "-dirty" };
        Ok(Self {
            version: version.to_owned(),
            commit: git(repository, &["rev-parse", "HEAD"])? + dirty,
            time: git(repository, &["log", "-1", "--format=%ct"])?.parse()?,
            url: url.to_owned(),
        })
    }

    /// Whether files differ from the commit.
    #[must_use]
    pub fn are_changed(&self) -> bool {
        self.commit.ends_with("-dirty")
    }

    /// The image for a program, as the Dockerfile describes it.
    ///
    /// # Errors
    /// The Dockerfile has something that cannot be done without an engine, or the program is not static.
    pub fn image(&self, repository: &Path, program: &[u8]) -> Result<Image> {
        let text = fs::read_to_string(repository.join("Dockerfile"))?;
        let stages = stages(&text)?;
        let arguments = BTreeMap::from([
            ("AILERON_COMMIT".to_owned(), self.commit.clone()),
            ("AILERON_SOURCE".to_owned(), self.url.clone()),
        ]);
        let recipe =
            Recipe::read(stages.last().context("the Dockerfile is empty")?, &arguments).context("Dockerfile")?;
        let certificates = root_certificates();
        let files = BTreeMap::from([(PROGRAM, (0o755, program)), (CERTIFICATES, (0o644, certificates.as_slice()))]);
        Image::new(&recipe, &files, self.time)
    }

    /// The images of all programs in one archive, and a line about the size of each.
    ///
    /// # Errors
    /// An image cannot be made, or is too large.
    pub fn images(&self, repository: &Path, programs: &[Program]) -> Result<(Vec<u8>, String)> {
        let mut images = Vec::new();
        let mut sizes = String::new();
        for program in programs {
            let image = self.image(repository, &program.content)?;
            let (architecture, size) = (image.architecture.name(), image.layer.len());
            ensure!(size <= LARGEST_IMAGE, "the image for {architecture} has {size} bytes, of at most {LARGEST_IMAGE}");
            sizes += &format!("image for {architecture}: {size} bytes, the program {}\n", program.content.len());
            images.push(image);
        }
        Ok((layout(&images, &self.version, self.time)?, sizes))
    }
}

/// The files of a release by their names: an archive and a bill of materials for each program, the chart, the image, and the
/// sums of all of them.
///
/// # Errors
/// One of them cannot be made.
pub fn dist(
    repository: &Path,
    sources: &Sources,
    programs: &[Program],
    image: Vec<u8>,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::from([(format!("aileron-{}-image.tar", sources.version), image)]);
    for program in programs {
        let name = format!("aileron-{}-{}", sources.version, program.target);
        let bill = format!("{:#}\n", sbom(repository, "aileron", &program.target)?).into_bytes();
        let mut entries = vec![Entry::directory(&name)];
        for page in PAGES {
            let content = fs::read(repository.join(page)).with_context(|| format!("reading {page}"))?;
            entries.push(Entry::file(&format!("{name}/{page}"), 0o644, content));
        }
        entries.push(Entry::file(&format!("{name}/aileron"), 0o755, program.content.clone()));
        files.insert(format!("{name}.tar.gz"), gzip(&archive(&entries, sources.time)?, LEVEL)?);
        files.insert(format!("{name}.cdx.json"), bill);
    }
    let (chart, content) = package_chart(&repository.join("deploy/helm/aileron"), sources.time)?;
    files.insert(chart, content);
    // As `sha256sum --check` reads it.
    let sums: String = files.iter().map(|(name, content)| format!("{}  {name}\n", hex(content))).collect();
    files.insert("SHA256SUMS".to_owned(), sums.into_bytes());
    Ok(files)
}

fn git(repository: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").arg("-C").arg(repository).args(arguments).output().context("running git")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {} failed: {said}", arguments.join(" "));
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}
