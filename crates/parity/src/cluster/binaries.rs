//! Where the control plane's programs are; the script beside their pinned modules finds or builds them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The directory of etcd and kube-apiserver.
pub(super) fn servers() -> Result<PathBuf> {
    locate(&["etcd", "kube-apiserver"])
}

/// The directory of kube-controller-manager; apart, because few suites need it and few installations have it.
pub(super) fn manager() -> Result<PathBuf> {
    locate(&["kube-controller-manager"])
}

/// Runs `apiserver/build`. Its progress goes straight to standard error: a first build takes minutes, and a test
/// that looks hung gets killed.
fn locate(names: &[&str]) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("apiserver/build");
    let output = Command::new(&script)
        .args(names)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}; it needs python3", script.display()))?;
    if !output.status.success() {
        bail!("{} ended with {}; it said why above", script.display(), output.status);
    }
    let stdout = String::from_utf8(output.stdout).context("the script's answer is not text")?;
    let Some(dir) = stdout.lines().last() else { bail!("{} printed no directory", script.display()) };
    Ok(PathBuf::from(dir))
}
