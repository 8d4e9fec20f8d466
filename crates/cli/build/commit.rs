//! Which commit is built: from `AILERON_COMMIT`, from the package, or from the git checkout.
//!
//! A checkout says `<hash>` or `<hash>-dirty`. The script runs again when sources of the program change, which builds this package
//! again anyway, and in optimised builds when `HEAD` or its branch moves. In debug builds a commit alone changes nothing: it would
//! build every test again that uses this package. Such a program then shows the commit before, with `-dirty`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Names the commit where there is no checkout, as in an image build.
const VARIABLE: &str = "AILERON_COMMIT";
/// Appended to the commit if tracked files differ from it.
const DIRTY: &str = "-dirty";
/// What is shown if nothing says which commit it is.
const UNKNOWN: &str = "unknown";
/// Cargo writes this file into packages.
const PACKAGE_INFO: &str = ".cargo_vcs_info.json";
/// `release` for all profiles that inherit from it, otherwise `debug`. Cargo sets it.
const PROFILE: &str = "PROFILE";
/// Variables that a git hook sets. They may name another repository than that of the sources.
const HOOK_VARIABLES: [&str; 3] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"];

/// The commit of the sources in this package.
pub fn commit(package: &Path) -> String {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    let named = env::var(VARIABLE).ok().filter(|value| !value.is_empty());
    named.or_else(|| of_package(package)).or_else(|| of_checkout(package)).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The commit from which cargo made this package.
fn of_package(package: &Path) -> Option<String> {
    let text = fs::read_to_string(package.join(PACKAGE_INFO)).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let hash = rest.split('"').nth(1)?;
    let dirty = if text.contains("\"dirty\": true") { DIRTY } else { "" };
    Some(format!("{hash}{dirty}"))
}

fn of_checkout(package: &Path) -> Option<String> {
    let root = PathBuf::from(git(package, &["rev-parse", "--show-toplevel"])?);
    // A copy of the sources inside of another repository has nothing to do with that one's commits.
    if root.join("crates/cli").canonicalize().ok()? != package.canonicalize().ok()? {
        return None;
    }
    let hash = git(package, &["rev-parse", "HEAD"])?;
    if env::var(PROFILE).is_ok_and(|profile| profile == "release") {
        watch(package, "HEAD");
        // Fails if no branch is checked out; then HEAD has the hash.
        if let Some(branch) = git(package, &["symbolic-ref", "--quiet", "HEAD"]) {
            watch(package, &branch);
        }
    }
    for source in sources(package) {
        println!("cargo:rerun-if-changed={}", source.display());
    }
    let changes = git(package, &["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changes.is_empty() { hash } else { format!("{hash}{DIRTY}") })
}

/// Runs the script again when a file of git changes. A branch may be in `packed-refs` only: then its next commit creates a file
/// in the nearest folder that exists. A name of a file that does not exist would run the script in every build.
fn watch(package: &Path, name: &str) {
    let Some(path) = git(package, &["rev-parse", "--git-path", name]) else { return };
    if let Some(existing) = package.join(path).ancestors().find(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", existing.display());
    }
}

/// The folders with the sources of this package and of those that it depends on.
fn sources(package: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut left = vec![package.to_owned()];
    while let Some(package) = left.pop() {
        if found.insert(package.join("src")) {
            left.extend(dependencies(&package));
        }
    }
    found
}

/// The packages of this repository that a package depends on, without those of its tests.
fn dependencies(package: &Path) -> Vec<PathBuf> {
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let names = section.lines().filter_map(|line| line.strip_prefix("aileron-")?.split(['.', ' ']).next());
    names.filter_map(|name| package.parent().map(|crates| crates.join(name))).collect()
}

fn git(directory: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    HOOK_VARIABLES.iter().for_each(|name| {
        command.env_remove(name);
    });
    let output = command.arg("-C").arg(directory).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim_end().to_owned())
}
