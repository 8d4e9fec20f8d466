//! Runs `kubectl`, which the script `kubectl/find` finds or fetches.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::objects;

/// Finds a `kubectl`. The arguments are those of the script `kubectl/find`.
///
/// # Errors
/// There is none, and none can be fetched.
pub fn find_kubectl(arguments: &[&str]) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl/find");
    let output = Command::new(&script)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}; it needs python3", script.display()))?;
    let text = String::from_utf8(output.stdout)?;
    let Some(path) = text.lines().last().filter(|_| output.status.success()) else {
        bail!("{} found no kubectl; its output above has the reason", script.display())
    };
    Ok(path.into())
}

/// The objects of a folder with a `kustomization.yaml`.
///
/// # Errors
/// `kubectl kustomize` refuses the folder.
pub fn kustomize(folder: &Path) -> Result<Vec<Value>> {
    let output = Command::new(find_kubectl(&[])?).arg("kustomize").arg(folder).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl kustomize {}: {said}", folder.display());
    objects(&String::from_utf8(output.stdout)?)
}
